"""Keys of the config that had another name or other values in an earlier version: one table, read both ways.

Old keys are accepted wherever settings are given. Digests, stage keys and manifests keep the old names, so that run
folders, checkpoints and ledgers stay recognised.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sdc.model.errors import ConfigError


class Now(NamedTuple):
    """The name of a key now, and the values of today by those of before, where they differ."""

    name: str
    values: Mapping[Any, Any] = {}


OLD_KEYS = {
    "table.bad_records": Now("invalid_records", {"refuse": "refuse", "set_aside": "exclude"}),
    "risk.undecided": Now("accept_undecided", {"refuse": False, "outer": True}),
    "risk.n_rule": Now("min_frequency"),
    "risk.attributes": Now("attribute_disclosure"),
    "release.only": Now("required_only", {None: False, "required": True}),
    "release.conflicts": Now("on_conflict", {"refuse": "refuse", "best_subset": "drop"}),
    "release.like": Now("previous_pattern"),
    "release.in_part": Now("protect", {"withhold": "suppression"}),
    "release.protect.how": Now("by", {"withhold": "suppression", "coarsen": "recoding", "round": "rounding"}),
    "release.protect.most": Now("max_share"),
    "release.breadth": Now("first_dimension"),
    "release.questions": Now("max_evaluations"),
    "server.rules.rule": Now("rule", {"biased": "limit_unreleasable"}),
    "widths.floor": Now("threshold"),
}
"""By the old key. Sections above it have the names of today. A value that is not listed is refused with a renamed key,
and kept where only values changed; each item of a list is converted, and a section stays as it is."""

Say = Callable[[str], object]


def _at(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)


def _places(keys: Iterable[str]) -> frozenset[str]:
    parts = [key.split(".")[:-1] for key in keys]
    return frozenset(".".join(of[:depth]) for of in parts for depth in range(len(of) + 1))


_PLACES = _places(OLD_KEYS)  # sections that have old keys, or sections with old keys
_BEFORE = {
    _at(key.rpartition(".")[0], now.name): Now(
        key.rpartition(".")[2], {value: before for before, value in now.values.items()}
    )
    for key, now in OLD_KEYS.items()
}


class OldKeyWarning(FutureWarning):
    """An old key is given; commands print it as a line."""


def warn(line: str) -> None:
    """Shown once for each line."""
    warnings.warn(line, OldKeyWarning, stacklevel=2)


def current(content: Any, place: str = "", say: Say = lambda line: None) -> Any:
    """Settings with the keys and values of today; `say` gets a line for each old one.

    place  the key of the section that they are

    ConfigError where an old and a new key are given together, and for a value that an old key did not have.
    """
    return _renamed(content, place, OLD_KEYS, say)


def recorded(content: Any, place: str) -> Any:
    """Settings of today with the keys and values of before, as digests, stage keys and manifests have them."""
    return _renamed(content, place, _BEFORE, lambda line: None)


def current_key(key: str) -> str:
    """The name of today of a key with dots."""
    place = ""
    for name in key.split("."):
        place = _at(place, OLD_KEYS.get(_at(place, name), Now(name)).name)
    return place


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same as `current` for settings by their keys with dots."""
    found, given = dict[str, Any](), dict[str, str]()
    for key, value in settings.items():
        now = current_key(key)
        if (other := given.setdefault(now, key)) != key:
            raise _both(other if key == now else key, now)
        _, _, name = key.rpartition(".")
        (found[now],) = current({name: value}, now.rpartition(".")[0], warn).values()
    return found


def _renamed(content: Any, place: str, table: Mapping[str, Now], say: Say) -> Any:
    if isinstance(content, list | tuple):
        return [_renamed(one, place, table, say) for one in content]
    if not isinstance(content, Mapping) or place not in _PLACES:
        return content
    found = dict[Any, Any]()
    for key, value in content.items():
        name, now = key, value
        if (entry := table.get(_at(place, key))) is not None:
            name, now = entry.name, _converted(_at(place, key), entry, value)
            if name != key and name in content:
                raise _both(_at(place, key), _at(place, name))
            if name != key or now != value:
                say(f"{_line(place, key, value)} goes with the next version; write {_line(place, name, now)}")
        # the sections above an old key have their names of today in the table, whichever way it is read
        found[name] = _renamed(now, _at(place, name if table is OLD_KEYS else key), table, say)
    return found


def _both(old: str, new: str) -> ConfigError:
    return ConfigError(f"{old} is the old name of {new}, and both are given; leave out {old}")


def _converted(key: str, entry: Now, value: Any) -> Any:
    if not entry.values or isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple):
        return type(value)(_converted(key, entry, one) for one in value)
    if value in entry.values:
        return entry.values[value]
    if key.rpartition(".")[2] == entry.name:
        return value
    allowed = " or ".join(map(_text, entry.values.values()))
    raise ConfigError(f"{key} = {_text(value)}: the key is now {entry.name}; write {entry.name}: {allowed}")


def _line(place: str, name: object, value: Any) -> str:
    parts = value if isinstance(value, list | tuple) else [value]
    return _at(place, name) if any(isinstance(one, Mapping) for one in parts) else f"{_at(place, name)}: {_text(value)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.isidentifier() else json.dumps(value, default=str)
