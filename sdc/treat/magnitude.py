"""Magnitude tables: sums of a column, published where all cells pass, or aggregated along hierarchies until they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from sdc.model.errors import InputError, NotReleasableError, nearest
from sdc.model.named import Named
from sdc.model.totals import is_reserved, is_usual
from sdc.treat.dominance import Rules, Values, judge

PLACES = 6  # decimals that are kept
UNIT = 10**PLACES
ALL = "(all)"
Negative = Literal["refuse", "split"]


@dataclass(frozen=True, eq=False, repr=False)
class MagnitudeTable(Named):
    """Sums by cell, of which every cell passes the rules.

    variables  those of all groupings; levels  the column that stands for each: itself, a coarser one, or `(all)`
    cells      for each row its categories; totals  (rows,) in units of 10^-6; contributors  (rows,) with more than 0
    part       "" or, where negative values are split, "positive" or "negative"
    """

    variables: tuple[str, ...]
    levels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    totals: tuple[int, ...]
    contributors: tuple[int, ...]
    part: str = ""

    @property
    def headline(self) -> str:
        by = "*".join(level for level in self.levels if level != ALL) or "(total)"
        return f"Sums by {by} of {len(self.cells):,} cells{f', {self.part} values' if self.part else ''}"

    def by_name(self) -> dict[str, Sequence[Any]]:
        """Its cells with their sums, exact decimals."""
        columns = dict(zip(self.variables, zip(*self.cells, strict=True), strict=True))
        return {**columns, "total": [Decimal(written(total)) for total in self.totals]}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each cell by names with its sum as a decimal text."""
        named = [dict(zip(self.variables, cell, strict=True)) for cell in self.cells]
        return [{**cell, "total": written(total)} for cell, total in zip(named, self.totals, strict=True)]


def written(total: int) -> str:
    """A sum of millionths as a decimal number, without zeros that say nothing."""
    whole, rest = divmod(abs(total), UNIT)
    digits = f"{rest:06}".rstrip("0")
    return f"{'-' if total < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def magnitude_table(
    path: str | Path,
    value: str,
    variables: Sequence[str],
    rules: Rules,
    *,
    also: Sequence[Sequence[str]] = (),
    contributor: str | None = None,
    unique: bool = False,
    hierarchies: Mapping[str, Sequence[str]] | None = None,
    negative: Negative = "refuse",
) -> tuple[MagnitudeTable, ...]:
    """The sums of a column, by the finest levels at which all cells pass; two tables where values are split by sign.

    also         other groupings of the same records, whose tables come after and are judged together with the first:
                 the sums by the variables of all of them pass
    contributor  the column that says whose a record is; without it each record is another's
    unique       refuse a contributor that has several records
    hierarchies  of a variable its coarser columns, the finest first; all categories together are always the last

    Whoever has the sums by some groupings has no more than whoever has those by all their variables at once, and where
    each cell of these passes, so does each union of them: of a union the n largest hold no more than the n largest of
    each cell together, and the same is true of what is left without the two largest.

    Of the levels at which these pass those with the most cells in the groupings, of equal ones the first. Which levels
    these are depends on the values, and is public with the table. NotReleasableError where not even the total passes;
    InputError for missing, infinite or textual values, values below 0 unless they are split, columns that are not
    there, and groupings that name a variable twice or the column that is summed.
    """
    groupings = [tuple(variables), *map(tuple, also)]
    names = _names(groupings, value, hierarchies or {})
    columns = _columns(path, [value, *([contributor] if contributor else []), *names, *_coarser(hierarchies)])
    values = _values(columns[value], value)
    if not len(values):
        raise InputError(f"{path} has no records; name a file that has")
    owners = _owners(columns, contributor, len(values), unique)
    levels = [[name, *(hierarchies or {}).get(name, ()), ALL] for name in names]
    coded = {name: _coded(columns[name], name) for own in levels for name in own if name != ALL}
    _require_no_totals(coded, values)
    parts = _parts(values, owners, value, negative)
    best: list[MagnitudeTable] = []
    for chosen in product(*levels):
        shown = [tuple(own if v in kept else ALL for v, own in zip(names, chosen, strict=True)) for kept in groupings]
        if any(part.table(chosen, names, coded, rules) is None for part in parts):
            continue
        found = [part.table(one, names, coded, rules) for one in dict.fromkeys(shown) for part in parts]
        tables = [one for one in found if one is not None]
        if len(tables) == len(found) and _cells(tables) > _cells(best):
            best = tables
    if not best:
        raise NotReleasableError(
            f"sums of {value!r} fail the rules at every level, the total too; nothing is published"
        )
    return tuple(best)


def _cells(tables: Sequence[MagnitudeTable]) -> int:
    return sum(len(one.cells) for one in tables)


def _names(
    groupings: Sequence[tuple[str, ...]], value: str, hierarchies: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The variables of all groupings; InputError for what makes no table."""
    names = tuple(dict.fromkeys(chain(*groupings)))
    for grouping in groupings:
        if len(set(grouping)) < len(grouping) or groupings.count(grouping) > 1:
            raise InputError(f"{'*'.join(grouping)} is named twice, or names a variable twice; name each once")
    if value in [*names, *_coarser(hierarchies)]:
        raise InputError(f"{value!r} is summed, and would be published by its own values; name another variable")
    if unknown := [name for name in hierarchies if name not in names]:
        raise InputError(f"a hierarchy is given of {unknown[0]!r}, which no grouping has; they have {', '.join(names)}")
    return names


def _coarser(hierarchies: Mapping[str, Sequence[str]] | None) -> list[str]:
    return [column for columns in (hierarchies or {}).values() for column in columns]


@dataclass(frozen=True, eq=False)
class _SignedPart:
    """Records of one sign: which of all they are, their values without it, and whose they are."""

    name: str
    rows: npt.NDArray[np.bool_]
    values: Values
    owners: Values

    def table(
        self,
        levels: tuple[str, ...],
        variables: tuple[str, ...],
        coded: Mapping[str, tuple[list[str], Values]],
        rules: Rules,
    ) -> MagnitudeTable | None:
        """None where a cell fails."""
        named = [([ALL], np.zeros(len(self.rows), np.int64)) if name == ALL else coded[name] for name in levels]
        keys = np.stack([codes[self.rows] for _, codes in named], axis=1)
        distinct, cells = np.unique(keys, axis=0, return_inverse=True)
        judged = judge(cells.reshape(-1), self.values, self.owners, len(distinct), rules)
        if not judged.passes:
            return None
        names = tuple(tuple(named[v][0][code] for v, code in enumerate(cell)) for cell in distinct.tolist())
        totals = tuple((-judged.totals if self.name == "negative" else judged.totals).tolist())
        return MagnitudeTable(variables, levels, names, totals, tuple(judged.contributors.tolist()), self.name)


def _parts(values: Values, owners: Values, name: str, negative: Negative) -> list[_SignedPart]:
    """All records, or where some are below 0 those of each sign; InputError where they are not to be split."""
    below = values < 0
    if not below.any():
        return [_SignedPart("", ~below, values, owners)]
    if negative != "split":
        raise InputError(f"{int(below.sum())} values of {name!r} are below 0; leave them out, or split them by sign")
    signs = [("positive", ~below, 1), ("negative", below, -1)]
    return [_SignedPart(sign, rows, factor * values[rows], owners[rows]) for sign, rows, factor in signs]


def _columns(path: str | Path, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """These columns of a CSV or Parquet file, as they are written."""
    file = Path(path)
    if file.suffix not in (".csv", ".parquet"):
        raise InputError(f"{file} is no .csv or .parquet file; name one file of records")
    try:
        if file.suffix == ".csv":
            # as text: what a number is, its own digits say exactly
            header = file.open(encoding="utf-8-sig").readline()
            as_text = pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            )
            table = pa_csv.read_csv(file, convert_options=as_text) if header else pa.table({})
        else:
            table = pq.read_table(file)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({type(error).__name__}); name one file of records") from error
    if lacking := [name for name in names if name not in table.column_names]:
        raise InputError(f"{file} has no column {lacking[0]!r}; {nearest(lacking[0], table.column_names)}")
    return {name: table.column(name) for name in names}


def _values(column: pa.ChunkedArray, name: str) -> Values:
    """In millionths; InputError for what is missing, no number, or finer."""
    if column.null_count:
        raise InputError(f"{column.null_count} values of {name!r} are missing; fill them in or leave the records out")
    found, bad = [], 0
    for value in column.to_pylist():
        try:
            number = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
            scaled = number.scaleb(PLACES)
            whole = int(scaled)
        except (InvalidOperation, ValueError, OverflowError):
            bad += 1
            continue
        if isinstance(value, bool) or scaled != whole or abs(whole) >= 1 << 62:
            bad += 1
            continue
        found.append(whole)
    if bad:
        raise InputError(
            f"{bad} values of {name!r} are no numbers, have more than {PLACES} decimals or too many digits; correct "
            "them"
        )
    return np.array(found, np.int64)


def _owners(columns: Mapping[str, pa.ChunkedArray], name: str | None, records: int, unique: bool) -> Values:
    if name is None:
        return np.arange(records)
    codes = _coded(columns[name], name)[1]
    repeated = records - len(np.unique(codes))
    if unique and repeated:
        raise InputError(
            f"column {name!r} repeats a contributor in {repeated} records; leave out unique, and their records count "
            "as one"
        )
    return codes


def _require_no_totals(coded: Mapping[str, tuple[list[str], Values]], values: Values) -> None:
    """InputError where a category that is called as totals are has the sum of all others."""
    for name, (categories, codes) in coded.items():
        for code in (code for code, category in enumerate(categories) if is_usual(category)):
            own, others = (sum(values[rows].tolist()) for rows in (codes == code, codes != code))
            if own == others:
                raise InputError(
                    f"column {name!r} has {categories[code]!r}, by its name and its sum the total of all others; leave "
                    "its records out, or rename it"
                )


def _coded(column: pa.ChunkedArray, name: str) -> tuple[list[str], Values]:
    """The categories in order of text, and the code of each record; InputError for a missing one, or a total."""
    if column.null_count:
        raise InputError(f"{column.null_count} records have no {name!r}; give them a category or leave them out")
    texts = column.cast(pa.string()).to_pylist()
    categories = sorted(set(texts))
    if reserved := [category for category in categories if is_reserved(category)]:
        raise InputError(f"column {name!r} has the category {reserved[0]}, which stands for totals; rename it")
    place = {category: code for code, category in enumerate(categories)}
    return categories, np.array([place[text] for text in texts], np.int64)
