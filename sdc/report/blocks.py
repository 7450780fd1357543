"""Sections of the audit report: paragraphs, tables that fold, and one figure at most."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from markupsafe import Markup

from sdc.model.schema import Schema
from sdc.page_templates import page_templates
from sdc.report.svg import short

TIMES, SUPERSCRIPT = " \N{MULTIPLICATION SIGN} ", str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LONGEST_NAME = 40
Cell = str | int | float | None


@dataclass(frozen=True)
class TextBlock:
    """A paragraph, with the id of it on the page where it has one."""

    words: str
    key: str = ""


@dataclass(frozen=True)
class FigureBlock:
    """An SVG with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class ListBlock:
    """A table; its columns are named `First | #Second`, with # before those of numbers.

    key      its id on the page
    total    number of rows, where `rows` are the first of them; the others are in `folder`, or in none
    is_open  shown and printed without a click
    """

    key: str
    title: str
    columns: str
    rows: Sequence[Sequence[Cell]]
    total: int = 0
    folder: str = ""
    is_open: bool = False

    @property
    def heads(self) -> list[tuple[str, str]]:
        """Name and class of each column."""
        return [(name.removeprefix("#"), "n" if name.startswith("#") else "") for name in self.columns.split(" | ")]

    @property
    def written(self) -> Iterator[list[tuple[str, str]]]:
        """Text and class of each cell, by row."""
        for row in self.rows:
            yield [(written(cell), of) for cell, (_, of) in zip(row, self.heads, strict=True)]

    @property
    def more(self) -> str:
        """How many rows are not shown, and the folder of the run that has them."""
        if self.total <= len(self.rows):
            return ""
        place = f"; all of them are in the folder {self.folder} of the run" if self.folder else ""
        return f"{number(self.total - len(self.rows))} more rows are not shown{place}."


Block = TextBlock | FigureBlock | ListBlock


@dataclass(frozen=True)
class PageSection:
    """A numbered part of the report; key is its id on the page."""

    number: int
    key: str
    title: str
    blocks: tuple[Block, ...]


def written(cell: Cell) -> str:
    """A cell of a table as text."""
    if cell is None:
        return "not known"
    if isinstance(cell, str):
        return cell
    return number(cell) if isinstance(cell, int) else amount(cell)


def number(value: int) -> str:
    """With separators, from 10^15 on as a power of ten."""
    if value < 10**15:
        return f"{value:,}"
    mantissa, exponent = f"{value:.2e}".split("e+")
    return f"{mantissa}{TIMES}10{exponent.translate(SUPERSCRIPT)}"


def amount(value: float) -> str:
    """A utility: whole numbers in full, others to six digits."""
    if float(value).is_integer() and abs(value) < 10**15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if abs(value) < 10**6 else short(value)


def interval(ends: Iterable[int]) -> str:
    """`[0, 9]`."""
    low, high = ends
    return f"[{low:,}, {high:,}]"


def few(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    named = ", ".join(names[:most])
    return named if len(names) <= most else f"{named} and {len(names) - most:,} more"


def because(label: str, why: str) -> str:
    """A reason as a sentence that names its sub-table."""
    return f"{why}." if label in why else f"{label}: {why}."


def pairs(cell: Iterable[int], schema: Schema) -> Markup:
    """Axis and category of a cell, for a table."""
    one = Markup("<span><i>{}</i> {}</span>")
    return Markup(" ").join(one.format(shorten(name), shorten(c)) for name, c in schema.named(cell).items())


def named_cell(cell: Iterable[int], schema: Schema) -> str:
    """`A=no, B=yes`."""
    return ", ".join(f"{shorten(name)}={shorten(category)}" for name, category in schema.named(cell).items())


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


TEMPLATES = page_templates("sdc.report")
TEMPLATES.filters["number"] = number
# the policy of a page names its script by this, so that no other one runs
TEMPLATES.filters["digest"] = lambda script: b64encode(sha256(script.encode()).digest()).decode()
