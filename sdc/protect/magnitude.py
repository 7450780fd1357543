"""Magnitude tables: sums of a column, published where all cells pass, or aggregated along hierarchies until they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, pairwise, product
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sdc.model.alike import Alike, alikes, decimal_of, require_apart
from sdc.model.errors import InputError, NotReleasableError, many
from sdc.model.named import Rows, Tabular
from sdc.model.totals import is_reserved, is_usual
from sdc.protect.dominance import Judged, Rules, Values, judge

PLACES, MOST_PLACES = 6, 18  # decimals of a unit where the values have no more, and at most
LIMIT = 10 ** (18 + MOST_PLACES)  # of a value, in the finest unit
ALL = "(all)"
MOST_QUOTED, MOST_NAMED = 100, 10_000
OUTPUT = ("total", "part")  # columns of what is published
Names: TypeAlias = tuple[str, ...]
Coded: TypeAlias = Mapping[str, tuple[list[str], Values]]
"""Of each column its categories, and the code of each record."""


@dataclass(frozen=True)
class MagnitudeRequest:
    """What is summed by what.

    groupings    the variables of each table; coarser  of a variable its coarser columns, the finest first
    contributor  the column that says whose a record is; without it each record is another's
    """

    value: str
    groupings: tuple[Names, ...]
    coarser: Mapping[str, tuple[str, ...]]
    contributor: str | None

    @staticmethod
    def of(
        value: str,
        variables: Sequence[str],
        also: Sequence[str | Sequence[str]],
        hierarchies: Mapping[str, str | Sequence[str]] | None,
        contributor: str | None,
    ) -> MagnitudeRequest:
        """InputError for what makes no table; `also` may write a grouping as region*size."""
        try:
            groupings = [tuple(variables), *(tuple(g.split("*") if isinstance(g, str) else g) for g in also)]
            coarser = {n: (own,) if isinstance(own, str) else tuple(own) for n, own in dict(hierarchies or {}).items()}
        except (TypeError, ValueError):
            raise InputError(
                'also is a list of groupings, such as ["region*size"], and hierarchies gives a variable its coarser '
                'columns, such as {"place": ["county"]}; give them so'
            ) from None
        for grouping in groupings:
            if not grouping:
                raise InputError("a table has no grouping variable; name at least one")
            if len(set(grouping)) < len(grouping) or groupings.count(grouping) > 1:
                raise InputError(f"{'*'.join(grouping)} is listed twice, or lists a variable twice; list each once")
        found = MagnitudeRequest(value, tuple(groupings), coarser, contributor)
        if value in found.columns:
            raise InputError(f"{value!r} is summed, and would be published by its own values; name another column")
        if unknown := [name for name in coarser if name not in found.names]:
            has = ", ".join(found.names)
            raise InputError(f"a hierarchy is given for {unknown[0]!r}, which no grouping has; choose from {has}")
        for name, levels in coarser.items():
            if len({name, *levels}) <= len(levels):
                raise InputError(f"the hierarchy of {name!r} names {', '.join(levels)}; name each level once")
        if clash := [name for name in (*found.names, *chain(*coarser.values())) if name in OUTPUT]:
            raise InputError(f"a column of sums is called {clash[0]!r}; rename that of the records")
        return found

    @property
    def names(self) -> Names:
        """The variables of all groupings."""
        return tuple(dict.fromkeys(chain(*self.groupings)))

    @property
    def columns(self) -> Names:
        """All columns that are read as names."""
        who = () if self.contributor is None else (self.contributor,)
        return tuple(dict.fromkeys((*self.names, *chain(*self.coarser.values()), *who)))


class FailingCell(NamedTuple):
    """A cell that is not published: its categories by level, the rule that it fails, and by which figures.

    It is as confidential as the records.
    """

    cell: Mapping[str, str]
    rule: str
    figures: str

    def __str__(self) -> str:
        where = "  ".join(f"{name}={text}" for name, text in self.cell.items() if text != ALL)
        return f"{where or 'the total'}: fails {self.rule}, {self.figures}"


@dataclass(frozen=True, eq=False, repr=False)
class MagnitudeTable(Tabular):
    """Sums by cell, of which every cell passes the rules.

    variables     those of all groupings; levels  the column that stands for each: itself, a coarser one, or `(all)`,
                  which here is that of the variables that a table is not by
    chosen        the level of each variable in all tables, by which it is called where it is published
    cells         for each row its categories; totals  (rows,) in units of 10^-places
    contributors  (rows,) with more than 0; contributor  the column that says who they are, None if each record is
                  another's
    part          "" or, where negative values are split, "positive" or "negative"
    failing       cells that fail at the levels that are not published; confidential, and in no row

    Examples
    --------
    >>> import pyarrow as pa
    >>> sales = pa.table({"region": [*"nnn"], "sales": [5, 6, 7]})
    >>> sdc.magnitude_table(sales, value="sales", by="region", contributors=3)["region"]
    Sums by region of 1 cell; each record has its own contributor
    """

    variables: Names
    levels: Names
    chosen: Names
    cells: tuple[Names, ...]
    totals: tuple[int, ...]
    contributors: tuple[int, ...]
    part: str
    places: int
    contributor: str | None
    failing: tuple[FailingCell, ...] = ()

    @property
    def headline(self) -> str:
        by = "*".join(dict.fromkeys(level for level in self.levels if level != ALL)) or "(total)"
        part = f", {self.part} values" if self.part else ""
        who = "each record has its own contributor" if self.contributor is None else f"whose by {self.contributor}"
        return f"Sums by {by} of {many(len(self.cells), 'cell')}{part}; {who}"

    @property
    def tables(self) -> Mapping[str, MagnitudeTable]:
        """Itself by the columns that it is by."""
        return {"*".join(dict.fromkeys(level for level in self.levels if level != ALL)) or "(total)": self}

    def by_name(self) -> dict[str, Sequence[Any]]:
        """Its cells with their sums, exact decimals."""
        rows, names = self.rows, _heads(self.variables, self.chosen)
        totals = [Decimal(row["total"]) for row in rows]
        return {**{name: [row[name] for row in rows] for name in names}, "total": totals}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each cell by names with its sum as a decimal text."""
        heads = _heads(self.variables, self.chosen)
        named = [_by_level(heads, cell) for cell in self.cells]
        return [{**cell, "total": written(total, self.places)} for cell, total in zip(named, self.totals, strict=True)]


class MagnitudeTables(Rows[MagnitudeTable], Tabular):
    """The tables of sums that were judged together: a tuple of them, and by name in `tables`."""

    @property
    def headline(self) -> str:
        return "; ".join(one.headline for one in self)

    @property
    def tables(self) -> Mapping[str, MagnitudeTable]:
        parts = {(name, one.part): one for one in self for name in one.tables}
        return {f"{name} ({part})" if part else name: one for (name, part), one in parts.items()}

    def __getitem__(self, asked: Any) -> Any:
        return tuple.__getitem__(self, asked) if isinstance(asked, int | slice) else Tabular.__getitem__(self, asked)

    def by_name(self) -> dict[str, Sequence[Any]]:
        """The rows of all tables, with the sign of the values where they were split by it."""
        found = dict[str, list[Any]]()
        for one in self:
            rows = one.by_name()
            for name, column in {**rows, **({"part": [one.part] * len(one.cells)} if one.part else {})}.items():
                found.setdefault(name, []).extend(column)
        return dict(found)


def _heads(variables: Sequence[str], chosen: Sequence[str]) -> Names:
    """What columns are called: a level's name where there is one, for its categories are not those of the variable."""
    return tuple(name if level == ALL else level for name, level in zip(variables, chosen, strict=True))


def _by_level(heads: Sequence[str], cell: Sequence[str]) -> dict[str, str]:
    """By the names of levels; two variables at one level are one column, for they have one category where both are."""
    found: dict[str, str] = {}
    for head, category in zip(heads, cell, strict=True):
        if found.get(head, ALL) == ALL:
            found[head] = category
    return found


def written(total: int, places: int = PLACES) -> str:
    """A sum in units of 10^-places as a decimal number, without zeros that say nothing."""
    whole, rest = divmod(abs(total), 10**places)
    digits = f"{rest:0{places}}".rstrip("0")
    return f"{'-' if total < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def magnitude_table(
    records: pa.Table,
    sums: MagnitudeRequest,
    rules: Rules,
    *,
    unique: bool = False,
    negative: str = "refuse",
    alike: Alike = "refuse",
    decimals: int | None = None,
    decimal: str = ".",
) -> MagnitudeTables:
    """The sums of a column, by the finest levels at which all cells pass; two tables where values are split by sign.

    records   the value as it is stored, and the other columns of the sums as names
    unique    refuse a contributor that has several records
    negative  refuse values below 0, or split the records by sign
    alike     refuse names that are alike, such as Alba and "Alba ", merge them, or keep them apart
    decimals  to which values are rounded, half to even; without it floats are to 6, and nothing else is
    decimal   the decimal sign of values that are text

    Sums by some groupings hold no more than sums by all their variables at once, and where each cell of these passes,
    so does each union of them: of a union the n largest hold no more than the n largest of
    each cell together, and the same is true of what is left without the two largest.

    Of the levels at which these pass those with the most cells in the groupings, of equal ones the first. Which levels
    these are depends on the values, and is public with the table. NotReleasableError where not even the total passes;
    InputError for missing, infinite or textual values, values below 0 unless they are split, and levels that are not
    nested.
    """
    for name, given, choices in (("negative", negative, ("refuse", "split")), ("alike", alike, get_args(Alike))):
        if given not in choices:
            raise InputError(f"{name} = {given!r}; choose {' or '.join(choices)}")
    if unique and sums.contributor is None:
        raise InputError("unique = True, and no column identifies the contributor of a record; name it as contributor")
    values, places = _values(records.column(sums.value), sums.value, decimals, decimal)
    coded = {name: _coded(records.column(name), name, alike, decimal) for name in sums.columns}
    owners = np.arange(len(values)) if sums.contributor is None else _owners(coded, sums.contributor, unique)
    _require_nested(coded, sums.coarser)
    _require_no_totals({name: coded[name] for name in (*sums.names, *chain(*sums.coarser.values()))}, values)
    parts = _parts(values, owners, sums.value, negative)
    most, best, failing, names = 0, list[MagnitudeTable](), list[FailingCell](), sums.names
    for chosen in product(*([name, *sums.coarser.get(name, ()), ALL] for name in names)):
        heads = _heads(names, chosen)
        if too_fine := [cell for part in parts for cell in part.failing(chosen, heads, coded, rules, places)]:
            failing += too_fine[: MOST_NAMED - len(failing)]
            continue
        own = dict.fromkeys(
            tuple(c if n in kept else ALL for n, c in zip(names, chosen, strict=True)) for kept in sums.groupings
        )
        # groupings that differ in variables alone, and not in levels, have one table
        shown = {frozenset(levels) - {ALL}: levels for levels in reversed(own)}
        tables = {
            kind: [
                MagnitudeTable(names, levels, chosen, found[0], found[1], found[2], part.name, places, sums.contributor)
                for part in parts
                if (found := part.table(levels, coded, rules)) is not None
            ]
            for kind, levels in reversed(shown.items())
        }
        size = sum(len(one.cells) for levels in own for one in tables[frozenset(levels) - {ALL}])
        if all(len(found) == len(parts) for found in tables.values()) and size > most:
            most, best = size, list(chain(*tables.values()))
    if not best:
        raise NotReleasableError(
            f"sums of {sums.value!r} fail the rules at every level, the total too; nothing is published",
            "\n".join(map(str, failing)),
        )
    return MagnitudeTables(replace(one, failing=tuple(failing)) for one in best)


@dataclass(frozen=True, eq=False)
class _SignedPart:
    """Records of one sign: which of all they are, their values without it, whose they are, and what was judged."""

    name: str
    rows: npt.NDArray[np.bool_]
    values: Values
    owners: Values
    known: dict[Names, tuple[tuple[Names, ...], Judged]] = field(default_factory=dict)

    def table(self, levels: Names, coded: Coded, rules: Rules) -> Any:
        """The cells, their totals and contributors; None where a cell fails."""
        cells, judged = self._judged(levels, coded, rules)
        if not judged.passes:
            return None
        totals = tuple((-judged.totals if self.name == "negative" else judged.totals).tolist())
        return cells, totals, tuple(judged.contributors.tolist())

    def failing(self, levels: Names, heads: Names, coded: Coded, rules: Rules, places: int) -> Iterator[FailingCell]:
        """The cells that fail; of negative values the figures are without their sign."""
        cells, judged = self._judged(levels, coded, rules)
        for cell in np.flatnonzero(judged.fails).tolist():
            where = {**_by_level(heads, cells[cell]), **({"part": self.name} if self.name else {})}
            for rule, figures in rules.broken(judged, cell, lambda number: written(number, places)):
                yield FailingCell(where, rule, figures)

    def _judged(self, levels: Names, coded: Coded, rules: Rules) -> tuple[tuple[Names, ...], Judged]:
        """The categories of each cell with records, in C order, and its evaluation, which is made once."""
        if levels not in self.known:
            nothing = [ALL], np.zeros(len(self.rows), np.int64)
            named = [nothing if name == ALL else coded[name] for name in levels]
            cells = np.zeros(len(self.values), np.int64)
            for categories, codes in named:
                cells = np.unique(cells * len(categories) + codes[self.rows], return_inverse=True)[1].reshape(-1)
            first = np.unique(cells, return_index=True)[1]
            columns = [[own[code] for code in codes[self.rows][first].tolist()] for own, codes in named]
            judged = judge(cells, self.values, self.owners, len(first), rules)
            self.known[levels] = tuple(zip(*columns, strict=True)), judged
        return self.known[levels]


def _parts(values: Values, owners: Values, name: str, negative: str) -> list[_SignedPart]:
    """All records, or where some are below 0 those of each sign; InputError where they are not to be split."""
    below = (values < 0).astype(np.bool_)
    if not below.any():
        return [_SignedPart("", ~below, values, owners)]
    if negative != "split":
        raise InputError(
            f"{many(int(below.sum()), 'value')} of {name!r} below 0; leave them out, or split them by sign"
        )
    signs = [("positive", ~below, 1), ("negative", below, -1)]
    return [_SignedPart(sign, rows, factor * values[rows], owners[rows]) for sign, rows, factor in signs if rows.any()]


def _values(column: pa.ChunkedArray, name: str, decimals: int | None, sign: str) -> tuple[Values, int]:
    """In units of 10^-places, and how many places; InputError for what is missing, no number, too fine or too large."""
    if decimals is not None and (isinstance(decimals, bool) or decimals not in range(MOST_PLACES + 1)):
        raise InputError(f"decimals = {decimals!r}; give a whole number from 0 to {MOST_PLACES}")
    if column.null_count:
        raise InputError(
            f"{many(column.null_count, 'missing value')} of {name!r}; fill them in or leave the records out"
        )
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_floating(kind) and decimals is None:
        decimals = PLACES
    if pa.types.is_float16(kind):
        kind = pa.float32()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"{name!r} has the type {str(kind).partition('<')[0]}; name a column of numbers")
    # as text, for a float the shortest that is read as it: what a number is, its digits say exactly
    texts = column.cast(kind).cast(pa.string()).to_pylist()
    numbers = [decimal_of(text, sign if is_text else ".") for text in texts]
    none = f"are not numbers with the decimal sign {sign!r}" if is_text else "are infinite or NaN"
    _require_none(texts, [n is None for n in numbers], name, f"{none}; correct them")
    found = [number if decimals is None else _rounded(number, decimals) for number in numbers if number is not None]
    too_fine = f"have more than {MOST_PLACES} decimals; set decimals to round them"
    _require_none(texts, [power < -MOST_PLACES for _, power in found], name, too_fine)
    too_large = [power > MOST_PLACES or abs(digits) * 10 ** (power + MOST_PLACES) > LIMIT for digits, power in found]
    _require_none(texts, too_large, name, "are above 10^18; give them in a larger unit")
    places = max([PLACES, *(-power for _, power in found)])
    scaled = [digits * 10 ** (power + places) for digits, power in found]
    return np.array(scaled, object if max(map(abs, scaled)) >> 62 else np.int64), places


def _require_none(texts: Sequence[str], are_bad: Sequence[bool], name: str, what: str) -> None:
    if bad := [record for record, is_bad in enumerate(are_bad) if is_bad]:
        raise InputError(
            f"{many(len(bad), 'value')} of {name!r}, the first in record {bad[0] + 1}, {what}",
            "\n".join(f"record {record + 1}: {texts[record]!r}" for record in bad[:MOST_QUOTED]),
        )


def _rounded(number: tuple[int, int], decimals: int) -> tuple[int, int]:
    """Half to even."""
    digits, power = number
    if -power <= decimals:
        return number
    unit = 10 ** (-power - decimals)
    whole, rest = divmod(abs(digits), unit)
    whole += 2 * rest + whole % 2 > unit
    return (-whole if digits < 0 else whole), -decimals


def _owners(coded: Coded, name: str, unique: bool) -> Values:
    codes = coded[name][1]
    repeated = len(codes) - len(np.unique(codes))
    if unique and repeated:
        raise InputError(
            f"column {name!r} repeats a contributor in {many(repeated, 'record')}; leave out unique, and their "
            "records count "
            "as one"
        )
    return codes


def _require_nested(coded: Coded, coarser: Mapping[str, Sequence[str]]) -> None:
    """InputError where a category has records in several categories of the next level."""
    for name, levels in coarser.items():
        for fine, coarse in pairwise((name, *levels)):
            (categories, codes), (_, above) = coded[fine], coded[coarse]
            met = np.unique(np.stack([codes, above], axis=1), axis=0)[:, 0]
            if several := np.flatnonzero(np.bincount(met) > 1).tolist():
                raise InputError(
                    f"the hierarchy of {name!r} is not nested: {len(several)} of the categories of {fine!r} have "
                    f"records in several categories of {coarse!r}; correct one of the two columns, or drop the level",
                    "\n".join(f"{fine} = {categories[code]}" for code in several),
                )


def _require_no_totals(coded: Coded, values: Values) -> None:
    """InputError where a category that is called as totals are has the sum of all others."""
    for name, (categories, codes) in coded.items():
        for code in (code for code, category in enumerate(categories) if is_usual(category)):
            own, others = (sum(values[rows].tolist()) for rows in (codes == code, codes != code))
            if own == others:
                raise InputError(
                    f"column {name!r} has {categories[code]!r}, by its name and its sum the total of all others; leave "
                    "its records out, or rename it"
                )


def _coded(column: pa.ChunkedArray, name: str, alike: Alike, decimal: str) -> tuple[list[str], Values]:
    """The categories in order of text, and the code of each record.

    InputError for a missing one, a total, and for names that are alike where these are refused.
    """
    if column.null_count:
        raise InputError(
            f"{many(column.null_count, 'record')} without a value of {name!r}; give each a category or leave it out"
        )
    texts = column.to_pylist()
    remedy = "write each in one way, or set alike to merge or to keep them"
    spelled = {} if alike == "keep" else alikes(set(texts), decimal=decimal)
    if alike == "refuse":
        require_apart(spelled, f"column {name!r}", remedy)
    categories = sorted({spelled.get(text, text) for text in texts})
    if reserved := [category for category in categories if is_reserved(category)]:
        raise InputError(f"column {name!r} has the category {reserved[0]}, which stands for totals; rename it")
    place = {category: code for code, category in enumerate(categories)}
    return categories, np.array([place[spelled.get(text, text)] for text in texts], np.int64)
