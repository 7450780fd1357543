"""The reference of the config: every key of the types is in it, and none that is not one."""

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from sdc.commands.cli import main
from sdc.config.build import BuildConfig
from sdc.config.reference import NAME, explained, page, reference
from sdc.model.errors import ConfigError

CZECH = Path(__file__).parents[3] / "configs" / "czech_auto_workers.yaml"


def keys_of(schema: dict[str, Any], definitions: dict[str, Any], above: str = "") -> Iterator[str]:
    """The keys of a JSON schema, whose sections are references."""
    if "$ref" in schema:
        yield from keys_of(definitions[schema["$ref"].rpartition("/")[2]], definitions, above)
    for kind in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(kind, ()):
            yield from keys_of(one, definitions, above)
    if isinstance(schema.get("items"), dict):
        yield from keys_of(schema["items"], definitions, above)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from keys_of(schema["additionalProperties"], definitions, f"{above}{NAME}.")
    for name, inner in schema.get("properties", {}).items():
        yield f"{above}{name}"
        yield from keys_of(inner, definitions, f"{above}{name}.")


def test_every_key_is_in_it_and_none_out_of_it() -> None:
    schema = BuildConfig.model_json_schema()
    named = [key.key for key in reference()]
    assert len(named) == len(set(named))
    assert set(named) == set(keys_of(schema, schema["$defs"]))


def test_every_key_says_what_it_is() -> None:
    silent = {key.key for key in reference() if not key.description and not key.key.endswith(".rule")}
    assert silent == set()
    assert {key.key for key in reference() if key.default is None} >= {"name", "table", "table.path", "risk.min_width"}


def test_one_key_and_those_below_it() -> None:
    (weights, *below) = explained("release.weights")
    assert (weights.key, weights.kind, weights.default) == ("release.weights", "section", "its own defaults")
    assert [key.key for key in below] == ["release.weights.variables", "release.weights.sub_tables"]
    (method,) = explained("release.method")
    kinds = "ordered or bisection or decomposable or best or optimum or simulatable"
    assert (method.kind, method.default) == (kinds, "ordered")
    assert explained("server.rules.most")
    assert explained(f"labels.variables.{NAME}.unit")[0].kind == "text"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("release.wieghts", r"release.wieghts is not a key of the config; did you mean release\.weights"),
        ("min_width", r"did you mean .*risk\.min_width|did you mean .*curve\.min_width"),
        ("zzz", "sdc config --explain lists all"),
    ],
)
def test_a_key_that_there_is_not(wanted: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        explained(wanted)


def test_the_page_has_a_row_for_every_key() -> None:
    class Rows(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "link", "img")
            if tag == "tr" and dict(attrs).get("id"):
                self.found.append(str(dict(attrs)["id"]))

    rows = Rows()
    rows.feed(page())
    assert rows.found == [key.key for key in reference()]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sdc(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end, patch.object(sys, "argv", ["sdc", *arguments]):
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    assert sdc("config", "--explain", "release.max_evaluations")[1].startswith(
        "release.max_evaluations\n    integer; default none"
    )
    status, out, _ = sdc("config", "--explain", "release.max_evaluations", "--json")
    assert (status, json.loads(out)[0]["key"]) == (0, "release.max_evaluations")
    status, out, _ = sdc("config", str(CZECH))
    assert (status, yaml.safe_load(out)["release"]["on_conflict"]) == (0, "refuse")
    file = tmp_path / "reference.html"
    assert sdc("config", "--page", str(file))[0] == 0
    assert file.read_text().startswith("<!doctype html>")
    for arguments, message in (
        (("config",), "nothing to do: give a config, --explain,"),
        (("config", "--page", str(file)), "exists already; name a file that does not"),
        (("config", "--page", str(tmp_path / "no" / "x.html")), "cannot be written: No such file"),
        (("config", "--explain", "zzz"), "zzz is not a key of the config"),
        (("config", str(tmp_path / "none.yaml")), "does not exist; give a YAML file"),
    ):
        status, out, err = sdc(*arguments)
        assert (status, out) == (1, "")
        assert message in err
