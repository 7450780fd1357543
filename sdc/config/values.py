"""Values of settings: numbers within limits, texts, names, categories as YAML has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from sdc.config.old_keys import current, recorded
from sdc.model.errors import ConfigError, InputError
from sdc.model.labels import NOT_PLAIN
from sdc.model.schema import is_plain
from sdc.model.table import MAX_TOTAL
from sdc.paths import at_home, checked_path

EMBEDDED_CLUSTERS = ("in-process", "local")
OTHERS = ("*",)
"""The values of the group that has all that no other group has."""


@contextmanager
def as_fault() -> Iterator[None]:
    """What the model refuses, as the fault of a section."""
    try:
        yield
    except InputError as error:
        raise ValueError(str(error)) from error


def size_in_bytes(value: str) -> int:
    """The bytes of a size such as 512MiB or 4GB; ValueError for what is none."""
    match = re.fullmatch(r"([0-9]{1,9})([KMGT]i?B)", value)
    if not match or not int(match[1]):
        raise ValueError("it is not a size; write a whole number and a unit, such as 512MiB or 4GB")
    base, power = 1024 if "i" in match[2] else 1000, "KMGT".index(match[2][0]) + 1
    return int(match[1]) * int(base**power)


def _memory(value: str) -> str:
    if value != "auto":
        size_in_bytes(value)
    return value


def _as_written(value: Any) -> Any:
    """A whole number, or a date, of a YAML file as the text that is written there; of others YAML keeps no text."""
    for kind, called in _KINDS.items():
        if isinstance(value, kind):
            raise ValueError(f"YAML reads it as {called}; write it in quotes")
    return value.written if isinstance(value, Numeral) else str(value) if isinstance(value, date) else value


_KINDS = {bool: "a truth value", float: "a number", datetime: "a moment"}


def _readable(text: str) -> str:
    if not is_plain(text):
        raise ValueError(NOT_PLAIN)
    return text


class Numeral(int):
    """An integer of a YAML file, which knows how it is written there: 01 and 0x1 are 1 too, and other categories."""

    written: str = ""

    @classmethod
    def of(cls, value: int, written: str) -> Numeral:
        """The integer as it is written."""
        numeral = cls(value)
        numeral.written = written
        return numeral


def _category(value: Any) -> Any:
    """An integer is the category of its decimal numeral; whatever else YAML makes of a name is not a name."""
    if isinstance(value, bool):
        raise ValueError("YAML reads yes, no, on, off, true and false as truth values; write it in quotes")
    if not isinstance(value, int):
        return value
    if isinstance(value, Numeral) and value.written != str(int(value)):
        raise ValueError(f"{value.written} is {int(value)} to YAML; write it in quotes")
    return str(int(value))


def _day(text: str) -> str:
    try:
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if not is_day:
        raise ValueError("it is not a day; write it as 2024-05-01")
    return text


def in_folder(path: str, folder: Path) -> str:
    """A path relative to a folder made absolute; a URL stays as it is. ConfigError where this system cannot have it."""
    return path if "://" in path else str(checked_path(folder / at_home(path)).resolve())


def folder_of(info: ValidationInfo) -> Path | None:
    """Of the file that is read; None of settings that are of none, or were read before."""
    found: Path | None = (info.context or {}).get("folder")
    return found


def placed(path: str, info: ValidationInfo) -> str:
    """As `in_folder`, of the file that is read."""
    if (folder := folder_of(info)) is None:
        return path
    try:
        return in_folder(path, folder)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def existing(path: str, info: ValidationInfo) -> str:
    """The same of a file, which must be there."""
    file = placed(path, info)
    if folder_of(info) is not None and not Path(file).is_file():
        raise ValueError(f"there is no file {file}; check the path")
    return file


Positive = Annotated[StrictInt, Field(ge=1, le=MAX_TOTAL)]
Seconds = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
Minutes = Seconds
NotNegative = Annotated[StrictInt, Field(ge=0, le=MAX_TOTAL)]
Temperature = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
Loss = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Objective: TypeAlias = Literal["sub_tables", "reconstruction", "reconstruction_non_zero"]
Text = Annotated[StrictStr, Field(min_length=1)]
Placed = Annotated[Text, AfterValidator(placed)]
ExistingFile = Annotated[Text, AfterValidator(existing)]
"""Paths relative to the folder of the file that names them, from which they are made absolute as it is read."""
Category = Annotated[Text, BeforeValidator(_category)]
PlainText = Annotated[Text, AfterValidator(_readable), BeforeValidator(_as_written)]
Day = Annotated[Text, AfterValidator(_day), BeforeValidator(_as_written)]
Share = Annotated[float, Field(ge=0, lt=1, strict=True, allow_inf_nan=False)]
Edge = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Memory = Annotated[Text, AfterValidator(_memory)]
Workers = Annotated[StrictInt, Field(ge=1, le=1024)]
Names = Annotated[tuple[Text, ...], Field(min_length=1)]


class Section(BaseModel):
    """A part of a file of settings: what it does not name is refused, and nothing changes it.

    A setting is its name, its type with its range, its default, and below it what it is, in words for everybody: what
    it may be comes from these to files, commands, Python, the handbook and editors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    place: ClassVar[str | None] = None
    """the key of the section in a config, where it has old keys; see `sdc.config.old_keys`"""
    newer: ClassVar[frozenset[str]] = frozenset()
    """settings of later versions: without them at their default, so that builds from before have the same digest"""

    @model_serializer(mode="wrap")
    def _without_newer(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = plain(self)
        for name in self.newer & content.keys():
            if getattr(self, name) == type(self).model_fields[name].default:
                del content[name]
        return content

    @model_validator(mode="before")
    @classmethod
    def _with_current_keys(cls, content: Any) -> Any:
        return content if cls.place is None else current(content, cls.place)

    def recorded(self, **options: Any) -> dict[str, Any]:
        """As digests, stage keys and manifests have it: by the old keys. Options are those of `model_dump`."""
        content: dict[str, Any] = self.model_dump(mode="json", **options)
        return content if self.place is None else recorded(content, self.place)


def _groups(groups: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Groups of which none has a value of another, and one at most has all others."""
    first: dict[str, str] = {}
    for label, values in groups.items():
        for value in values:
            if value in first:
                raise ValueError(f"the value {value!r} is in {first[value]!r} and again in {label!r}")
            first[value] = label
    return groups


_Values = Annotated[tuple[Category, ...], BeforeValidator(lambda values: OTHERS if values == "*" else values)]
Groups = Annotated[dict[Category, _Values], Field(min_length=1), AfterValidator(_groups)]
