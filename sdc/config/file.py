"""Reads a config from its YAML file, and says of every fault in one sentence: key, value and what is allowed."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sdc.config.build import BuildConfig
from sdc.config.old_keys import current, current_settings, warn
from sdc.config.publication import with_code_list
from sdc.config.reference import NAME, reference
from sdc.config.table import SUFFIXES
from sdc.config.values import Numeral, Section
from sdc.model.errors import ConfigError, SdcError, meant
from sdc.paths import checked_path, shown
from sdc.run_format import MANIFEST

Model = TypeVar("Model", bound=BaseModel)

MAX_BYTES, MAX_LEVELS, MAX_VALUES = 1 << 26, 50, 1_000_000
_A_SECTION = re.compile(r"a valid dictionary( or (instance of \w+|object to extract fields from))?")
_KIND = re.compile(r"\[|^constrained-str$|^[A-Z]\w*Config$")  # among keys, what pydantic says of a kind it tried
MAX_BITS = 1024  # of an integer: a setting can say of one that is too large for it what is allowed


Settings: TypeAlias = Mapping[str, Any]
"""By their keys, with dots between sections: what is given beside a file."""
NOTHING_SET: Settings = MappingProxyType({})


def read_config(path: str | Path, settings: Settings = NOTHING_SET) -> BuildConfig:
    """The config in a YAML file with settings on top, and the files it names relative to its folder made absolute.

    ConfigError, one message with every fault: the key, its value and what is allowed.
    """
    path, settings = Path(path), current_settings(settings)
    _require_config(checked_path(path))
    config = configured(load_yaml(path, "config", ConfigError), path, settings)
    try:
        config.require_used(settings)
    except ConfigError as error:
        raise ConfigError(str(error) if settings else f"{path}: {error}") from error
    if config.labels.code_list is None:
        return config
    file = Path(config.labels.code_list)
    try:
        return config.model_copy(update={"labels": with_code_list(config.labels, file)})
    except ValidationError as error:
        raise ConfigError(f"code list {file}: {faults_of(error, BuildConfig, 'labels')}") from error


def configured(content: Any, path: Path, settings: Settings = NOTHING_SET) -> BuildConfig:
    """A config from its content with settings on top; ConfigError as `validated`, which names the file for its own."""
    if isinstance(content, dict):
        # before it is validated, so that a fault in the file does not matter where something else is set
        content = with_settings(_current(BuildConfig, content, path), settings)
    return validated(BuildConfig, content, path, settings=settings)


def _current(model: type[BaseModel], content: Any, path: Path, place: str = "") -> Any:
    """The content of a file with the keys of today, of which it warns; ConfigError as `validated`."""
    if not issubclass(model, Section) or model.place is None:
        return content
    try:
        return current(content, model.place, lambda line: warn(f"{path}{place}: {line}"))
    except ConfigError as error:
        raise ConfigError(f"{path}{place}: {error}") from error


def with_settings(content: Mapping[str, Any], settings: Settings, above: str = "") -> dict[str, Any]:
    """The content of a file with settings on top; ConfigError for one within what is not a section."""
    content = dict(content)
    for key, value in (settings if above else current_settings(settings)).items():
        section, dot, rest = key.partition(".")
        inner = {} if content.get(section) is None else content[section]
        if dot and not isinstance(inner, Mapping):
            whole = f"{above}{section}"
            raise ConfigError(
                f"{above}{key} cannot be set: {whole} = {shown(inner)} is not a section; set {whole} itself"
            )
        content[section] = with_settings(inner, {rest: value}, f"{above}{section}.") if dot else value
    return content


def joined(settings: Settings, named: Settings) -> dict[str, Any]:
    """Settings, with more that have a name of their own, by their keys; ConfigError for one that is given both ways."""
    if twice := next((key for key in named if is_set(settings, key)), None):
        raise ConfigError(f"{twice} is given both by --set and by its own option or argument; give it once")
    return {**settings, **named}


def is_set(settings: Settings, key: str) -> bool:
    """Whether a key is among settings, or in a section that is."""
    value: Any = with_settings({}, settings)
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value is not None


def _require_config(path: Path) -> None:
    """ConfigError for what is known to be something else: a run folder, another folder, a table."""
    if os.path.isfile(path / MANIFEST):
        raise ConfigError(
            f"config {path} is a run folder; give the YAML file that it was made from, or read its state by sdc status"
        )
    if path.name.lower().endswith(SUFFIXES):
        raise ConfigError(f"config {path} is a table, not a YAML file; write a first config for it by sdc init {path}")
    if os.path.isdir(path):
        raise ConfigError(
            f"config {path} is a folder, not a YAML file; if it has the parts of a table, write a first config for "
            "it by "
            f"sdc init {path}"
        )


def validated(model: type[Model], content: Any, path: Path, place: str = "", settings: Iterable[str] = ()) -> Model:
    """The content of a file as a model; ConfigError, one message with every fault: the key, its value, what is allowed.

    place  where in the file it stands, for the message; settings  whose faults, with all below, are none of the file
    """
    if not isinstance(content, dict):
        what = "is empty" if content is None else f"is a {type(content).__name__}"
        raise ConfigError(f"{path}{place} {what}, not a mapping; it has the keys {', '.join(model.model_fields)}")
    content = _current(model, content, path, place)
    try:
        return model.model_validate(content, context={"folder": path.absolute().parent})
    except ValidationError as error:
        keys = [".".join(map(str, fault["loc"])) for fault in error.errors()]
        is_set = all(any(key.startswith(given) for given in settings) for key in keys)
        raise ConfigError(f"{'' if is_set else f'{path}{place}: '}{faults_of(error, model)}") from error


# YAML


class _Loader(yaml.SafeLoader):
    """The safe loader, which in addition refuses what no setting can be, and what would exhaust a reader.

    That is a key that is given twice, more than MAX_LEVELS within each other, aliases within what they name or of more
    than MAX_VALUES in all, an integer beyond MAX_BITS, text with a NUL or without a UTF-8 form, and what is not as its
    tag says.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._level, self._values = 0, dict[yaml.Node, int]()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        self._level += 1
        if self._level > MAX_LEVELS:
            raise _wrong(f"more than {MAX_LEVELS} levels", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self._level -= 1
        if is_alias and node not in self._values:
            raise _wrong("an alias within what it names", None if node is None else node.start_mark)
        if node is not None and not is_alias:
            self._values[node] = self._count(node)
        return node

    def _count(self, node: yaml.Node) -> int:
        """How many values it comes to with what its aliases name; each of these has been counted once."""
        pairs = node.value if isinstance(node, yaml.CollectionNode) else []
        within = [part for pair in pairs for part in (pair if isinstance(pair, tuple) else (pair,))]
        values = 1 + sum(self._values[part] for part in within)
        if values > MAX_VALUES:
            raise _wrong(f"more than {MAX_VALUES} values, most of them by aliases", node.start_mark)
        return values

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            kind = node.tag.rpartition(":")[2]
            raise _wrong(f"{shown(node.value)} is no {kind}", node.start_mark) from error
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise _wrong(f"an integer of more than {MAX_BITS} bits", node.start_mark)
        try:
            is_text = not isinstance(value, str) or b"\0" not in value.encode()
        except UnicodeEncodeError:
            is_text = False
        if not is_text:
            raise _wrong(f"{shown(value)} has a character that no text has", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        # YAML itself would let the last one win without a word
        for key in (key for key, _ in pairs if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.constructor.ConstructorError(problem=f"line {line} gives {key.value!r} a second time")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _wrong(what: str, mark: yaml.Mark | None) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(problem=what, problem_mark=mark)


def _numeral(loader: _Loader, node: yaml.ScalarNode) -> Numeral:
    return Numeral.of(loader.construct_yaml_int(node), node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _numeral)


class TextLoader(_Loader):
    """Reads every scalar as the text that is written there: no is a category, and 01 is not 1."""

    yaml_implicit_resolvers = {}  # the library's own attribute


def yaml_value(text: str) -> Any:
    """A value as a line of a config has it; ValueError for what is none."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(_where(error)) from error


def load_yaml(path: Path, what: str, refusal: type[SdcError], loader: type[_Loader] = _Loader) -> Any:
    """The content of a YAML file; `refusal`, whose message begins with what it is, where it cannot be read."""
    try:
        with checked_path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:  # a device never ends
            raise OSError(f"it has more than {MAX_BYTES} bytes")
        return yaml.load(text.decode("utf-8"), loader)
    except FileNotFoundError as error:
        raise refusal(f"{what} {path} does not exist; give a YAML file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(f"{what} {path} cannot be read: {error}; give a YAML file in UTF-8") from error
    except yaml.YAMLError as error:
        raise refusal(f"{what} {path} is not valid YAML: {_where(error)}; correct it there") from error


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return place + str(getattr(error, "problem", None) or str(error).splitlines()[0])


# One sentence a fault


def faults_of(error: ValidationError, model: type[BaseModel], *section: str) -> str:
    """What pydantic found in a model, or in this section of it: key, value and what is allowed of each."""
    faults = _of_one_kind(error.errors(include_url=False))
    return "; ".join(_fault(model, {**e, "loc": (*section, *e["loc"])}) for e in faults)


def _of_one_kind(faults: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Faults at their keys, one each; of a setting of several kinds, what is wrong within it where that is one of them.

    pydantic tries all kinds, and has the kind that was tried stand among the keys.
    """
    found = dict[tuple[Any, ...], dict[str, Any]]()
    for fault in faults:
        keys = tuple(key for key in fault["loc"] if not _KIND.search(str(key)))
        if keys in found and fault["type"] != "value_error":  # which says what is wrong with a value of the right kind
            fault = {**fault, "msg": f"{found[keys]['msg']}, or {fault['msg'].removeprefix('Input should be ')}"}
        found[keys] = {**fault, "loc": keys}
    around = {other[:depth] for other in found for depth in range(len(other))}
    return [fault for keys, fault in found.items() if keys not in around]


def _fault(model: type[BaseModel], error: Mapping[str, Any]) -> str:
    keys = [str(key) for key in error["loc"]]
    name = ".".join(keys)
    if error["type"] == "extra_forbidden":
        listed = {one.key: one.description for one in reference(model)}
        place = _place(listed, keys[:-1])
        known = [inner for one in listed for above, _, inner in [one.rpartition(".")] if above == place]
        # of {title: Age, sex and race} YAML makes a key `sex and race` without a value
        quoted = "a text with a comma needs quotation marks; " if error["input"] is None else ""
        return f"{name} is an unknown key; {quoted}{meant(keys[-1], known)}allowed: {', '.join(known)}"
    if error["type"] == "missing":
        return f"{name} is missing; add it ({_allowed(model, keys)})"
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):  # of a rule of a server
        key, given = error["ctx"]["discriminator"].strip("'"), error["ctx"].get("tag")
        what = f"is missing; add {key}" if given is None else f"= {given!r} is unknown"
        return f"{name}.{key} {what} ({_allowed(model, keys)})"
    reason = _A_SECTION.sub("a section", error["msg"].removeprefix("Value error, ").removeprefix("Input "))
    reason = reason.replace("a valid tuple", "a list")
    if not keys:
        return str(reason)
    return f"{name} = {reprlib.repr(error['input'])}: {reason} ({_allowed(model, keys)})"


def _place(listed: Iterable[str], keys: Sequence[str]) -> str:
    """The place among the listed keys of a model: `NAME` stands for what the user chose, others are passed over."""
    place = ""
    for key in keys:
        if (inner := f"{place}.{key}".lstrip(".")) in listed:
            place = inner
        elif any(one.startswith(f"{place}.{NAME}.") for one in listed):
            place = f"{place}.{NAME}"
    return place


def _allowed(model: type[BaseModel], keys: Sequence[str]) -> str:
    """The description of the setting at these keys, or around them."""
    listed = {one.key: one.description for one in reference(model)}
    place = _place(listed, keys).removesuffix(f".{NAME}")
    return listed[place] if place else f"one of {', '.join(model.model_fields)}"
