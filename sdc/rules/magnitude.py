"""Magnitude tables: sums of a column, published where all cells pass, or aggregated along hierarchies until they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from sdc.model.errors import InputError, NotReleasableError
from sdc.rules.dominance import Judged, Rules, Values, judge

PLACES = 6  # decimals that are kept
UNIT = 10**PLACES
ALL = "(all)"
Negative = Literal["refuse", "split"]


@dataclass(frozen=True, eq=False)
class MagnitudeTable:
    """Sums by cell, of which every cell passes the rules.

    variables  what it is by; levels  the column that stands for each: itself, a coarser one, or `(all)`
    cells      for each row its categories; totals  (rows,) in units of 10^-6; contributors  (rows,)
    part       "" or, where negative values are split, "positive" or "negative"
    """

    variables: tuple[str, ...]
    levels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    totals: tuple[int, ...]
    contributors: tuple[int, ...]
    part: str = ""

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
    contributor: str | None = None,
    unique: bool = False,
    hierarchies: Mapping[str, Sequence[str]] | None = None,
    negative: Negative = "refuse",
) -> tuple[MagnitudeTable, ...]:
    """The sums of a column, by the finest levels at which all cells pass; two tables where values are split by sign.

    contributor  the column that says whose a record is; without it each record is another's
    unique       refuse a contributor that has several records
    hierarchies  of a variable its coarser columns, the finest first; all categories together are always the last

    Of the levels at which all cells pass those with the most cells, of equal ones the first. Which levels these are
    depends on the values, and is public with the table. NotReleasableError where not even the total passes; InputError
    for missing, infinite or textual values, values below 0 unless they are split, and columns that are not there.
    """
    columns = _columns(path, [value, *variables, *([contributor] if contributor else []), *_coarser(hierarchies)])
    values = _values(columns[value], value)
    owners = _owners(columns, contributor, len(values), unique)
    levels = [[name, *(hierarchies or {}).get(name, ()), ALL] for name in variables]
    parts = [("", values, np.ones(len(values), np.bool_))]
    if (values < 0).any():
        if negative != "split":
            raise InputError(
                f"{int((values < 0).sum())} values of {value!r} are below 0; leave them out, or split them by sign"
            )
        parts = [("positive", values, values >= 0), ("negative", -values, values < 0)]
    coded = {name: _coded(columns[name], name) for own in levels for name in own if name != ALL}
    best: tuple[int, tuple[str, ...], list[MagnitudeTable]] | None = None
    for chosen in product(*levels):
        found = [_table(part, v[rows], owners[rows], rows, chosen, variables, coded, rules) for part, v, rows in parts]
        tables = [one for one in found if one is not None]
        if len(tables) == len(found):
            cells = sum(len(one.cells) for one in tables)
            if best is None or cells > best[0]:
                best = cells, chosen, tables
    if best is None:
        raise NotReleasableError(
            f"sums of {value!r} fail the rules at every level, the total too; nothing is published"
        )
    return tuple(best[2])


def _coarser(hierarchies: Mapping[str, Sequence[str]] | None) -> list[str]:
    return [column for columns in (hierarchies or {}).values() for column in columns]


def _table(
    part: str,
    values: Values,
    owners: Values,
    rows: npt.NDArray[np.bool_],
    levels: tuple[str, ...],
    variables: Sequence[str],
    coded: Mapping[str, tuple[list[str], Values]],
    rules: Rules,
) -> MagnitudeTable | None:
    """None where a cell fails."""
    named = [([ALL], np.zeros(len(rows), np.int64)) if name == ALL else coded[name] for name in levels]
    keys = np.stack([codes[rows] for _, codes in named], axis=1) if named else np.zeros((int(rows.sum()), 0), np.int64)
    distinct, cells = np.unique(keys, axis=0, return_inverse=True)
    judged: Judged = judge(cells.reshape(-1), values, owners, len(distinct), rules)
    if not judged.passes:
        return None
    names = tuple(tuple(named[v][0][code] for v, code in enumerate(cell)) for cell in distinct.tolist())
    sign = -1 if part == "negative" else 1
    totals = tuple((sign * judged.totals).tolist())
    return MagnitudeTable(tuple(variables), levels, names, totals, tuple(judged.contributors.tolist()), part)


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
        raise InputError(f"{file} has no column {lacking[0]!r}; it has {', '.join(table.column_names)}")
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


def _coded(column: pa.ChunkedArray, name: str) -> tuple[list[str], Values]:
    """The categories in order of text, and the code of each record; InputError for a missing one."""
    if column.null_count:
        raise InputError(f"{column.null_count} records have no {name!r}; give them a category or leave them out")
    texts = column.cast(pa.string()).to_pylist()
    categories = sorted(set(texts))
    place = {category: code for code, category in enumerate(categories)}
    return categories, np.array([place[text] for text in texts], np.int64)
