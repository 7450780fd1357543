"""How commands are declared: options, help, input and output."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

from sdc.events import warnings_shown
from sdc.model.errors import ConfigError, IncompleteTableError
from sdc.paths import checked_path
from sdc.refusal import NOT_RELEASABLE

if TYPE_CHECKING:
    from sdc.executor import Executor
    from sdc.public.incomplete import Incomplete
    from sdc.stages.resolved import ResolvedInput

MOST_FAILURES = 5  # in a message
HISTORY_FILE = "history.db"  # in the folder of a server
BUILD, INSPECT, PROTECT, PUBLISH, SERVE, MAINTAIN = PANELS = (
    "Build a release (statisticians)",
    "Inspect tables, releases and runs (statisticians, auditors)",
    "Protect one table (statisticians)",
    "Publish and verify (publishers, auditors)",
    "Serve tables on request (operators of a server, auditors)",
    "Maintain an installation (administrators)",
)
"""Headings of `sdc --help`; each names a kind of work and its readers."""

Settings: TypeAlias = Mapping[str, Any]
"""Settings of the command line, by config key."""


def _panel(command: Any) -> str:
    return str(command.rich_help_panel)


class Panels(TyperGroup):
    """Lists the commands by panel in plain text, with the first sentence of each."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict(sorted(self.commands.items(), key=lambda item: PANELS.index(_panel(item[1]))))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for panel in PANELS:
            rows = [
                (name.ljust(width), command.get_short_help_str(limit=formatter.width))
                for name, command in self.commands.items()
                if _panel(command) == panel
            ]
            with formatter.section(panel):
                formatter.write_dl(rows)


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # markup would swallow [a,b]
    cls=Panels,
    help="Decide which exact marginal tables may be published, prove it cell by cell, and publish them.",
)


class Short(NamedTuple):
    """A short option for a common setting, and how to read its text; by default as YAML."""

    option: str
    read: Callable[[str], Any] | None = None
    also: tuple[str, ...] = ()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _here(text: str) -> str:
    return text if "://" in text else str(checked_path(text).resolve())


SHORT = {
    "table.path": Short("--data", _here),
    "table.variables": Short("--variables", _names),
    "risk.small_count": Short("--small-count"),
    "risk.min_width": Short("--min-width"),
    "release.method": Short("--method", str),
    "widths.threshold": Short("--threshold", also=("--floor",)),
    "sharp_seconds": Short("--seconds"),
    "uniques.fraction": Short("--fraction"),
    "uniques.model": Short("--model", str),
    "server.history": Short("--history", str),
    "execution.workers": Short("--workers"),
}
"""By config key; the help text comes from the config."""

_KEYS = {short.option[2:].replace("-", "_"): key for key, short in SHORT.items()}
TABLE = ("table.variables", "risk.small_count", "execution.workers")
CONFIG = ("table.path", "execution.workers")
"""Settings with short options in most commands about a table, or about a config."""


class ExplainedCommand(TyperCommand):
    """A command whose options take their help from the config when it is shown."""

    def explained(self) -> ExplainedCommand:
        from sdc.config.reference import explained

        param: Any
        for param in self.params:
            if param.name in _KEYS and not param.help:
                key = explained(_KEYS[param.name])[0]
                param.help, param.metavar = key.description, f"<{key.kind.partition(' or ')[0]}>"
        return self

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.explained()
        super().format_help(ctx, formatter)


class CommandResult(NamedTuple):
    """The result of a command: JSON, a function that prints it, and the exit status."""

    facts: Any
    show: Callable[[], object]
    status: int = 0


Json = Annotated[bool, Option("--json", help="Print one JSON document to standard output.")]
Set = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting of a config, such as release.method=bisection; repeatable. See sdc config --explain.",
    ),
]


def command(panel: str, *keys: str, name: str | None = None) -> Callable[[Callable[..., CommandResult | None]], Any]:
    """Declare a command and print its answer.

    keys  settings with a short option; all others come by --set, in `settings`
    """

    def register(function: Callable[..., CommandResult | None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters
        takes = {_option(key): key for key in keys}

        @wraps(function)
        def call(**given: Any) -> None:
            as_json = given["as_json"] if "as_json" in own else given.pop("as_json")
            if "settings" in own:
                given["settings"] = _settings(given.pop("set_"), {key: given.pop(name) for name, key in takes.items()})
            with warnings_shown(say):
                answer = function(**given)
            if answer is None:
                return
            print_json(answer.facts) if as_json else answer.show()
            raise typer.Exit(answer.status)

        more: dict[str, Any] = {
            name: Annotated[str | None, Option(SHORT[key].option, *SHORT[key].also)] for name, key in takes.items()
        }
        more |= {"set_": Set} if "settings" in own else {}
        shown = [one for one in own.values() if one.name not in ("settings", "as_json")]
        added = [inspect.Parameter(name, one_kind, default=None, annotation=kind) for name, kind in more.items()]
        added.append(inspect.Parameter("as_json", one_kind, default=False, annotation=Json))
        call.__signature__ = inspect.Signature([*shown, *added])  # type: ignore[attr-defined]
        call.__annotations__ = {}  # typer would read them too
        app.command(name, rich_help_panel=panel, cls=ExplainedCommand)(call)
        return call

    one_kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return register


def _option(key: str) -> str:
    return SHORT[key].option[2:].replace("-", "_")


def _settings(words: Sequence[str] | None, short: Mapping[str, str | None]) -> dict[str, Any]:
    """Join --set and the short options; ConfigError as `joined`."""
    if not words and not any(text is not None for text in short.values()):
        return {}
    from sdc.config.file import joined, yaml_value
    from sdc.config.given import settings_of

    given = {key: (SHORT[key].read or yaml_value)(text) for key, text in short.items() if text is not None}
    return joined(settings_of(words or ()), given)


# Options

InputPath = Annotated[
    str,
    Argument(
        metavar="TABLE",
        help="A data file, a folder of parts or a URL, read with default settings; or a config; or a run "
        "folder (runs/NAME is the latest finished one).",
    ),
]
ConfigPath = Annotated[
    Path, Argument(parser=checked_path, metavar="CONFIG", help="YAML file of a build, as in configs/.")
]


def run_path(text: str) -> Path:
    """Return a run folder, or the latest finished one of a name."""
    from sdc.storage.runs import run_at

    return run_at(checked_path(text))


RunFolderPath = Annotated[
    Path, Argument(parser=run_path, metavar="RUN_FOLDER", help="The folder of a build; runs/NAME is the latest.")
]
RunsPath = Annotated[
    Path, Argument(parser=checked_path, metavar="FOLDER", help="The folder of run folders (output.folder of a config).")
]
Sheet = Annotated[str | None, Option(help="Sheet of an Excel file; default: the only one with cells.")]
Watch = Annotated[
    bool, Option("--watch", help="Print the local addresses of Prefect's and Dask's pages about the run.")
]
WatchPort = Annotated[int | None, Option(min=1, max=65535, help="Port of these pages; default: a free one.")]
ReleaseOption = Annotated[
    list[str] | None, Option("--release", help="A frontier sub-table such as age*sex; repeatable. Default: the run's.")
]


def file_option(text: str, *names: str, metavar: str = "FILE") -> Any:
    return Option(*names, parser=checked_path, metavar=metavar, help=text)


# Options of an earlier version

_ZEROS = {"--structural-zeros": "table.structural_zeros"}
_N_RULE = {"--n-rule": "risk.min_frequency"}
_LIMIT = {
    **{
        f"--{name.replace('_', '-')}": f"risk.posterior.{name}"
        for name in ("threshold", "max_above", "max_probability")
    },
    "--max-loss": "risk.posterior.max_loss",
    "--loss": "risk.posterior.losses.*",
}
_CHAINS = {
    f"--{name.replace('_', '-')}": f"posterior.{name}" for name in ("threshold", "share", "draws", "chains", "seed")
}
_OLD: dict[str, dict[str, str]] = {
    **dict.fromkeys(("widths", "bounds", "enumerate", "fit", "uniques", "round", "suppress"), _ZEROS),
    **dict.fromkeys(("audit", "replay"), _N_RULE),
    "assess": _ZEROS | _N_RULE | _LIMIT,
    "why": _ZEROS | _N_RULE,
    "posterior": _ZEROS
    | _CHAINS
    | {"--error": "posterior.error", "--most-draws": "posterior.most_draws", "--loss": "posterior.losses.*"},
    "release": _ZEROS
    | _N_RULE
    | _LIMIT
    | {f"--{name}": f"release.annealing.{name}" for name in ("chains", "steps", "start")}
    | {f"--{name}": f"release.simulatable.{name}" for name in ("draws", "share")}
    | {f"--{name}": f"release.{name}" for name in ("objective", "minutes")}
    | {f"--{name}": f"release.{name}[]" for name in ("require", "forbid")}
    | {"--seed": "release.annealing.seed release.simulatable.seed", "--title": "publication.title"}
    | {"--weight": "release.weights.*", "--best-subset": "release.on_conflict=drop"}
    | {"--only-required": "release.required_only=true"},
}
"""By command: option and keys; [] appends to a list, .* takes NAME=VALUE, = sets a constant."""
_SIDES = {"none": "intruder.none", "wrong": "intruder.wrong", "right": "agency.right", "harm": "agency.wrong"}
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?")


def modern(words: Sequence[str]) -> list[str]:
    """Replace options of an earlier version by settings, with a warning."""
    name, rest = words[:1], iter(words[1:])
    old, found, lists = _OLD.get(name[0], {}) if name else {}, [*name], dict[str, list[str]]()
    for word in rest:
        option, mark, text = word.partition("=")
        if option not in old:
            found.append(word)
            continue
        constant = "=" in old[option]
        text = text if mark or constant else next(rest, "")
        for setting in [old[option]] if constant else _set(old[option], text, lists):
            print(f"{option} is deprecated; write --set {shlex.quote(setting)}", file=sys.stderr)
            found += ["--set", setting]
    return found


def _set(keys: str, text: str, lists: dict[str, list[str]]) -> Iterator[str]:
    for key in keys.split():
        if key.endswith("[]"):
            lists.setdefault(key, []).append(text)
            yield f"{key[:-2]}={json.dumps(lists[key])}"
        elif key.endswith(".*"):
            name, _, value = text.partition("=")
            kind = "sub_tables." if "*" in name else "variables."
            within = f"{kind}{name}" if key == "release.weights.*" else _SIDES.get(name, name)
            yield f"{key[:-1]}{within}={value}"
        else:
            yield f"{key}={text if _NUMBER.fullmatch(text) else json.dumps(text)}"


# Output


def write_page(path: Path, page: str, option: str) -> None:
    """Write a page atomically, for this user alone; ConfigError if the file cannot be written."""
    from sdc.storage.whole_file import replacing

    try:
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{option} {path} cannot be written: {error.strerror}; name a file in an existing folder"
        ) from error


def require_columns_file(out: Path | None) -> None:
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise ConfigError(f"--out {out}: the name must end in .parquet or .csv")


def write_columns_file(path: Path | None, columns: Callable[[], Mapping[str, Sequence[Any]]]) -> None:
    """Write columns as Parquet or CSV if a file is given; ConfigError if it cannot be written."""
    from sdc.storage.parquet import write_columns, write_csv

    if path is None:
        return
    try:
        {".parquet": write_columns, ".csv": write_csv}[path.suffix](path, columns())
    except OSError as error:
        raise ConfigError(f"--out {path} cannot be written: {error.strerror}; name another file") from error


def history_url(history: str) -> str:
    """Return the history in a server's folder, or the given file or URL."""
    return os.path.join(history, HISTORY_FILE) if os.path.isdir(history) else history


def status_of_release(facts: Mapping[str, Any]) -> int:
    """Return 0, or 3 if only the grand total is released."""
    return 0 if facts["sub_tables"] else NOT_RELEASABLE


def named(cell: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={category}" for name, category in cell.items())


def first_of(failures: tuple[str, ...]) -> str:
    """Return the first failures and the number of others."""
    more = f"; and {len(failures) - MOST_FAILURES} more" if len(failures) > MOST_FAILURES else ""
    return f"{len(failures)} failed: {'; '.join(failures[:MOST_FAILURES])}{more}"


def report(*rows: tuple[str, object]) -> None:
    """Print lines with labels; those without a text are left out."""
    for label, text in rows:
        if text:
            print(f"{label:14}{text}")


def say(line: str) -> None:
    """Print a line for the user, to standard error."""
    print(line, file=sys.stderr)


def print_json(content: Any) -> None:
    print(json.dumps(content))


NOTHING_NAMED: Mapping[str, Sequence[str] | None] = MappingProxyType({})


def read_input(
    path: str, settings: Settings, *features: str, named: Mapping[str, Sequence[str] | None] = NOTHING_NAMED
) -> ResolvedInput:
    """Read the table, config or run of a command, and report its size; errors as `ResolvedInput.open`.

    named  sub-tables by option; the table must have their variables
    """
    from sdc.stages.resolved import ResolvedInput

    source = ResolvedInput.open(path, settings, features=features, named=named)
    table = source.table
    say(f"{path}: {table.total} records, {len(table)} non-zero of {table.schema.cells} cells")
    return source


def read_input_or_incomplete(
    path: str, settings: Settings, release: Sequence[str] | None, *features: str
) -> ResolvedInput | Incomplete:
    """As `read_input`, or read a file with suppressed counts; errors also as `read_incomplete`.

    ConfigError for other settings with such a file: it contains all that is known of the table.
    """
    from sdc.public.incomplete import read_incomplete

    try:
        return read_input(path, settings, *features, named={"--release": release})
    except IncompleteTableError:
        if path.endswith((".yaml", ".yml")) or not Path(path).is_file():
            raise
    unused = [key for key in settings if key not in ("risk.small_count", "execution.workers")]
    if unused := [*unused, *["--release"] * bool(release)]:
        raise ConfigError(
            f"{path} has suppressed counts, so only the file itself is used; omit "
            f"{', '.join(unused)}. List known totals in the file, and 0 for impossible cells"
        )
    found = read_incomplete(path)
    say(f"{path}: {found.schema.cells} cells, some of them suppressed")
    return found


@contextmanager
def executor_of(source: ResolvedInput) -> Iterator[Executor]:
    """Open the executor of a command, with progress."""
    from sdc.execution.cluster import open_executor
    from sdc.progress import Progress, Watched

    with Progress() as progress, open_executor(source.execution) as executor:
        yield Watched(executor, progress)
