"""Tables of counts as formats write them, drawn by Hypothesis, and the judge of what a reader finds in a file."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as hs

from sdc.config.publication import PublicationConfig
from sdc.model.schema import is_plain
from sdc.publish.formats.table import CountTable, Dimension
from sdc.run_format import COUNT, STATUS, TOTAL, in_csv

Rows = list[tuple[Any, ...]]

ABOUT = PublicationConfig(
    population="men", period="1981", source="a study", licence="CC-BY-4.0", contact="a desk", notes=("Exact.", "Twice.")
)

NASTY = ["", " ", "a", "01", "001", '"', "'", ",", "a,b", ";", 'say "no"', "a\nb", "\r", "a\r\nb", "\t", "<b>", "&amp;"]
NASTY += ["]]>", "=1+1", "'=x", "-5", "+1", "@x", "|", "#", "\\", "中文", "é", "null", "NaN", "0", "1e3", " a ", "😀"]
NASTY += ["שלום", "مرحبا", "\u200fa", "\u202eabc", "\u00a0", "{}", "_T", "DATA=", "true", "2024-01-01", "x" * 300]
TAME = ["01", "1", "a", "a b", "a-b", "<140", ">=140", "中文", "שלום", "é", "a;b", "it's", "10+", "x=y"]
SEEN = hs.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]).filter(is_plain)
PLAIN = hs.text(SEEN, min_size=1, max_size=4)
ANY = hs.sampled_from(NASTY) | hs.text(hs.characters(codec="utf-8"), max_size=4)


@hs.composite
def tables(draw: hs.DrawFn, texts: hs.SearchStrategy[str] = ANY) -> CountTable:
    """Up to three variables with these names and categories, few or most of their cells with records, or none."""
    names = draw(hs.lists(texts.filter(lambda text: text not in (COUNT, "")), min_size=1, max_size=3, unique=True))
    many = draw(hs.sampled_from([False, False, False, True]))  # one variable has many categories
    dimensions = tuple(draw(dimension(name, texts, many and name == names[0])) for name in names)
    space = [len(d.categories) for d in dimensions]
    cell, count = hs.integers(0, int(np.prod(space)) - 1), hs.sampled_from([1, 2, 10, 2**45])
    drawn = draw(hs.dictionaries(cell, count, max_size=20))
    at, counts = np.array(sorted(drawn), np.int64), np.array([drawn[cell] for cell in sorted(drawn)], np.int64)
    codes = np.array(np.unravel_index(at, space), np.uint16).T.reshape(len(at), len(space))
    about = draw(hs.sampled_from([ABOUT, PublicationConfig()]))
    zeros, totals, chunk = draw(hs.booleans()), draw(hs.booleans()), draw(hs.sampled_from([1, 14, 1 << 18]))
    table = CountTable("001_t", "Workers", dimensions, codes, counts, about, zeros, totals, chunk=chunk)
    if STATUS in names or draw(hs.booleans()):
        return table
    return in_part(table, draw(hs.sets(cell, min_size=1, max_size=4)), draw(hs.sets(hs.sampled_from(names))))


def in_part(table: CountTable, withheld: set[int], kept: set[str]) -> CountTable:
    """The same with these cells withheld beside the sub-table over some of its variables, where these are some."""
    space, counts = table.space if not table.totals else replace(table, totals=False).space, table.counts
    is_withheld = np.isin(space.pack(table.codes), sorted(withheld))
    within = []
    if 0 < len(kept) < len(table.dimensions):
        own = [place for place, dimension in enumerate(table.dimensions) if dimension.name in kept]
        first, group = space.restricted(own).distinct(table.codes[:, own])
        summed = np.array([counts[group == k].sum() for k in range(len(first))], np.int64)
        dimensions = tuple(table.dimensions[place] for place in own)
        within.append(replace(table, dimensions=dimensions, codes=table.codes[first][:, own], counts=summed))
    shown = replace(table, codes=table.codes[~is_withheld], counts=counts[~is_withheld])
    return shown.without(space.unpack(np.array(sorted(withheld))), within, int(counts.sum()))


@hs.composite
def dimension(draw: hs.DrawFn, name: str, texts: hs.SearchStrategy[str], many: bool) -> Dimension:
    """A variable with up to four categories, or with many; with labels or without."""
    few = hs.lists(texts.filter(lambda text: text != TOTAL), min_size=1, max_size=4, unique=True)
    categories = tuple(f"{n:03}" for n in range(120)) if many else tuple(draw(few))
    labels = tuple(f"{category}." for category in categories) if draw(hs.booleans()) else categories
    unit, note = draw(hs.sampled_from([(None, None), ("years", "of age")]))
    return Dimension(name, categories, draw(hs.sampled_from([name, f"{name}!"])), labels, unit, note)


def expected(table: CountTable) -> Rows:
    """Every cell by adding up what is in it, in order, the total last; zeros where they are wanted.

    None where a cell that is withheld is in it, but for what is told of it elsewhere.
    """
    added: dict[tuple[str, ...], int | None] = {}
    for cell, count in cells(table):
        for asked in product(*((category, TOTAL) if table.totals else (category,) for category in cell)):
            before = added.get(asked, 0)
            added[asked] = None if before is None or count is None else before + count
    added |= {cell: told_elsewhere(table, cell) for cell, count in added.items() if count is None}
    total = (TOTAL,) if table.totals else ()
    every = product(*((*d.categories, *total) for d in table.dimensions))
    return [(*cell, added.get(cell, 0)) for cell in every if table.zeros or added.get(cell, 0) != 0]


def cells(table: CountTable) -> Iterator[tuple[list[str], int | None]]:
    """With records or withheld."""
    told = zip(table.codes.tolist(), table.counts.tolist(), strict=True)
    withheld = [] if table.withheld is None else table.withheld.tolist()
    for code, count in [*told, *((code, None) for code in withheld)]:
        yield [d.categories[c] for d, c in zip(table.dimensions, code, strict=True)], count


def told_elsewhere(table: CountTable, cell: tuple[str, ...]) -> int | None:
    """What a total that has withheld cells in it is known to be."""
    kept = {d.name: category for d, category in zip(table.dimensions, cell, strict=True) if category != TOTAL}
    if not kept:
        return table.records
    for other in table.within:
        names = [d.name for d in other.dimensions]
        if {*kept} <= {*names}:
            own = ((dict(zip(names, own, strict=True)), count) for own, count in cells(other))
            return sum(count or 0 for own, count in own if kept.items() <= own.items())
    return None


def with_records(rows: Rows) -> Rows:
    return [row for row in rows if row[-1] != 0]


def told(table: CountTable, row: Sequence[Any], withheld: str = "withheld", shown: str = "") -> tuple[Any, ...]:
    """A row as it is read, without its status, which says of the count alone whether it is withheld."""
    if table.withheld is None:
        return (*row[:-1], int(row[-1]))
    *cell, count, status = row
    assert (status or "") == (withheld if count in ("", None) else shown)
    return (*cell, None if count in ("", None) else int(count))


def small(*categories: str, name: str = "A", **more: Any) -> CountTable:
    """One variable with these categories, the first of which has 5 records."""
    variable = Dimension(name, categories, name, categories)
    return CountTable("001_t", "Workers", (variable,), np.zeros((1, 1), np.uint16), np.array([5]), **more)


def has_no_xml(table: CountTable) -> bool:
    return any(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text) for _, text in table.texts)


def written(pieces: Any) -> bytes:
    return b"".join(pieces)


def as_in_csv(rows: Rows) -> Rows:
    return [(*map(in_csv, row[:-1]), row[-1]) for row in rows]
