"""The command about configs: what every key is, and what a config comes to with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdc.cli_options import Json, print_json
from sdc.model.errors import ConfigError
from sdc.paths import checked_path

configs = typer.Typer()


@configs.command("config")
def config_command(
    subject: Annotated[
        str | None, typer.Argument(metavar="CONFIG|KEY", help="A config to be checked and shown whole; or a key.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Every key, or KEY and those below it: type, default and meaning.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(parser=checked_path, metavar="FILE", help="Write the reference to this HTML file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What the keys of a config are; or a config checked, with all its defaults."""
    if page is not None:
        _write_page(page)
    elif explain:
        _explain(subject, as_json)
    elif subject is not None:
        _show(checked_path(subject), as_json)
    else:
        raise ConfigError("nothing is asked; give a config, --explain, --explain release.weights, or --page FILE")


def _explain(key: str | None, as_json: bool) -> None:
    from sdc.config_reference import explained

    found = explained(key)
    if as_json:
        print_json([one.facts for one in found])
        return
    for one in found:
        default = "must be given" if one.default is None else f"default {one.default}"
        print(f"{one.key}\n    {one.kind}; {default}\n    {one.description}")


def _show(config: Path, as_json: bool) -> None:
    import yaml

    from sdc.config_file import read_config

    content = read_config(config).model_dump(mode="json")
    if as_json:
        print_json(content)
        return
    print(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), end="")


def _write_page(path: Path) -> None:
    from sdc.config_reference import page

    if path.exists():
        raise ConfigError(f"--page {path} exists already; name a file that does not")
    try:
        path.write_text(page(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--page {path} cannot be written: {error.strerror}; name another file") from error
