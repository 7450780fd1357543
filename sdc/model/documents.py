"""Documents as dataclasses declare them, in both directions, and how values that JSON does not have stand in them."""

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
    """Annotates a type for pydantic, to which a schema is given as context where a document has names.

    kind   the type that JSON has instead
    write  what stands in the document
    read   the value that it stands for; ValueError or InputError where it stands for none
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
    """Of an array of this type: lists, of which pydantic sees the kind; the shape is one of `reshape`."""
    return InDocuments(kind, lambda array, _: array.tolist(), lambda found, _: np.array(found, dtype).reshape(shape))


def _adapter_of(kind: Any) -> Any:
    from pydantic import TypeAdapter  # here: to import it takes longer than all of the model

    return TypeAdapter(kind)


_adapter: Callable[[Any], Any] = cache(_adapter_of)


def plain(kind: type[T], value: T, schema: Schema | None = None, leave_out: Any = None) -> Any:
    """As mappings, sequences, numbers and texts, by the names of a schema, without what pydantic is to exclude.

    A number is written as it is, whichever kind is declared; ValueError for any other value of another type.
    """
    return _adapter(kind).dump_python(value, context=schema, exclude=leave_out, warnings="error")


def sparse(kind: type[T], value: T, schema: Schema | None = None, leave_out: Any = None) -> dict[str, Any]:
    """As `plain`, without the fields of a dataclass that are as they are by default."""
    own: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]  # only of dataclasses
    usual = {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in own}
    content = plain(kind, value, schema, leave_out).items()
    return {name: told for name, told in content if getattr(value, name) != usual[name]}


def picked(value: object, *names: str) -> dict[str, Any]:
    """Some of its attributes, by name."""
    return {name: getattr(value, name) for name in names}


def rows(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Columns of equal length row by row, numbers of arrays as JSON has them."""
    plain_columns = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain_columns, strict=True)]


def typed(kind: type[T], content: Any, path: Path, schema: Schema | None = None) -> T:
    """What `plain` gave, read from this file.

    RunFolderError names the file where the content is of another shape, has keys that are not declared, or names a
    variable that the schema does not have.
    """
    from pydantic import ValidationError

    try:
        # as JSON, in which pydantic is strict and still takes a list for a tuple
        found: T = _adapter(kind).validate_json(json.dumps(content), strict=True, extra="forbid", context=schema)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise corrupt(path, ": ".join([*map(str, first["loc"]), first["msg"]])) from error
    except InputError as error:
        raise corrupt(path, error) from error
    return found


def corrupt(path: Path, error: object) -> RunFolderError:
    """What refuses a file whose content is not what a build writes."""
    return RunFolderError(f"{path} is corrupt: {error}; remove the run folder and run again")
