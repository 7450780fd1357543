"""Data frames as Arrow tables: pandas, Polars, Arrow, relations of DuckDB, and other Arrow streams."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa

from sdc.model.alike import alike_key
from sdc.model.errors import InputError


def arrow_of(frame: Any, used: Collection[str] | None = None) -> pa.Table:
    """The columns of a data frame; a LazyFrame or relation is executed.

    used  keys of the names of used columns, None for all; other columns are not checked

    Messages quote no data. Raises InputError for another object, a failing query, equal column names, an index that
    would be lost, and a column of mixed types.
    """
    kind = type(frame).__name__
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        table = _of_pandas(frame, used)
    elif library == "polars" and hasattr(frame, "collect"):
        table = _of_query(frame, lambda: _narrow(frame.collect()))
    elif library == "polars" and kind == "DataFrame":
        table = _of_query(frame, lambda: _narrow(frame))
    elif kind != "Series" and (isinstance(frame, pa.RecordBatch) or hasattr(frame, "__arrow_c_stream__")):
        table = _of_query(frame, lambda: frame)
    else:
        raise InputError(
            "a table is read from a path, from a data frame of pandas, Polars or Arrow, from a LazyFrame of Polars or "
            f"from a relation of DuckDB; this is a {kind}"
        )
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1 and _is_used(name, used)}):
        raise InputError(f"the data frame has {names.count(twice[0])} columns called {twice[0]!r}; rename or drop one")
    return table


def _of_query(frame: Any, run: Callable[[], Any]) -> pa.Table:
    try:
        return pa.table(run())
    except Exception as error:  # each library has its own errors, whose messages may quote a record
        raise InputError(
            f"the {type(frame).__name__} cannot be read: it ends with {type(error).__name__}; try it by itself, and "
            "correct it",
            str(error),
        ) from None


def _narrow(frame: Any) -> Any:
    """128-bit integers as texts: Arrow lacks them."""
    wide = {name: str for name, kind in frame.schema.items() if str(kind) in ("Int128", "UInt128")}
    return frame.cast(wide) if wide else frame


def _is_used(name: object, used: Collection[str] | None) -> bool:
    return used is None or (isinstance(name, str) and alike_key(name) in used)


def _of_pandas(frame: Any, used: Collection[str] | None) -> pa.Table:
    places = [place for place, name in enumerate(frame.columns) if _is_used(name, used)]
    names = [frame.columns[place] for place in places]
    if odd := [name for name in names if not isinstance(name, str)]:
        raise InputError(
            f"the data frame has {len(odd)} columns whose names are no text, such as one of the type "
            f"{type(odd[0]).__name__}; name them by text"
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"the data frame has {names.count(twice[0])} columns called {twice[0]!r}; rename or drop one")
    index = frame.index
    # an unnamed range index is pandas's row number; any other index is a variable that would be lost
    if used is None and (type(index).__name__ != "RangeIndex" or index.name is not None):
        called = ", ".join(repr(name) for name in index.names)
        raise InputError(
            f"the index of the data frame ({called}) would be lost; call reset_index(), with drop=True if it is not "
            "needed"
        )
    chosen = frame.iloc[:, places]
    found = pa.table({name: _of_column(name, chosen[name]) for name in names})
    for place, name in enumerate(frame.columns):
        if place not in places and isinstance(name, str):  # examined for counts and totals only
            found = found.append_column(name, _whatever(frame.iloc[:, place]))
    return found


def _of_column(name: str, column: Any) -> pa.Array:
    """InputError for values of several types, and for values that Arrow cannot hold."""
    kind = getattr(column.dtype, "categories", column).dtype
    if type(kind).__name__ == "IntervalDtype":  # named as pandas writes it, such as (0, 10]
        column = column.astype(object).map(str, na_action="ignore")
    if str(column.dtype) == "object":
        kinds = sorted({type(value).__name__ for value in column[column.notna()]})
        if len(kinds) > 1:
            raise InputError(
                f"column {name!r} of the data frame has values of the types {', '.join(kinds)}; give it one, such as "
                "text"
            )
        kind = "".join(kinds)
    try:
        return pa.Array.from_pandas(column)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"column {name!r} of the data frame has the type {kind}, which Arrow cannot hold; store it as text",
            str(error),
        ) from None


def _whatever(column: Any) -> pa.Array:
    try:
        return pa.Array.from_pandas(column)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([str(value) for value in column], pa.string())
