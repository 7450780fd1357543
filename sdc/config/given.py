"""Settings that are given beside a file: as `key=value` to commands, by keywords in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic import ValidationError

from sdc.config.build import BuildConfig
from sdc.config.file import faults_of, yaml_value
from sdc.config.methods import SECTIONS
from sdc.config.old_keys import current, warn
from sdc.config.reference import explained
from sdc.config.release import ReleaseConfig, is_name
from sdc.model.errors import ConfigError, InputError, meant

NAMES = (
    *dict.fromkeys(chain(*SECTIONS.values())),
    "budget",
    *(key for key in ReleaseConfig.model_fields if key != "method"),
)


def settings_of(words: Iterable[str]) -> dict[str, Any]:
    """Settings that are written `key=value`, dots between sections, the value as in a config; a later one counts.

    ConfigError for what is written otherwise, and for a key whose section no config has, with the nearest key.
    """
    found = dict[str, Any]()
    for word in words:
        key, mark, text = word.partition("=")
        if not mark or not all(key.split(".")):
            raise ConfigError(f"--set {word}: give a key and a value, such as release.method=bisection")
        if key.partition(".")[0] not in BuildConfig.model_fields:
            explained(key)
        try:
            found[key] = yaml_value(text)
        except ValueError as error:
            raise ConfigError(f"--set {word}: {error}; write a value as in a config, a text in quotes") from error
    return found


def with_given(release: ReleaseConfig, given: Mapping[str, Any], others: Sequence[str] = ()) -> ReleaseConfig:
    """The section with what is given on top, by its own keys or those of `SECTIONS`; what is None is not given.

    weights  by name, of variables `age` and of sub-tables `age*sex`
    budget   seconds and seconds_per_cell, as a `Budget` has them
    others   names beside these, for the message; sub-tables may be lists of names

    InputError for another name, with the nearest, and for what the section refuses.
    """
    given = dict(current({name: value for name, value in given.items() if value is not None}, "release", warn))
    if (is_best := given.pop("best_subset", None)) is not None:  # of Python alone
        if "on_conflict" in given:
            raise InputError("best_subset is the old name of on_conflict, and both are given; leave out best_subset")
        given["on_conflict"] = "drop" if is_best else "refuse"
        warn(f"best_subset goes with the next version; write on_conflict={given['on_conflict']!r}")
    require_names(given, (*NAMES, *others), "a search")
    content = release.model_dump()
    for name, value in given.items():
        content = _merged(content, _keys(name, _by_name(name, value)))
    try:
        return ReleaseConfig.model_validate(content)
    except ValidationError as error:
        raise InputError(faults_of(error, BuildConfig, "release")) from error


def require_names(given: Iterable[str], names: Sequence[str], what: str) -> None:
    """InputError for a setting that is none of these, with the nearest."""
    for name in given:
        if name not in names:
            raise InputError(f"{name} is not a setting of {what}; {meant(name, names)}there are {', '.join(names)}")


def _by_name(setting: str, value: Any) -> Any:
    """The same with `age*sex` for each list of names."""
    if setting in ("require", "forbid") and isinstance(value, list | tuple):
        return [_joined(one) for one in value]
    if setting == "protect" and isinstance(value, list | tuple):
        return [{**one, "of": _of(one["of"])} if isinstance(one, Mapping) and "of" in one else one for one in value]
    if setting in ("weights", "demand") and isinstance(value, Mapping):
        return {_joined(of): number for of, number in value.items()}
    return value


def _of(asked: Any) -> Any:
    """One sub-table by its list of names, or a list of several sub-tables."""
    if isinstance(asked, list | tuple) and not all(map(is_name, asked)):
        return [_joined(one) for one in asked]
    return _joined(asked)


def _joined(asked: Any) -> Any:
    is_list = isinstance(asked, list | tuple) and asked and all(isinstance(name, str) for name in asked)
    return "*".join(asked) if is_list else asked


def _keys(name: str, value: Any) -> dict[str, Any]:
    """What one name gives, as the section has it."""
    if name == "budget":
        return {key: getattr(value, key) for key in ("seconds", "seconds_per_cell")}
    if name == "weights":
        sub_tables = {of: weight for of, weight in value.items() if "*" in of}
        variables = {of: weight for of, weight in value.items() if "*" not in of}
        return {name: {"variables": variables, "sub_tables": sub_tables}}
    return {section: {name: value} for section, names in SECTIONS.items() if name in names} or {name: value}


def _merged(content: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings within, too, have what both say, and what is more counts."""
    inner = {
        key: _merged(content[key], value)
        for key, value in more.items()
        if isinstance(value, Mapping) and isinstance(content.get(key), Mapping)
    }
    return {**content, **more, **inner}
