"""What commands have in common: their options with the words of the help, and how they print."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.model.errors import ConfigError
from sdc.paths import checked_path
from sdc.refusal import NOT_RELEASABLE

if TYPE_CHECKING:
    from sdc.intruder.limit import PosteriorLimit
    from sdc.intruder.losses import Losses

MOST_FAILURES = 5  # that a message names

HISTORY_FILE = "history.db"  # in a server's folder

SubjectPath = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A data file, a folder of parts or a URL, as a config without settings reads it; or a config; or a run "
        "folder.",
    ),
]
ConfigPath = Annotated[
    Path, typer.Argument(parser=checked_path, metavar="CONFIG", help="YAML file of a build, such as those in configs/.")
]
RunFolderPath = Annotated[
    Path, typer.Argument(parser=checked_path, metavar="RUN_FOLDER", help="The folder of a build, with its manifest.")
]
RunsPath = Annotated[
    Path,
    typer.Argument(parser=checked_path, metavar="FOLDER", help="Where run folders are, output.folder of a config."),
]
Variables = Annotated[str | None, typer.Option(help="The columns to use, separated by commas; all by default.")]
Delimiter = Annotated[str, typer.Option(help="What separates the columns of CSV: , ; | or a tab.")]
DecimalSign = Annotated[str, typer.Option("--decimal", help="The decimal sign of numbers in CSV: . or ,")]
Quote = Annotated[str, typer.Option(help='What values of CSV with a delimiter are put in: " or none.')]
Encoding = Annotated[str, typer.Option(help="Of CSV, such as utf-8, latin-1 or cp1252.")]
Sheet = Annotated[str | None, typer.Option(help="Of an Excel file; default the only one that has cells.")]
StructuralZeros = Annotated[
    Path | None,
    typer.Option(
        parser=checked_path, metavar="FILE", help="YAML list of patterns that everybody knows to be impossible."
    ),
]
SmallCount = Annotated[
    int | None,
    typer.Option(min=1, max=1 << 53, help="Cells of 1 up to this count are at risk; default the config's, or 2."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Worker processes here, 1 works in this one; default a config's cluster, or 1."),
]
BuildWorkers = Annotated[int | None, typer.Option(min=1, max=1024, help="Worker processes, instead of the config's.")]
Floor = Annotated[int, typer.Option(min=0, max=1 << 53, help="Only sub-tables whose critical width reaches it.")]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Say where to see the run in a browser of this machine: Prefect's page and Dask's."),
]
WatchPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="The port of these pages, with --watch or without; default a free one."),
]
Json = Annotated[bool, typer.Option("--json", help="Exactly one JSON document on standard output.")]
ReleaseOption = Annotated[
    list[str] | None,
    typer.Option("--release", help="A frontier sub-table such as age*sex; once for each; default the run's."),
]
Data = Annotated[str | None, typer.Option(help="The table to read instead of the config's.")]
MaxAbove = Annotated[
    float | None,
    typer.Option(help="Largest fraction of at-risk cells whose true count may be above the threshold; default any."),
]
MaxProbability = Annotated[
    float | None, typer.Option(help="Largest probability that any one's true count may have; default any.")
]
LossOption = Annotated[
    list[str] | None,
    typer.Option(
        "--loss",
        metavar="NAME=X",
        help="What it costs an intruder to claim nothing of a cell (none), or a wrong count (wrong, 1), and the "
        "agency that he is right (right, 1) or wrong (harm, 0); once for each.",
    ),
]
MaxLoss = Annotated[
    float | None,
    typer.Option(
        help="Largest mean over the at-risk cells of what his claims cost the agency, by --loss; default any."
    ),
]
Threshold = Annotated[float, typer.Option(help="Of the probability of a true count, for --max-above.")]
NRule = Annotated[
    int | None,
    typer.Option(min=2, max=1 << 53, help="No public count is from 1 to n - 1; default the config's, or any."),
]
MinWidth = Annotated[
    int | None, typer.Option(min=1, help="Smallest width allowed of an at-risk cell's bounds; default the config's.")
]


def write_page(path: Path, page: str, option: str) -> None:
    """Whole, for this user alone; ConfigError where the file that an option names cannot be written."""
    from sdc.storage.whole_file import replacing

    try:
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{option} {path} cannot be written: {error.strerror}; name a file in a folder that is there"
        ) from error


def require_columns_file(out: Path | None) -> None:
    """ConfigError for a file that columns are not written to."""
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise ConfigError(f"--out {out}: the name must end in .parquet or .csv")


def write_columns_file(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns as Parquet or CSV; ConfigError where they cannot be written."""
    from sdc.storage.parquet import write_columns, write_csv

    writers = {".parquet": write_columns, ".csv": write_csv}
    try:
        writers[path.suffix](path, columns)
    except OSError as error:
        raise ConfigError(f"--out {path} cannot be written: {error.strerror}; name another file") from error


def history_url(history: str) -> str:
    """Of a server's folder the history that it holds; else what was given, a file or a URL."""
    return os.path.join(history, HISTORY_FILE) if os.path.isdir(history) else history


def posterior_limit(
    law: str,
    threshold: float,
    max_above: float | None,
    max_probability: float | None,
    losses: Losses | None,
    max_loss: float | None,
) -> PosteriorLimit | None:
    """What the options limit, None where they limit nothing; InputError for a value that is no limit."""
    from sdc.intruder.limit import PosteriorLimit

    if all(value is None for value in (max_above, max_probability, losses, max_loss)):
        return None
    return PosteriorLimit(
        law,
        threshold=threshold,
        max_above=max_above,
        max_probability=max_probability,
        losses=losses,
        max_loss=max_loss,
    )


def status_of_release(facts: dict[str, Any]) -> int:
    """0, or 3 where nothing but the grand total is released."""
    return 0 if facts["sub_tables"] else NOT_RELEASABLE


def print_release(facts: dict[str, Any]) -> None:
    print(f"released      {facts['sub_tables']} sub-tables and the grand total, all within:")
    for names in facts["frontier"]:
        print(f"              {'*'.join(names) or '(total)'}")
    for part in facts.get("in_part", ()):
        name = "*".join(part["sub_table"])
        if part["how"] == "round":
            print(f"rounded       {name}: to multiples of {part['base']}")
            continue
        if part["how"] == "coarsen":
            print(f"coarsened     {name}: by {'*'.join(part['by'])}, {part['left']} cells of {part['cells']}")
            continue
        of, records = f"{part['withheld']} of {part['cells']} cells", f"{part['records_withheld']:.1%} of the records"
        print(f"in part       {name}: {of} withheld, with {records}")
        for cell in part["largest"][:1]:
            print(f"largest       {cell['text']}")


def print_required(facts: dict[str, Any]) -> None:
    """How many of the required sub-tables are released, which are not, and why."""
    required, refused = facts["required"], facts["refused"]
    best = "" if facts["is_best"] else ", and nobody knows whether a better subset fits"
    print(f"required      {len(required) - len(refused)} of {len(required)} released{best}")
    for names in refused:
        print(f"refused       {'*'.join(names)}")
    for conflict in facts["conflicts"]:
        print(f"conflict      {conflict['text']}")


def print_bounds(facts: dict[str, Any]) -> None:
    """A cell a line, and where it is known by which methods the ends are, with these; then how many are sharp."""
    by = any("outer_by" in row for row in facts["cells"])
    methods = f"  {'bounds':9}  {'lower by':32}  {'upper by':32}" * by
    print(f"method {facts['method']}\n{'count':>9} {'outer':>17} {'inner':>17}{methods}  cell")
    for row in facts["cells"]:
        within, reached = (f"[{', '.join(map(str, row[kind]))}]" for kind in ("outer", "inner"))
        count = "" if row["count"] is None else row["count"]
        ends = f"{count:9} {within:>17} {reached:>17}{_ends_by(row) if by else ''}"
        print(f"{ends}  {' '.join(f'{name}={_one_of(own)}' for name, own in row['cell'].items()) or '(total)'}")
    if "text" in facts.get("sharpness", {}):
        print(f"{facts['sharpness']['text']}")


def _one_of(categories: str | list[str]) -> str:
    return categories if isinstance(categories, str) else " or ".join(categories)


def _ends_by(row: dict[str, Any]) -> str:
    """Of each end the method that gave the outer one, and that by which the inner one is reached."""
    ends = (f"{outer}, {inner}" for outer, inner in zip(row["outer_by"], row["inner_by"], strict=True))
    return f"  {'sharp' if row['exact'] else 'bracketed':9}  " + "  ".join(f"{end:32}" for end in ends)


def print_posterior(facts: dict[str, Any]) -> None:
    """Most probable to be known first, whatever their bounds."""
    from sdc.intruder.chains import written_error, written_r_hat

    tables, same = facts["feasible_tables"], facts["equals_released"] and facts["law"] != "released"
    print(f"law           {facts['law']}{', which is released here: all that it says is public' if same else ''}")
    if tables == 1:
        print("              one table alone agrees with the release: it is known, and the posterior is a point")
    exact = "exact" if facts["exact"] else "sampled"
    print(f"engine        {facts['engine']}, {exact}" + (f"; {tables} feasible tables" if tables is not None else ""))
    if facts["exact"]:
        uniform = facts["log_probability_if_uniform"]
        alike = "" if uniform is None else f"; of each table, were they all alike, {uniform:.4f}"
        print(f"true table    log probability {facts['log_probability_of_true_table']:.4f}{alike}")
    else:
        told = facts["diagnostics"]
        print(
            f"chains        {told['chains']} of {told['draws']} draws; R-hat {written_r_hat(told['r_hat'])}, effective "
            f"sample size from {told['effective_sample_size']:.0f}; connectivity {told['connectivity']}"
        )
        print(f"errors        {written_error(told['error'], told['wanted'])}")
    for model in facts["models"]:
        error = "" if model["standard_error"] is None else f", standard error {model['standard_error']:.4f}"
        print(f"model         {model['law']}: prior {model['prior']:g}, posterior {model['posterior']:.4f}{error}")
    identified = facts["identified"]
    if facts["models"]:
        print(
            "              each weighed by its prior and how probable it makes the release: see the theory in sdc docs"
        )
    least = f"{identified['threshold']:g}"
    print(
        f"identified    {identified['fraction']:.4f} of the cells: the true count is the most probable, above {least}"
    )
    print(
        f"above         {facts['above']['fraction']:.4f} of the cells have a true count of a probability above {least}"
    )
    bounds = facts["bounds"]
    print(
        f"bounds        {bounds['known']} cells have one count left, total width {bounds['total_width']}"
        f"{'' if bounds['sharp'] else ', by outer bounds'}"
    )
    if facts["entropy"] is not None:
        print(f"entropy       {facts['entropy']:.4f} of the law of the tables")
    if (losses := facts["losses"]) is not None:
        claims = losses["claims"]
        print(
            f"losses        an intruder's {claims['right']} right and {claims['wrong']} wrong claims cost "
            f"{losses['disclosure_risk']:.4f} a cell"
        )
    held = facts["attribute_disclosure"]
    print(
        f"groups        {held['above_threshold']} cells hold {_share(held['share'])} of a released one, above "
        f"{least}; {held['certain']} certainly do, {held['impossible']} cannot"
    )
    names = "count", "probability", "most likely", "probability", "bounds", "of group", "group", "cell"
    print("{:>9} {:>11} {:>11} {:>11} {:>17} {:>11}  {}  {}".format(*names))
    rows = [_told(row) for row in facts["cells"]]
    for row in sorted(rows, key=lambda row: -row[1]):
        print("{:9} {:11.4f} {:11} {:11.4f} {!s:>17} {:11.4f}  {}  {}".format(*row))


def _share(share: float) -> str:
    return "all" if share == 1 else f"at least {share:g}"


def _told(row: dict[str, Any]) -> tuple[int, float, int, float, list[int], float, str, str]:
    found, first = row["probabilities"], row["from"]
    highest = max(range(len(found)), key=found.__getitem__)
    at_truth = found[row["count"] - first] if 0 <= row["count"] - first < len(found) else 0.0
    cell = " ".join(f"{name}={value}" for name, value in row["cell"].items())
    held, group = row["group"]["probability"], "*".join(row["group"]["sub_table"]) or "(total)"
    return row["count"], at_truth, first + highest, found[highest], row["outer"], held, group, cell


def first_of(failures: tuple[str, ...]) -> str:
    """The first of them, and how many more there are."""
    more = f"; and {len(failures) - MOST_FAILURES} more" if len(failures) > MOST_FAILURES else ""
    return f"{len(failures)} failed: {'; '.join(failures[:MOST_FAILURES])}{more}"


def print_json(content: Any) -> None:
    print(json.dumps(content))
