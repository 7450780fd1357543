"""JSON documents as dataclasses declare them: reading, writing, and conversion of values that JSON lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from sdc.model.errors import InputError, RunFolderError

if TYPE_CHECKING:
    from sdc.model.schema import Schema

T = TypeVar("T")


@dataclass(frozen=True)
class InDocuments:
    """An annotation for pydantic. A schema is given as context if the document has names.

    kind   the JSON type
    write  from value to document
    read   from document to value; ValueError or InputError for an invalid one
    """

    kind: Any
    write: Callable[[Any, Schema], Any]
    read: Callable[[Any, Schema], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import AfterValidator, PlainSerializer

        read = AfterValidator(lambda found, info: self.read(found, info.context))
        write = PlainSerializer(lambda value, info: self.write(value, info.context))
        return handler.generate_schema(Annotated[self.kind, read, write])


def listed(kind: Any, dtype: Any, *shape: int) -> InDocuments:
    """Arrays of this type as nested lists; the shape is one of `reshape`."""
    return InDocuments(kind, lambda array, _: array.tolist(), lambda found, _: np.array(found, dtype).reshape(shape))


def _adapter_of(kind: Any) -> Any:
    from pydantic import TypeAdapter  # imported here: it takes longer than all of the model

    return TypeAdapter(kind)


_adapter: Callable[[Any], Any] = cache(_adapter_of)


def plain(kind: type[T], value: T, schema: Schema | None = None, leave_out: Any = None) -> Any:
    """The value as mappings, sequences, numbers and texts, by the names of a schema, without excluded fields.

    Numbers are written as they are; ValueError for other values of an undeclared type.
    """
    return _adapter(kind).dump_python(value, context=schema, exclude=leave_out, warnings="error")


def sparse(kind: type[T], value: T, schema: Schema | None = None) -> dict[str, Any]:
    """As `plain`, without fields that have their defaults."""
    own: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]  # only of dataclasses
    usual = {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in own}
    content = plain(kind, value, schema).items()
    return {name: content_of_field for name, content_of_field in content if getattr(value, name) != usual[name]}


def picked(value: object, *names: str) -> dict[str, Any]:
    """Some attributes by name."""
    return {name: getattr(value, name) for name in names}


def rows(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Columns of equal length as rows, with numbers as JSON has them."""
    plain_columns = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain_columns, strict=True)]


def typed(kind: type[T], content: Any, path: Path, schema: Schema | None = None) -> T:
    """The inverse of `plain`, for a file.

    Raises RunFolderError with the file's name for another shape, undeclared keys or unknown variables.
    """
    from pydantic import ValidationError

    try:
        # as JSON, for which pydantic is strict but accepts a list for a tuple
        found: T = _adapter(kind).validate_json(json.dumps(content), strict=True, extra="forbid", context=schema)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise corrupt(path, ": ".join([*map(str, first["loc"]), first["msg"]])) from error
    except InputError as error:
        raise corrupt(path, error) from error
    return found


def corrupt(path: Path, problem: object) -> RunFolderError:
    """The error for a file whose content no build writes."""
    return RunFolderError(f"{path} is corrupt: {problem}; remove the run folder and run again")
