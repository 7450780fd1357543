"""The commands about single tables: rounded, with cells withheld, or sums of a column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.cli_options import Json, MinWidth, SmallCount, StructuralZeros, SubjectPath, Variables, print_json
from sdc.model.errors import ConfigError
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.build.subject import Subject
    from sdc.model.table import Table

rules = typer.Typer()
SubTableName = Annotated[str, typer.Argument(metavar="SUB_TABLE", help="Such as age*sex.")]
Out = Annotated[
    Path | None,
    typer.Option(parser=checked_path, metavar="FILE", help="A new file: .csv, .parquet, .json, .px, .xml or .xlsx."),
]
OutCsv = Annotated[Path | None, typer.Option(parser=checked_path, metavar="FILE", help="A new file, .csv.")]
ALONE = "it was judged by itself: beside other tables of these records it may tell more"
BESIDE = "it was judged beside the release of this run; what is released later is not judged together with it"


@rules.command("round")
def round_command(
    subject: SubjectPath,
    sub_table: SubTableName,
    base: Annotated[int, typer.Option(min=2, help="Counts become multiples of it.")] = 5,
    out: Out = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    as_json: Json = False,
) -> None:
    """A sub-table rounded, whose margins still add up. To multiples of a base; named as rounded."""
    from sdc import api

    table = _marginal(_subject(subject, variables, structural_zeros, "round"), sub_table)
    rounded = api.controlled_rounding(table, base=base)
    if out is not None:
        _write_table(out, api.rounded_table(table, rounded, title=f"{sub_table}"))
    names = table.schema.names
    margins = ["*".join(names[axis] for axis in axes) or "(total)" for axes in rounded.margins]
    if as_json:
        print_json(
            {
                "sub_table": list(names),
                "base": base,
                "moved": rounded.moved,
                "margins": margins,
                "cells": rounded.cells(table),
            }
        )
        return
    print(f"rounded to multiples of {base}; cells were moved by {rounded.moved} in all, the least that is possible")
    print(f"rounded margins that cells add up to: {', '.join(margins)}")
    print(ALONE)


@rules.command()
def suppress(
    subject: SubjectPath,
    sub_table: SubTableName,
    min_width: MinWidth = None,
    out: OutCsv = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    as_json: Json = False,
) -> None:
    """Which cells of a sub-table to withhold. The least records and cells; of a run, beside its release."""
    from sdc import api

    about = _subject(subject, variables, structural_zeros, "suppress")
    beside = about.released is not None
    found = api.suppress(
        about.table,
        sub_table,
        small_count=about.small_count(small_count),
        min_width=about.min_width(min_width),
        beside=about.released,
        posterior_limit=about.limit(None),
        budget=about.budget,
    )
    table = _marginal(about, sub_table)
    rows = found.rows(table)
    if out is not None:
        _write_rows(out, rows)
    withheld = int(found.withheld.sum())
    if as_json:
        print_json(
            {
                "sub_table": list(table.schema.names),
                "withheld_cells": withheld,
                "withheld_records": found.weight,
                "optimal": found.optimal,
                "judged_beside_release": beside,
                "cells": rows,
            }
        )
        return
    print(f"{withheld} of {found.withheld.size} cells are withheld, with {found.weight} records")
    print("no fewer would do, records and cells added up" if found.optimal else "fewer might do")
    print(BESIDE if beside else ALONE)


@rules.command()
def magnitude(
    table: Annotated[
        Path, typer.Argument(parser=checked_path, metavar="TABLE", help="One CSV or Parquet file of records.")
    ],
    value: Annotated[str, typer.Option(help="The column that is summed.")],
    by: Annotated[str, typer.Option(help="The variables, such as region*size.")],
    contributors: Annotated[int | None, typer.Option(help="At least so many contribute to each cell.")] = None,
    dominance: Annotated[str | None, typer.Option(help="n:p, the n largest hold no more than p per cent.")] = None,
    percent: Annotated[
        str | None, typer.Option(help="p, without the two largest at least p per cent of the largest are left.")
    ] = None,
    contributor: Annotated[str | None, typer.Option(help="The column that says whose a record is.")] = None,
    unique: Annotated[bool, typer.Option("--unique", help="Refuse a contributor that has several records.")] = False,
    hierarchy: Annotated[
        list[str] | None, typer.Option(help="variable=column,column: coarser columns, the finest first.")
    ] = None,
    negative: Annotated[str, typer.Option(help="refuse or split")] = "refuse",
    out: OutCsv = None,
    as_json: Json = False,
) -> None:
    """Sums of a column, where every cell passes the rules. Coarser along hierarchies until they do, else nothing."""
    from sdc import api

    if negative not in ("refuse", "split"):
        raise ConfigError(f"--negative {negative!r}; choose refuse or split")
    if table.suffix in (".yaml", ".yml"):
        from sdc.config_file import read_config

        read_config(table).require("magnitude")
    found = api.magnitude_table(
        table,
        value,
        by.split("*"),
        contributors=contributors,
        dominance=None if dominance is None else _dominance(dominance),
        percent=percent,
        contributor=contributor,
        unique=unique,
        hierarchies=dict(map(_hierarchy, hierarchy or [])),
        negative=negative,
    )
    rows = [{**row, **({"part": one.part} if one.part else {})} for one in found for row in one.rows]
    if out is not None:
        _write_rows(out, rows)
    levels = dict(zip(found[0].variables, found[0].levels, strict=True))
    if as_json:
        print_json({"value": value, "levels": levels, "cells": rows})
        return
    print(f"every cell passes; {', '.join(f'{name} as {level}' for name, level in levels.items())}")
    for row in rows:
        print("  ".join(f"{name}={text}" for name, text in row.items()))
    print(ALONE)


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


def _subject(path: str, variables: str | None, zeros: Path | None, verb: str) -> Subject:
    from sdc.build.subject import Subject

    return Subject.open(path, variables.split(",") if variables else None, zeros, asked=[verb])


def _marginal(subject: Subject, sub_table: str) -> Table:
    from sdc.model import subtable as st

    return subject.table.marginal(st.parse(sub_table, subject.table.schema))


def _write_table(out: Path, table: Any) -> None:
    from sdc.publish.formats import FORMATS
    from sdc.storage.whole_file import replacing

    _require_new(out)
    suffixes = {suffix: write for one in FORMATS.values() for suffix, write in one.of_table.items()}
    suffixes[".xlsx"] = lambda one: FORMATS["xlsx"].of_all["tables.xlsx"]([one])
    if out.suffix not in suffixes:
        raise ConfigError(f"--out {out}: choose a file that ends in .csv, .parquet, .json, .px, .xml or .xlsx")
    with replacing(out) as temporary, temporary.open("wb") as into:
        into.writelines(suffixes[out.suffix](table))


def _write_rows(out: Path, rows: list[dict[str, Any]]) -> None:
    from sdc.run_format import in_csv
    from sdc.storage.parquet import write_csv

    _require_new(out)
    if out.suffix != ".csv":
        raise ConfigError(f"--out {out}: choose a file that ends in .csv")
    texts = [{name: in_csv(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
    write_csv(out, {name: ["" if row[name] is None else row[name] for row in texts] for name in (texts or [{}])[0]})


def _require_new(out: Path) -> None:
    if out.exists():
        raise ConfigError(f"--out {out} exists already; name a file that does not")
