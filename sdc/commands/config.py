"""Commands before a build: propose a config, explain its keys, show it with defaults; and check this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sdc.commands.options import (
    BUILD,
    HISTORY_FILE,
    MAINTAIN,
    CommandResult,
    Settings,
    Sheet,
    command,
    file_option,
    say,
    write_page,
)
from sdc.model.errors import ConfigError, many
from sdc.paths import checked_path
from sdc.refusal import ERROR

if TYPE_CHECKING:
    from sdc.data.columns import Column
    from sdc.execution.doctor import Diagnosis

TablePath = Annotated[str, Argument(metavar="TABLE", help="A data file, a folder of parts or a URL.")]


@command(BUILD, "table.path", name="config")
def config_command(
    settings: Settings,
    key: Annotated[
        str | None, Argument(metavar="CONFIG|KEY", help="A config to be checked and shown whole; or a key.")
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Every key, or KEY and those below it: type, default and meaning.")
    ] = False,
    schema: Annotated[
        bool, Option("--schema", help="The JSON schema of a config, by which editors complete and check one.")
    ] = False,
    page: Annotated[Path | None, file_option("Write the reference to this HTML file.", "--page")] = None,
) -> CommandResult:
    """Explain the keys of a config, or show one with its defaults."""
    from sdc.config import reference
    from sdc.config.file import read_config

    if page is not None:
        if page.exists():
            raise ConfigError(f"--page {page} exists already; name a file that does not")
        write_page(page, reference.page(), "--page")
        return CommandResult({"page": str(page)}, lambda: None)
    if schema:
        return _answer(reference.schema(), as_yaml=False)
    if explain:
        found = reference.explained(key)
        return CommandResult([one.facts for one in found], lambda: print("\n".join(one.text for one in found)))
    if key is None:
        raise ConfigError(
            "nothing to do: give a config, --explain, --explain release.weights, --schema, or --page FILE"
        )
    return _answer(read_config(checked_path(key), settings).model_dump(mode="json"), as_yaml=True)


def _answer(content: dict[str, Any], as_yaml: bool) -> CommandResult:
    def show() -> None:
        import yaml

        text = (
            yaml.safe_dump(content, sort_keys=False, allow_unicode=True) if as_yaml else json.dumps(content, indent=2)
        )
        print(text.rstrip())

    return CommandResult(content, show)


@command(BUILD)
def capabilities(
    names: Annotated[
        list[str] | None, Argument(metavar="[A [B]]", help="A method, verb or feature of a config, or two.")
    ] = None,
) -> CommandResult:
    """Show which features work together.

    All pairs, those of A, or A with B. For a refused pair the command prints the message.
    """
    from sdc.config.capabilities import pair_facts

    found = pair_facts(*(names or []))
    refused = [pair["refused"] for pair in found if pair["refused"] is not None]
    total = f"{many(len(found) - len(refused), 'pair')} allowed, {len(refused):,} refused"
    return CommandResult(found, lambda: print("\n".join([*refused, total])))


@command(BUILD)
def init(
    table: TablePath,
    out: Annotated[Path | None, file_option("Write the config to this new file.", "--out")] = None,
    delimiter: Annotated[str | None, Option(help="What separates columns of a text file; else guessed.")] = None,
    encoding: Annotated[str | None, Option(help="The encoding of a text file; else guessed.")] = None,
    decimal: Annotated[str | None, Option(help="The decimal sign of a text file; else guessed.")] = None,
    quote: Annotated[str | None, Option(help='What values are quoted by, or none; default ".')] = None,
    sheet: Sheet = None,
    as_json: bool = False,
) -> CommandResult:
    """Propose a first config for a table.

    Comments explain the variables, bins, missing values and likely structural zeros. At a terminal, the command prompts
    for numbers that may be codes or amounts; otherwise it treats them as codes.

    Of a batch of tau-ARGUS (.arb) it converts tables, rules and hierarchies, and lists the differences. With --out the
    records are written beside the config as CSV.
    """
    from sdc.data import tau_argus
    from sdc.data.profile import config_name, never_amounts, written
    from sdc.data.source import open_source
    from sdc.model.totals import warnings_of

    if out is not None and out.exists():
        raise ConfigError(f"--out {out} exists already; name a file that does not")
    if table.lower().endswith(tau_argus.SUFFIX):
        if any(one is not None for one in (delimiter, encoding, decimal, quote, sheet)):
            raise ConfigError(f"{table} is a batch of tau-ARGUS: its metadata describe the file; leave out options")
        return _from_batch(checked_path(table), out)
    # absolute, so the config can be moved
    source = open_source(table if "://" in table else checked_path(table).absolute())
    is_interactive = sys.stdin.isatty() and not as_json
    csv = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "quote": quote, "sheet": sheet}
    given = {key: value for key, value in csv.items() if value is not None}
    text, facts = written(source, config_name(table), _ask if is_interactive else never_amounts, given)
    for one in facts["variables"]:
        if one["used"] and one["unsure"]:
            say(f"{one['name']}: {one['values']} numbers, taken for codes; if they are amounts, bin them")
    for warning in warnings_of(facts["sums"]):
        say(warning)
    if out is not None:
        write_page(out, text, "--out")

    used = sum(variable["used"] for variable in facts["variables"])
    return _proposed(text, facts, out, f"{many(used, 'variable')}; read it, then: sdc plan {out}")


def _from_batch(batch: Path, out: Path | None) -> CommandResult:
    from sdc.data.tau_argus import converted

    records = batch.with_name(f"{batch.stem}_records.csv") if out is None else out.with_name(f"{out.stem}_records.csv")
    text, rows, facts = converted(batch, records.name)
    if out is not None:
        if records.exists():
            raise ConfigError(f"{records} exists already; move it, or name another --out")
        write_page(records, rows, "--out")
        write_page(out, text, "--out")
    number = len(facts["differences"])
    return _proposed(text, facts, out, f"{facts['records']} records; read the {number} differences in its first lines")


def _proposed(text: str, facts: dict[str, Any], out: Path | None, line: str) -> CommandResult:
    """Print the config, or a line on the file that has it."""
    if out is None:
        return CommandResult({**facts, "config": text}, lambda: print(text, end=""))
    return CommandResult({**facts, "config": None}, lambda: print(f"{out}: {line}"))


def _ask(column: Column) -> bool:
    question = f"{column.name}: {len(column.values)} whole numbers. Are they amounts, to be binned, and no codes?"
    return typer.confirm(question, default=False, err=True)


@command(MAINTAIN)
def doctor(
    config: Annotated[
        Path | None, Argument(parser=checked_path, metavar="[CONFIG]", help="Also what this config names.")
    ] = None,
) -> CommandResult:
    """Check that this machine can run builds and servers, for administrators.

    Prints one line for each check. Writes nothing.
    """
    from sdc.execution.doctor import examined

    found = list(examined(config))
    if config is not None and all(one.ok for one in found if one.name == "config"):
        found += _of_keys(config)
    is_ok = all(one.ok for one in found)

    def show() -> None:
        for one in found:
            print(f"{'ok' if one.ok else 'fix':6}{one.name:12}{one.message}")

    checks = [{"name": one.name, "ok": one.ok, "said": one.message} for one in found]
    return CommandResult({"ok": is_ok, "checks": checks}, show, 0 if is_ok else ERROR)


def _of_keys(path: Path) -> list[Diagnosis]:
    """Check the keys of the config's server, if it has started."""
    from sdc.config.file import read_config
    from sdc.execution.doctor import Diagnosis
    from sdc.model.errors import SdcError
    from sdc.record.database import NoChainError

    config = read_config(path)
    if config.server is None:
        return []
    from sdc.server.service.prepare import server_folder
    from sdc.server.web.access import expiry_text, open_access, utc_now

    try:
        with open_access(config.server.history or str(server_folder(config) / HISTORY_FILE), config.server) as access:
            lacking = [f"{user} has no valid key" for user in access.without_key(utc_now())]
            lacking += [expiry_text(user, end) for user, end in access.expiring(utc_now()).items()]
    except NoChainError:
        return []
    except SdcError as error:
        return [Diagnosis("keys", False, str(error))]
    # no error: a server starts nevertheless, and makes keys for those who have none
    return [Diagnosis("keys", True, "; ".join(lacking) or "every user has a key for 30 days or more")]
