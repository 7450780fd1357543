"""The commands about configs: a first one from a table, what every key is, what a config comes to with its defaults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdc.commands.options import Json, Sheet, print_json
from sdc.commands.panels import BUILD
from sdc.model.errors import ConfigError
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.data.columns import Column

configs = typer.Typer()
TablePath = Annotated[str, typer.Argument(metavar="TABLE", help="A data file, a folder of parts or a URL.")]


@configs.command("config", rich_help_panel=BUILD)
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
    """Explain the keys of a config, or show one with its defaults."""
    if page is not None:
        _write_page(page)
    elif explain:
        _explain(subject, as_json)
    elif subject is not None:
        _show(checked_path(subject), as_json)
    else:
        raise ConfigError("nothing is asked; give a config, --explain, --explain release.weights, or --page FILE")


def _explain(key: str | None, as_json: bool) -> None:
    from sdc.config.reference import explained

    found = explained(key)
    if as_json:
        print_json([one.facts for one in found])
        return
    for one in found:
        default = "must be given" if one.default is None else f"default {one.default}"
        print(f"{one.key}\n    {one.kind}; {default}\n    {one.description}")


def _show(config: Path, as_json: bool) -> None:
    import yaml

    from sdc.config.file import read_config

    content = read_config(config).model_dump(mode="json")
    if as_json:
        print_json(content)
        return
    print(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), end="")


def _write_page(path: Path) -> None:
    from sdc.config.reference import page

    if path.exists():
        raise ConfigError(f"--page {path} exists already; name a file that does not")
    try:
        path.write_text(page(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--page {path} cannot be written: {error.strerror}; name another file") from error


@configs.command(rich_help_panel=BUILD)
def capabilities(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[A [B]]", help="A method, verb or feature of a config, or two.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which features work together.

    All pairs, those of A, or A with B. For a refused pair the command prints the message.
    """
    from sdc.config.capabilities import told

    found = told(*(names or []))
    if as_json:
        print_json(found)
        return
    refused = [pair["refused"] for pair in found if pair["refused"] is not None]
    for one in refused:
        print(one)
    print(f"{len(found) - len(refused)} pairs work, {len(refused)} are refused")


@configs.command(rich_help_panel=BUILD)
def init(
    table: TablePath,
    out: Annotated[
        Path | None, typer.Option(parser=checked_path, metavar="FILE", help="Write the config to this new file.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="What separates columns of a text file; else guessed.")] = None,
    encoding: Annotated[str | None, typer.Option(help="The encoding of a text file; else guessed.")] = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal sign of a text file; else guessed.")] = None,
    quote: Annotated[str | None, typer.Option(help='What values are quoted by, or none; default ".')] = None,
    sheet: Sheet = None,
    as_json: Json = False,
) -> None:
    """Propose a first config for a table.

    Comments explain the variables, bins, missing values and likely structural zeros. At a terminal the command asks
    whether numbers are codes or amounts if it cannot tell; otherwise it treats them as codes.
    """
    from sdc.data.profile import config_name, never_amounts, written
    from sdc.data.source import open_source
    from sdc.model.totals import warnings_of

    if out is not None and out.exists():
        raise ConfigError(f"--out {out} exists already; name a file that does not")
    # absolute, so that the config may lie anywhere
    source = open_source(table if "://" in table else checked_path(table).absolute())
    is_asked = sys.stdin.isatty() and not as_json
    csv = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "quote": quote, "sheet": sheet}
    given = {key: value for key, value in csv.items() if value is not None}
    text, facts = written(source, config_name(table), _ask if is_asked else never_amounts, given)
    for one in facts["variables"]:
        if one["used"] and one["unsure"]:
            print(
                f"{one['name']}: {one['values']} numbers, taken for codes; if they are amounts, bin them",
                file=sys.stderr,
            )
    for warning in warnings_of(facts["sums"]):
        print(warning, file=sys.stderr)
    if out is not None:
        _write_confidential(out, text)
    if as_json:
        print_json({**facts, "config": None if out is not None else text})
    elif out is None:
        print(text, end="")
    else:
        print(f"{out}: {sum(v['used'] for v in facts['variables'])} variables; read it, then: sdc plan {out}")


def _ask(column: Column) -> bool:
    asked = f"{column.name}: {len(column.values)} whole numbers. Are they amounts, to be binned, and no codes?"
    return typer.confirm(asked, default=False, err=True)


def _write_confidential(path: Path, text: str) -> None:
    from sdc.storage.whole_file import replacing

    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {path} cannot be written: {error.strerror}; name another file") from error
