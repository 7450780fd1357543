"""Results by names: as Arrow, pandas and Polars tables, and as tables in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sdc.model.errors import InputError, MissingLibraryError, ReleaseError, many, nearest
from sdc.model.schema import Schema
from sdc.run_format import variable_columns

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SHOWN = 50

Self = TypeVar("Self", bound="Named")
Row = TypeVar("Row")


class Named:
    """A result in codes and bit sets, with the names of a schema.

    Its `repr`, text and first line are its `headline`, which has no count of a cell. The rows on the page and from
    `to_arrow`, `to_pandas` and `to_polars` may have counts: then they are as confidential as the table.
    """

    _schema: Schema | None = None
    _small_count: int | None = None

    def named_by(self: Self, schema: Schema, small_count: int | None = None) -> Self:
        """Set the schema of the names and the small count of the result, and return itself."""
        object.__setattr__(self, "_schema", schema)
        object.__setattr__(self, "_small_count", small_count)
        return self

    @property
    def names(self) -> Schema:
        """The schema of the names; InputError if it is not set."""
        if self._schema is None:
            raise InputError(f"this {type(self).__name__} has no names yet; call named_by(table.schema) first")
        return self._schema

    @property
    def headline(self) -> str:
        """A one-line summary."""
        return type(self).__name__

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The rows by column and name."""
        raise NotImplementedError

    def by_name(self) -> dict[str, Sequence[Any]]:
        """The rows by column, with its own names."""
        return dict(self.columns(self.names))

    def to_arrow(self) -> pa.Table:
        import pyarrow as arrow

        return arrow.table(self.by_name())

    def to_pandas(self) -> Any:
        """A pandas DataFrame; MissingLibraryError, an ImportError, without pandas."""
        return _library("pandas").DataFrame(self.by_name())

    def to_polars(self) -> Any:
        """A Polars DataFrame; MissingLibraryError, an ImportError, without Polars."""
        return _library("polars").from_arrow(self.to_arrow())

    def __repr__(self) -> str:
        """The headline, with the small count that it depends on."""
        return self.headline if self._small_count is None else f"{self.headline}; small_count={self._small_count}"

    def _repr_html_(self) -> str:
        """The same, and the first rows of the table by names; a suppressed cell is empty."""
        try:
            columns = self.by_name()
        except InputError:
            return f"<p>{escape(repr(self))}</p>"
        return f"<p>{escape(repr(self))}</p>{html_rows(columns)}"


class Drawn(Named):
    """A result with a figure, which `drawing` registers: the model does not draw."""

    drawing: ClassVar[Callable[..., Any]]

    def plot(self, **settings: Any) -> Any:
        """The figure of the audit report, with the settings of `sdc.report.shown`; InputError for others.

        A notebook shows it, and its `svg` is a file. It is as confidential as the result.
        """
        return Drawn.drawing(self, **settings)


class Tabular(Named):
    """A result that is a table, or several: by name in `tables`, and `result["age*sex"]` or `result["age", "sex"]`."""

    @property
    def tables(self) -> Mapping[str, Named]:
        """Each table by its name, `age*sex`."""
        return {"*".join(self.names.names[axis] for axis in self.names.axes): self}

    def __getitem__(self, asked: Any) -> Any:
        """The table by these variables, in any order; ReleaseError where it is none of the result."""
        wanted = asked.split("*") if isinstance(asked, str) else asked
        if not isinstance(wanted, list | tuple) or not all(isinstance(name, str) for name in wanted):
            raise ReleaseError(f"a table is named 'age*sex' or ['age', 'sex']; this is a {type(asked).__name__}")
        found = self.tables
        by_names = {frozenset(name.split("*")): table for name, table in found.items()}
        if (table := by_names.get(frozenset(name.strip() for name in wanted))) is not None:
            return table
        text = "*".join(wanted)
        raise ReleaseError(f"{text} is not a table of this {type(self).__name__}; {nearest(text, [*found])}")


class Rows(Named, tuple[Row, ...]):
    """Several results of one kind, whose fields are the columns; a tuple."""

    @property
    def headline(self) -> str:
        return f"{type(self).__name__} of {many(len(self), 'row')}"

    def by_name(self) -> dict[str, Sequence[Any]]:
        names = [field.name for field in fields(self[0])] if self else []  # type: ignore[arg-type]
        return {name: [getattr(row, name) for row in self] for name in names}


def html_rows(columns: Mapping[str, Sequence[Any]]) -> str:
    """The first rows as a table of HTML; what is None is empty."""
    rows = list(zip(*(column[:MOST_SHOWN] for column in columns.values()), strict=True))
    more = len(next(iter(columns.values()), ())) - len(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = ("".join(f"<td>{'' if v is None else escape(str(v))}</td>" for v in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    rest = f"<p>… and {more:,} more rows</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingLibraryError(
            f"{name} cannot be imported; install it by python -m pip install {name}, or call to_arrow()"
        ) from error


def named_cells(cells: Any, schema: Schema) -> dict[str, list[str]]:
    """Categories of (n, axes) codes, a column for each axis."""
    columns = zip((schema.variables[axis] for axis in schema.axes), cells.T.tolist(), strict=True)
    return {variable.name: [variable.categories[code] for code in codes] for variable, codes in columns}


def beside(named: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of variables and other columns; a variable with the name of another column gets a prefix."""
    own = variable_columns(named, numbers)
    return {**{own[name]: column for name, column in named.items()}, **numbers}
