"""Released sub-tables as bytes: every format, a chunk of cells at a time, so that memory stays bounded."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from socket import gethostname
from tempfile import NamedTemporaryFile, gettempdir
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from sdc.model.errors import ReleaseError
from sdc.model.table import Table
from sdc.publish.formats import CountTable
from sdc.publish.formats.csv import csv
from sdc.publish.formats.json_stat import json_stat
from sdc.publish.formats.parquet import parquet
from sdc.publish.formats.px import px
from sdc.publish.formats.table import Chunks, Dimension, Pieces, TextRows, cells_of, texts_of
from sdc.publish.formats.xlsx import xlsx
from sdc.publish.formats.xml import xml
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.report.svg import element
from sdc.run_format import COUNT, STATUS, TOTAL, WITHHELD_STATUS
from sdc.server.service.outcome import SuppressedAnswer
from sdc.server.web.problems import Problem

MOST_KEPT = 64 << 20  # bytes of an answer that is written to a file
MAX_ACROSS = 50  # categories: a wider table is not one that a person reads
MARK = ".."  # of a suppressed count, for people
SUPPRESSED_NOTE = f"The count of a cell with {MARK} is suppressed. Other public tables limit it."
TEMPORARY = f"sdc-answer-{gethostname()}-"  # files of this machine, then comes the process
WRITING = 2  # to be raised where the same table becomes other bytes


@dataclass(frozen=True)
class Shape:
    """What is listed beside the cells with records.

    zeros   the cells without records too
    totals  each variable has a last category `(total)`, so that all marginals are there, down to the grand total
    """

    zeros: bool = False
    totals: bool = False


@dataclass(frozen=True)
class Answer:
    """A released sub-table, and how it is to be listed, by its axes.

    public  its marginal, of its variables only; its cells but for some; or of the grand total the number of records
    texts   labels, and what the table is of, for the formats that people read or that can carry them

    ReleaseError where a variable is called as a column of numbers or of the status. Problem where there is no room for
    a total among the categories, or the zeros wanted are more than can be numbered.
    """

    title: str
    public: Table | SuppressedAnswer | int
    shape: Shape = Shape()
    texts: Texts = NO_TEXTS

    def __post_init__(self) -> None:
        _ = self.table  # raises what is wrong

    @cached_property
    def table(self) -> CountTable:
        """As published formats are made of it; suppressed cells have the count -1."""
        if isinstance(self.public, int):
            codes, counts = np.zeros((1, 0), np.uint16), np.array([self.public], np.int64)
            table = CountTable(TOTAL, self.title, (), codes, counts, self.texts.about)
        else:
            shown = self.public.marginal if isinstance(self.public, SuppressedAnswer) else self.public
            name = "*".join(shown.schema.names[axis] for axis in shown.schema.axes)
            given = tuple(Dimension.of(shown.schema.variables[axis], self.texts.labels) for axis in shown.schema.axes)
            table = CountTable(name, self.title, given, shown.codes, shown.counts, self.texts.about)
        if isinstance(self.public, SuppressedAnswer):
            listed = self.public.within if self.shape.totals else ()
            within = [Answer(self.title, one, Shape(totals=True), self.texts).table for one in listed]
            table = table.without(self.public.suppressed, within, self.public.records)
        try:
            return replace(table, zeros=self.shape.zeros, totals=self.shape.totals)
        except ReleaseError as error:
            what, _, advice = str(error).partition(";")
            raise Problem("unknown-format", f"{what}; ask without {advice.rpartition(' ')[2]}") from error


@dataclass(eq=False)
class AnswerFile:
    """A written answer in a temporary file, which is removed when nobody uses it any more."""

    path: str
    size: int = 0

    def __post_init__(self) -> None:
        weakref.finalize(self, Path(self.path).unlink, missing_ok=True)

    def hold(self) -> None:
        """Do nothing: an answer that calls this at its end keeps the file until then."""


def written(answer: Answer, format: AnswerFormat) -> AnswerFile | Iterator[bytes]:
    """A file with the whole answer, of which clients may read ranges; of a large one its pieces. Errors as `write`."""
    found = format.write(answer)
    try:
        with NamedTemporaryFile(prefix=f"{TEMPORARY}{os.getpid()}-", delete=False) as file:
            kept = AnswerFile(file.name)
            for piece in found:
                file.write(piece)
                if file.tell() > MOST_KEPT:
                    file.flush()
                    return chain(_read(open(file.name, "rb")), found)
            kept.size = file.tell()
        return kept
    except OSError:  # the disk is full
        return format.write(answer)


def remove_left_files() -> None:
    """Remove the files of this user's servers on this machine that were killed."""
    for path in Path(gettempdir()).glob("sdc-answer-*"):
        process = path.name.removeprefix(TEMPORARY).partition("-")[0]
        # it may be gone meanwhile, or be another user's
        with suppress(OSError):
            is_left = process.isdecimal() and len(process) < 10 and not psutil.pid_exists(int(process))
            if is_left and path.lstat().st_uid == os.getuid():
                path.unlink()


def _read(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(1 << 20):
            yield piece


def etag(
    public_id: str,
    names: Sequence[str],
    format: AnswerFormat,
    shape: Shape,
    texts: Texts = NO_TEXTS,
    in_part: Sequence[Sequence[str]] | None = None,
) -> str:
    """A strong entity tag: what is released never changes, so that what was asked for says it all, and no count does.

    `in_part` names, of a suppressed table, the variables of all that tell its totals, which may become more.
    """
    asked = [WRITING, public_id, list(names), format.suffix, shape.zeros, shape.totals, texts.given]
    asked += [] if in_part is None else [list(map(list, in_part))]
    return f'"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]}"'


def file_name(names: Sequence[str], format: AnswerFormat) -> str:
    """What a download is called: letters, digits, hyphens and underscores, at most 80 of them, and the suffix."""
    return f"{stem(names)}.{format.suffix}"


def stem(names: Iterable[str]) -> str:
    """The name of a file without its suffix, and of a sheet or matrix."""
    words = [re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") for name in names]
    return "_".join(filter(None, words))[:80] or "table"


# The formats that are published too


def _published(write: Callable[[CountTable], Pieces], answer: Answer) -> Pieces:
    """By the writer of publication; Problem where the format cannot hold the answer."""
    try:
        return write(answer.table)
    except ReleaseError as error:
        raise Problem("unknown-format", f"{str(error).partition(';')[0]}; take CSV, JSON or Parquet") from error


def in_file(table: CountTable) -> CountTable:
    """The table by a name that a sheet and a matrix may have."""
    return replace(table, name=stem(variable.name for variable in table.dimensions))


# JSON


def _json(answer: Answer) -> Pieces:
    """What the table is about, and an object a cell, which any language reads into a data frame as it is.

    A suppressed cell has the count null and a status.

    {"title": "Workers", "variables": ["A", "B"], "categories": {"A": ["no", "yes"], "B": ["no", "yes"]},
    "records": 1841, "cells": [{"A": "no", "B": "yes", "count": 3}, ...]}; `labels` and `about` where they are given
    """
    variables = answer.table.variables
    names = [variable.name for variable in variables]
    content = {
        "title": answer.title,
        "variables": names,
        "categories": {variable.name: variable.categories for variable in variables},
        "records": answer.table.records,
        **answer.texts.of(names).given,
    }
    words = [[f"{_dumped(variable.name)}:{_dumped(c)}," for c in variable.categories] for variable in variables]
    form = TextRows(
        _dumped(content).removesuffix("}") + ',"cells":[\n', "\n]}\n", words, "{", f"{_dumped(COUNT)}:", "}", ",\n"
    )
    return form.written(cells_of(answer.table, withheld=f"null,{_dumped(STATUS)}:{_dumped(WITHHELD_STATUS)}"))


def _dumped(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


# Text


def _txt(answer: Answer) -> Pieces:
    """Title, number of records, and aligned columns between two spaces, below a line that shows how wide they are.

    What the table is of comes after it.
    """
    widths = [max(map(_wide, (variable.label, *variable.labels))) for variable in answer.table.variables]
    figures = max(len(COUNT), len(str(answer.table.records)))
    sized = list(zip(answer.table.variables, widths, strict=True))
    words = [[_padded(label, width) for label in variable.labels] for variable, width in sized]
    names = "".join(_padded(variable.label, width) for variable, width in sized) + COUNT.rjust(figures)
    rule = "  ".join("-" * width for width in (*widths, figures))
    head = f"{answer.title}\n{_of_what(answer)}\n\n{names}\n{rule}\n"
    aligned = ((codes, pc.utf8_lpad(texts, figures)) for codes, texts in cells_of(answer.table, withheld=MARK))
    said = _foot(answer)
    foot = "".join(f"{text}\n" for text in ("", *said)) if said else ""
    return TextRows(head, foot, words, end="\n").written(aligned)


def _foot(answer: Answer) -> list[str]:
    """The text below a table: of its variables, and of the whole publication."""
    said = [(one.label, ", ".join(filter(None, (one.note, one.unit)))) for one in answer.table.variables]
    about = answer.texts.about
    marks = [] if answer.table.withheld is None else [SUPPRESSED_NOTE]
    return [*(f"{what}: {text}" for what, text in (*said, *about.facts.items()) if text), *about.notes, *marks]


def _wide(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _wide(text) + 2)


def _of_what(answer: Answer) -> str:
    """`A by B: 1,841 records`."""
    called = " by ".join(variable.label for variable in answer.table.variables)
    return ": ".join(filter(None, [called, f"{answer.table.records:,} records"]))


# HTML


def _html(answer: Answer) -> Pieces:
    """A table for a page, without the page.

    The last of two or more variables goes across, in which cells without records are 0, unless it is too wide.
    """
    variables = answer.table.variables
    crossed = len(variables) > 1 and len(variables[-1].categories) <= MAX_ACROSS
    down = variables[:-1] if crossed else variables
    header = _header_across(down, variables[-1]) if crossed else _header(down)
    caption = element("caption", element("strong", answer.title), Markup("<br>"), _of_what(answer))
    head = Markup('<table class="counts">\n{}\n{}\n<tbody>\n').format(caption, header)
    words = [_headings(variable, "row") for variable in down]
    start = "<tr>" if down else '<tr><th scope="row">All records</th>'
    foot = Markup("").join(element("p", text, class_="soft") + "\n" for text in _foot(answer))
    form = TextRows(head, Markup("</tbody>\n</table>\n") + foot, words, start, "<td>", "</td></tr>\n")
    return form.written(_across(answer) if crossed else cells_of(answer.table, withheld=MARK))


def _headings(variable: Dimension, scope: str) -> list[Markup]:
    return [
        element("th", label, scope=scope, class_="total" if category == TOTAL else None)
        for category, label in zip(variable.categories, variable.labels, strict=True)
    ]


def _header(down: Iterable[Dimension]) -> Markup:
    names = [*(variable.label for variable in down), COUNT]
    if len(names) == 1:  # of the grand total, which says itself what it is
        return Markup("")
    return element("thead", element("tr", *(element("th", name, scope="col") for name in names)))


def _header_across(down: Iterable[Dimension], last: Dimension) -> Markup:
    names = [element("th", variable.label, scope="col", rowspan=2) for variable in down]
    above = element("th", last.label, scope="colgroup", colspan=len(last.categories))
    return element("thead", element("tr", *names, above), element("tr", *_headings(last, "col")))


def _across(answer: Answer) -> Chunks:
    for codes, counts in answer.table.crossed():
        edges = pa.array(np.arange(0, counts.size + 1, counts.shape[1]))
        rows = pa.LargeListArray.from_arrays(edges, texts_of(counts.reshape(-1), MARK))
        yield codes, pc.binary_join(rows, pa.scalar("</td><td>", pa.large_string()))


# All formats


@dataclass(frozen=True)
class AnswerFormat:
    """How a sub-table is written: the end of its address, what HTTP and pages call it, and its writer.

    What is wrong is raised by `write`, not by its first piece: Problem where the format cannot hold the answer. Memory
    is that of the cells listed, for totals too, and of a few pieces.
    """

    suffix: str
    media_type: str
    label: str
    write: Callable[[Answer], Pieces]

    @property
    def range(self) -> str:
        """The media type as `Accept` names it, without parameters."""
        return self.media_type.partition(";")[0]


def format_of(suffix: str | None, accept: str) -> AnswerFormat:
    """The format by the suffix of the address where it has one, else the one that the header `Accept` likes best.

    JSON where the header says nothing or `*/*`: a browser says that it wants HTML. Problem where none is had; media
    ranges that cannot be read count for nothing.
    """
    if suffix is not None:
        if suffix not in FORMATS:
            raise Problem("unknown-format", f"there is no format {suffix[:40]!r}; there are {', '.join(FORMATS)}")
        return FORMATS[suffix]
    ranges = dict(_ranges(accept.strip() or "*/*"))
    best = max(FORMATS.values(), key=lambda format: _quality(format, ranges))
    if not _quality(best, ranges):
        had = ", ".join(format.range for format in FORMATS.values())
        raise Problem("unknown-format", f"Accept: {accept[:200]!r} names no available format; choose from {had}")
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Media ranges with their weights; RFC 9110, section 12.5.1."""
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weights = [value for key, _, value in (p.partition("=") for p in parameters) if key.strip() == "q"]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            continue
        if 0 <= weight <= 1:
            yield name, weight


def _quality(format: AnswerFormat, ranges: Mapping[str, float]) -> float:
    """The weight of the range that fits best, and not the largest: `text/*, text/csv;q=0` is all text but CSV."""
    fitting = (format.range, format.range.partition("/")[0] + "/*", "*/*")
    return next((ranges[name] for name in fitting if name in ranges), 0.0)


PARQUET, _PX = "application/vnd.apache.parquet", "application/x-pc-axis; charset=utf-8"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_ALL = (
    AnswerFormat("json", "application/json", "JSON", _json),
    AnswerFormat("html", "text/html; charset=utf-8", "HTML", _html),
    AnswerFormat("txt", "text/plain; charset=utf-8", "Text", _txt),
    AnswerFormat("csv", "text/csv; charset=utf-8", "CSV", partial(_published, csv)),
    AnswerFormat("xml", "application/xml", "XML", partial(_published, xml)),
    # registered nowhere; this is what clients of statistical offices ask for
    AnswerFormat("jsonstat", "application/json-stat+json", "JSON-stat", partial(_published, json_stat)),
    AnswerFormat("parquet", PARQUET, "Parquet", partial(_published, partial(parquet, is_coded=True))),
    AnswerFormat("px", _PX, "PX", partial(_published, lambda table: px(in_file(table)))),
    AnswerFormat("xlsx", XLSX, "Excel", partial(_published, lambda table: xlsx([in_file(table)]))),
)
FORMATS: Mapping[str, AnswerFormat] = MappingProxyType({format.suffix: format for format in _ALL})
"""All formats by suffix; of those that a client likes equally well it gets the first."""
