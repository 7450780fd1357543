"""Commands that protect one table: rounding, suppression, magnitude tables."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sdc.commands.options import PROTECT, CommandResult, InputPath, Settings, Sheet, command, file_option
from sdc.model.errors import ConfigError, many
from sdc.model.extras import require_packages

if TYPE_CHECKING:
    from sdc.model.table import Table
    from sdc.stages.resolved import ResolvedInput

SubTableName = Annotated[str, Argument(metavar="SUB_TABLE", help="Such as age*sex.")]
Out = Annotated[Path | None, file_option("A new file: .csv, .parquet, .json, .px, .xml or .xlsx.", "--out")]
OutRows = Annotated[Path | None, file_option("A new file: .csv, .parquet or .xlsx.", "--out")]
OF_TABLES, OF_ROWS = (".csv", ".parquet", ".json", ".px", ".xml", ".xlsx"), (".csv", ".parquet", ".xlsx")
MOST_DIGITS = 15  # precision of numbers in spreadsheets
ALONE = "not in a ledger, and judged alone: with other tables of these records it may reveal more"
BESIDE, BEFORE = (
    f"not in a ledger; judged together with {what}; later releases are not judged together with it"
    for what in ("the release of this run", "the earlier publications of the config")
)
CHOICE = (
    "the choice of cells may itself reveal something: an intruder can repeat it for each feasible table; not judged"
)
EACH_OTHERS = "each record counts as its own contributor, because --contributor is not given"
MOST_PRINTED = 20
SUMS = (
    "tables of other commands are not judged: differences between tables may violate the rules; give the groupings of "
    "all published sums of these records in one command, with several --by"
)


@command(PROTECT, "table.variables", name="round")
def round_command(
    subject: InputPath,
    sub_table: SubTableName,
    settings: Settings,
    base: Annotated[int, Option(min=2, help="Counts become multiples of it.")] = 5,
    out: Out = None,
) -> CommandResult:
    """Round a sub-table so that its margins still add up.

    Counts are rounded to multiples of a base, and the table is marked as rounded.

    The rounded table of a config or a run is judged by its risk criterion, together with what is already public. The
    table of a file is not judged.

    The total by which cells were moved is confidential: with the rounded table and the true total it can reveal
    small counts. The command prints it separately and writes it to no file.
    """
    from sdc import api
    from sdc.model import subtable as st
    from sdc.stages.resolved import ResolvedInput

    _require_new(out, OF_TABLES)
    source = ResolvedInput.open(subject, settings, features=["round"])
    table = _marginal(source, sub_table)
    if source.build is None:
        beside, judged = ALONE, "nothing: the table of a file has no criterion"
    else:
        hidden = source.build.origin.hides(source.table.schema)  # earlier levels are not published again
        table = source.table.marginal(st.parse(sub_table, source.table.schema) & ~hidden)
        source.judge_rounded(sub_table, base)
        beside, own = _beside(source), source.build.criteria
        judged = f"each cell of the whole table with 1 to {own.small_count} records has at least width {own.floor}"
    rounded = api.round(table, base=base)
    if out is not None:
        from sdc.stages.release import rounded_table

        _write_table(out, rounded_table(table, rounded, title=f"{sub_table}"))
    names = _names(table)
    margins = ["*".join(names[axis] for axis in axes) or "(total)" for axes in rounded.margins]
    facts = {
        "sub_table": names,
        "base": base,
        "margins": margins,
        "cells": rounded.cells(table),
        "judged": judged,
        **_judged(beside),
        "confidential": {"moved": rounded.moved},
    }
    lines = (
        f"rounded to multiples of {base}",
        f"rounded margins: {', '.join(margins)}",
        f"judged: {judged}",
        beside,
        f"confidential  total change {rounded.moved}, the minimum; do not publish this",
    )
    return CommandResult(facts, lambda: print("\n".join(lines)))


@command(PROTECT, "table.variables", "risk.small_count", "risk.min_width")
def suppress(subject: InputPath, sub_table: SubTableName, settings: Settings, out: OutRows = None) -> CommandResult:
    """Choose the cells of a sub-table to suppress.

    Suppresses as few cells as the search finds. For a config or a run every at-risk cell of the whole table is judged,
    together with what is public already; for a table alone only the small counts of the sub-table itself.

    The file has the totals of the margins that are public with it.

    The command assumes that the margins of the sub-table are public wherever they may be, and so are structural
    zeros. Together with the remaining cells they pin down no small count. One leak is not judged: an intruder who
    makes the same choice for every feasible table may rule out some of them. The command prints whether fewer cells
    would do. Keep that confidential, because it helps such an intruder.
    """
    from sdc import api
    from sdc.model import subtable as st
    from sdc.stages.resolved import ResolvedInput

    _require_new(out, OF_ROWS)
    source = ResolvedInput.open(subject, settings, features=["suppress"])
    table, beside, (public, whole) = _marginal(source, sub_table), _beside(source), source.besides
    criteria = source.criteria()
    found = api.suppress(
        source.table,
        sub_table,
        public=public,
        criteria=criteria,
        budget=source.budget,
        whole=whole,
        witnesses=source.witnesses(public),
        whole_table=source.build is not None,
    )
    schema = table.schema
    if out is not None:
        _write_rows(out, found.listed(schema))
    suppressed, rows = int(found.suppressed.sum()), found.to_arrow().to_pylist()
    of = "the whole table" if found.judged_whole else f"{sub_table}, none of the whole table,"
    judged = f"each cell of {of} with 1 to {criteria.small_count} records has at least width {criteria.floor}"
    every = [st.label(child, schema) for child in reversed([*st.margins(st.full(len(schema)), schema)])]
    margins, refuted = every if found.margins else [], len(found.refuted)
    facts = {
        "sub_table": _names(table),
        "public_margins": margins,
        "suppressed_cells": suppressed,
        "suppressed_records": found.weight,
        "withheld_cells": suppressed,
        "withheld_records": found.weight,
        "cells": rows,
        "judged": judged,
        **_judged(beside, CHOICE),
        "confidential": {"optimal": found.optimal, "too_narrow_without_it": refuted},
    }

    def show() -> None:
        print(f"{suppressed} of {found.suppressed.size} cells are suppressed, with {found.weight} records")
        public_with = [*margins, "their totals, and "] if found.margins else [""]
        print(f"judged: {judged}")
        print(f"public with it: {', '.join(public_with)}structural zeros")
        if not found.margins:
            print("its margins are not published with it")
        print(f"{beside}\n{CHOICE}")
        if refuted:
            what = f"too narrow already without this table: {many(refuted, 'small cell')}"
            print(f"confidential  {what}; do not publish this")
        fewer = "no fewer suffice (cells plus records)" if found.optimal else "fewer may suffice"
        print(f"confidential  {fewer}; do not publish this")

    return CommandResult(facts, show)


@command(PROTECT)
def magnitude(
    table: Annotated[str, Argument(metavar="TABLE", help="Records: a data file, a folder of parts or a URL.")],
    value: Annotated[str, Option(help="The column that is summed.")],
    by: Annotated[list[str], Option(help="The variables, such as region*size; once for each table, judged together.")],
    contributors: Annotated[
        int | None, Option(help="Minimum contributors per cell; a value of 0 is no contribution.")
    ] = None,
    dominance: Annotated[str | None, Option(help="n:p: the n largest have at most p per cent.")] = None,
    percent: Annotated[
        str | None, Option(help="p: without the two largest, at least p per cent of the largest must remain.")
    ] = None,
    contributor: Annotated[str | None, Option(help="The column with the contributor of a record.")] = None,
    unique: Annotated[bool, Option("--unique", help="Refuse several records of one contributor.")] = False,
    hierarchy: Annotated[
        list[str] | None, Option(help="variable=column,column: coarser columns, the finest first.")
    ] = None,
    negative: Annotated[str, Option(help="refuse or split")] = "refuse",
    alike: Annotated[
        str, Option(help="refuse, merge or keep names that differ only in blanks, case or Unicode form.")
    ] = "refuse",
    decimals: Annotated[int | None, Option(help="Round values; default: 6 for floats, others are not rounded.")] = None,
    delimiter: Annotated[str, Option(help="What separates the columns of CSV: , ; | or a tab.")] = ",",
    decimal: Annotated[str, Option(help="The decimal sign of numbers in CSV: . or ,")] = ".",
    encoding: Annotated[str, Option(help="Encoding of CSV, such as utf-8, latin-1 or cp1252.")] = "utf-8",
    quote: Annotated[str, Option(help='The quote character of CSV: " or none.')] = '"',
    sheet: Sheet = None,
    missing: Annotated[list[str] | None, Option(help="A text for missing values, such as NA; repeatable.")] = None,
    ignore: Annotated[
        list[str] | None, Option(help="A pattern of file names to skip in the folder; repeatable.")
    ] = None,
    out: OutRows = None,
) -> CommandResult:
    """Sum a numeric column under dominance and threshold rules.

    Every published cell passes the rules. The command recodes to coarser hierarchy levels until they all pass; if they
    never do, it publishes nothing. It prints each cell that fails, with the rule and its figures, as confidential.

    Tables of several --by are judged together, by the sums over all their variables. Other publications are not
    judged, neither counts nor sums of another run of this command: the difference of two tables may violate the rules.
    Give the groupings of all published sums of the same records in one command.
    """
    from sdc import api

    _require_new(out, OF_ROWS)
    if table.endswith((".yaml", ".yml")):
        from sdc.config.file import read_config

        read_config(Path(table)).require("magnitude")
    found = api.magnitude_table(
        table,
        value=value,
        by=by[0].split("*"),
        also=[one.split("*") for one in by[1:]],
        contributors=contributors,
        dominance=None if dominance is None else _dominance(dominance),
        percent=percent,
        contributor=contributor,
        unique=unique,
        hierarchies=dict(map(_hierarchy, hierarchy or [])),
        negative=negative,
        alike=alike,
        decimals=decimals,
        csv={
            "delimiter": delimiter,
            "decimal": decimal,
            "encoding": encoding,
            "quote": quote,
            "sheet": sheet,
            "missing": missing or [],
        },
        ignore=ignore or [],
    )
    rows = [{**row, **({"part": one.part} if one.part else {})} for one in found for row in one.rows]
    if out is not None:
        _write_rows(out, rows, "total")
    levels, failing = dict(zip(found[0].variables, found[0].chosen, strict=True)), found[0].failing
    notes = [SUMS] if contributor else [SUMS, EACH_OTHERS]
    document = {"value": value, "by": by, "levels": levels, "contributor": contributor, "cells": rows}
    confidential = {"failing": [one._asdict() for one in failing]}

    def show() -> None:
        print(f"every cell passes; {', '.join(f'{name} as {level}' for name, level in levels.items())}")
        for row in rows:
            print("  ".join(f"{name}={text}" for name, text in row.items()))
        if len(by) > 1:
            print(f"the tables by {', '.join(by)} were judged together")
        print("\n".join([ALONE, *notes]))
        for one in failing[:MOST_PRINTED]:
            print(f"confidential  {one}")
        if failing:
            more = f"and {len(failing) - MOST_PRINTED} more, see --json; " if len(failing) > MOST_PRINTED else ""
            print(f"confidential  {more}these cells fail at finer levels; do not publish this")

    return CommandResult({**document, **_judged(ALONE, *notes), "confidential": confidential}, show)


def _names(table: Table) -> list[str]:
    from sdc.model import subtable as st

    return st.names(st.full(len(table.schema)), table.schema)


def _judged(beside: str, *notes: str) -> dict[str, Any]:
    return {"in_ledger": False, "judged_beside_release": beside == BESIDE, "note": "; ".join([beside, *notes])}


def _dominance(text: str) -> tuple[int, str]:
    number, _, share = text.partition(":")
    if not number.isdecimal() or not share:
        raise ConfigError(f"--dominance {text!r} is not n:p; write it such as 1:70")
    return int(number), share


def _hierarchy(text: str) -> tuple[str, list[str]]:
    name, mark, columns = text.partition("=")
    if not name or not mark or not columns:
        raise ConfigError(f"--hierarchy {text!r} is not variable=column,column; write it such as region=country")
    return name, columns.split(",")


def _beside(source: ResolvedInput) -> str:
    """Return the note on what a single table was judged with."""
    if source.released is not None:
        return BESIDE
    return BEFORE if source.known.published or source.known.release.variables else ALONE


def _marginal(source: ResolvedInput, sub_table: str) -> Table:
    """Return the sub-table; ConfigError if the config forbids it."""
    from sdc.model import subtable as st
    from sdc.search.constraints import Constraints, named

    schema = source.table.schema
    view = st.parse(sub_table, schema)
    if not Constraints(forbid=named("forbid", source.config.release.forbid, schema)).allows(view):
        raise ConfigError(f"{sub_table} is forbidden by release.forbid of {source.name}; choose another, or allow it")
    return source.table.marginal(view)


def _write_table(out: Path, table: Any) -> None:
    from sdc.publish.formats import FORMATS
    from sdc.storage.whole_file import replacing

    suffixes = {suffix: write for one in FORMATS.values() for suffix, write in one.of_table.items()}
    suffixes[".xlsx"] = lambda one: FORMATS["xlsx"].of_all["tables.xlsx"]([one])
    with replacing(out) as temporary, temporary.open("wb") as into:
        into.writelines(suffixes[out.suffix](table))


def _write_rows(out: Path, rows: list[dict[str, Any]], number: str = "") -> None:
    """Write rows by names; exact numbers are texts in one column."""
    from sdc.run_format import in_csv
    from sdc.storage.parquet import write_columns, write_csv
    from sdc.storage.whole_file import replacing

    if out.suffix == ".csv":
        texts = [
            {name: in_csv(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows
        ]
        write_csv(out, {name: ["" if row[name] is None else row[name] for row in texts] for name in rows[0]})
        return
    columns = {name: [Decimal(row[name]) if name == number else row[name] for row in rows] for name in rows[0]}
    if out.suffix == ".parquet":
        write_columns(out, columns)
        return
    from sdc.publish.formats.xlsx import fill, workbook

    shown = [[str(one) if len(str(one)) > MOST_DIGITS else one for one in values] for values in columns.values()]
    with replacing(out) as temporary, workbook(temporary) as book:
        fill(book, None, [[*columns], *zip(*shown, strict=True)])


def _require_new(out: Path | None, suffixes: tuple[str, ...]) -> None:
    """Raise ConfigError early for a file that could not be written."""
    if out is None:
        return
    if out.suffix not in suffixes:
        raise ConfigError(f"--out {out}: choose a file that ends in {' or '.join(suffixes)}")
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}; make it")
    if out.suffix == ".xlsx":
        require_packages(f"--out {out}", "xlsxwriter")
    if out.exists():
        raise ConfigError(f"--out {out} exists already; name a file that does not")
