"""Results by names: as Arrow, pandas and Polars tables, and as tables in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sdc.model.errors import InputError, MissingLibraryError
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

    def named_by(self: Self, schema: Schema) -> Self:
        """Set the schema of the names, and return itself."""
        object.__setattr__(self, "_schema", schema)
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
        return self.headline

    def _repr_html_(self) -> str:
        try:
            columns = self.by_name()
        except InputError:
            return f"<p>{escape(self.headline)}</p>"
        rows = list(zip(*(column[:MOST_SHOWN] for column in columns.values()), strict=True))
        more = len(next(iter(columns.values()), ())) - len(rows)
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row) + "</tr>" for row in rows)
        rest = f"<p>… and {more:,} more rows</p>" if more > 0 else ""
        return f"<p>{escape(self.headline)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


class Drawn(Named):
    """A result with a figure, which `drawing` registers: the model does not draw."""

    drawing: ClassVar[Callable[..., Any]]

    def plot(self, **settings: Any) -> Any:
        """The figure of the audit report, with the settings of `sdc.report.shown`; InputError for others.

        A notebook shows it, and its `svg` is a file. It is as confidential as the result.
        """
        return Drawn.drawing(self, **settings)


class Rows(Named, tuple[Row, ...]):
    """Several results of one kind, whose fields are the columns; a tuple."""

    @property
    def headline(self) -> str:
        return f"{type(self).__name__} of {len(self):,} rows"

    def by_name(self) -> dict[str, Sequence[Any]]:
        names = [field.name for field in fields(self[0])] if self else []  # type: ignore[arg-type]
        return {name: [getattr(row, name) for row in self] for name in names}


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
