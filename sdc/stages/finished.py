"""Finished builds: their results in Python, their query space, and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sdc.config.build import BuildConfig
from sdc.model import subtable as st
from sdc.model.errors import InputError, RunFolderError, many
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.paths import checked_path
from sdc.report.space import QuerySpace, query_space
from sdc.run_format import RELEASE, REPORT, WIDTHS
from sdc.search.constraints import Constraints, named
from sdc.search.why import why as reason_of
from sdc.stages.report import PAGE
from sdc.stages.resolved import ResolvedInput, require_recorded
from sdc.storage.runs import Run, read_run, require_run, run_at


@dataclass(frozen=True, eq=False, repr=False)
class Built(Named):
    """The release of a build and its folders.

    facts  the document of `sdc run --json`

    Every function that takes a release accepts it, with its `table`; RunFolderError if the run folder has changed or
    gone.
    """

    facts: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return Path(self.facts["run_folder"])

    @property
    def to_publish(self) -> Path:
        """The only folder that is safe to publish."""
        return self.folder / RELEASE

    @property
    def report(self) -> Path:
        """The audit report (confidential)."""
        return self.folder / REPORT / PAGE

    @property
    def frontier(self) -> list[str]:
        return ["*".join(names) or "(total)" for names in self.facts["release"]["frontier"]]

    @property
    def sub_tables(self) -> int:
        """Number of released sub-tables, without the grand total."""
        return int(self.facts["release"]["sub_tables"])

    @cached_property
    def _input(self) -> ResolvedInput:
        return ResolvedInput.open(str(self.folder))

    @property
    def table(self) -> Table:
        """The table of the build."""
        return self._input.table

    @property
    def weights(self) -> RecordWeights | None:
        """Weights of the records; None without any."""
        return self._input.weights

    @property
    def knowledge(self) -> Knowledge:
        """What is public after publication: earlier facts, the release, and suppressed or rounded tables."""
        return self._input.public(None)

    @property
    def headline(self) -> str:
        return f"Build of {many(self.sub_tables, 'sub-table')} and the grand total; to publish: {self.to_publish}"

    def by_name(self) -> dict[str, Sequence[Any]]:
        """Return the frontier: labels and numbers of variables."""
        return {"sub_table": self.frontier, "variables": list(map(len, self.facts["release"]["frontier"]))}


EXPLORER = "explorer.html"
INSTEAD = "Totals of weights are published instead of these counts."


def explore(run_folder: str | Path) -> Any:
    """Show the query space of a run in a notebook.

    Parameters
    ----------
    run_folder : str or path
        A finished run.

    Returns
    -------
    widget
        What a sub-table adds and excludes, under the cursor. It is as confidential as the audit report.

    Raises
    ------
    MissingLibraryError
        Without anywidget; it is an ImportError.
    RunFolderError
        Where the run is not finished.

    Notes
    -----
    It reads the run folder; nothing is evaluated.

    Examples
    --------
    >>> sdc.explore(sdc.run("build.yaml").folder)  # doctest: +SKIP
    """
    from sdc.report.space import widget

    return widget(space_of_run(checked_path(run_folder)))


def space_of_run(path: Path) -> QuerySpace:
    """Return the query space of a finished run.

    RunFolderError for another folder, for a run that is unfinished or has no release, and if a stage was changed.
    """
    path = run_at(path)
    _require_finished(read_run(path))
    source = ResolvedInput.open(str(path))
    assert source.build is not None
    made, schema = source.build.made, source.table.schema
    require_recorded(made.folder, WIDTHS)
    space = query_space(
        source.config.name,
        source.public(None),
        source.build.criteria,
        made.found,
        made.refutations.values(),
        widths=made.widths,
        table=source.table,
        forbid=named("forbid", source.config.release.forbid, schema),
        hidden=source.build.hidden,
    )
    totals = source.config.totals
    return replace(space, notes=(INSTEAD, *space.notes)) if totals and totals.publish == "instead" else space


def _require_finished(run: Run) -> None:
    if run.state == "finished":
        return
    path = run.folder.path
    if run.state == "unreadable":
        run.folder.manifest()
    if run.state == "running":
        raise RunFolderError(f"{path} is still running; explore it when sdc status shows that it is finished")
    if run.state == "damaged":
        gone = ", ".join(name for name in run.planned if name not in {record.name for record in run.stages})
        raise RunFolderError(f"{path} has lost its {gone}; run the build again")
    raise RunFolderError(
        f"{path} is {run.state} and has no release to explore; see sdc status for why, and run the build again"
    )


MOST_EXPLAINED = 10
ELSEWHERE = ("execution", "output", "name")


@dataclass(frozen=True, repr=False)
class Comparison(Named):
    """Differences between two runs, by names. Its rows are the sub-tables that only one of them has.

    config   key: (before, after)
    table    what is counted: (before, after)
    release  numbers of sub-tables: (before, after)
    in_part  suppressed cells or rounding base of each table: (before, after), None without
    came     the largest sub-tables that only the second has, with the reason
    went     the largest sub-tables that only the first has, with the reason
    """

    config: Mapping[str, tuple[Any, Any]]
    table: Mapping[str, tuple[Any, Any]]
    release: tuple[int, int]
    in_part: Mapping[str, tuple[Any, Any]]
    came: tuple[tuple[tuple[str, ...], str], ...]
    went: tuple[tuple[tuple[str, ...], str], ...]

    @property
    def headline(self) -> str:
        before, after = self.release
        return f"{many(before, 'sub-table')}, then {after:,}; config: {many(len(self.config), 'different key')}"

    def by_name(self) -> dict[str, Sequence[Any]]:
        """Sub-tables that came and went, with why the run that has them not has them not."""
        rows = [*(("came", *row) for row in self.came), *(("went", *row) for row in self.went)]
        return {
            "change": [change for change, _, _ in rows],
            "sub_table": ["*".join(names) for _, names, _ in rows],
            "why": [why for _, _, why in rows],
        }

    @property
    def facts(self) -> dict[str, Any]:
        """As a document has it."""
        return {
            "config": {key: list(pair) for key, pair in self.config.items()},
            "table": {key: list(pair) for key, pair in self.table.items()},
            "sub_tables": list(self.release),
            **{
                key: {label: [*pair] for label, pair in self.in_part.items()}
                for key in ("suppressed_tables", "in_part")
            },
            "came": [{"sub_table": list(names), "why_not_before": why} for names, why in self.came],
            "went": [{"sub_table": list(names), "why_not_after": why} for names, why in self.went],
        }


def compare(before: str | Path, after: str | Path) -> Comparison:
    """Compare two runs: their configs, tables and releases.

    Parameters
    ----------
    before, after : str or path
        Two runs that have found a release.

    Returns
    -------
    Comparison
        One row a sub-table that came or went, with why the other run does not have it.

    Raises
    ------
    RunFolderError
        Where one is not a run, is corrupt, or has found nothing.

    Notes
    -----
    It costs one explanation for each sub-table, as `why`.

    Examples
    --------
    >>> sdc.compare("runs/june", "runs/july")  # doctest: +SKIP
    59 sub-tables, then 57; config: 1 different key
    """
    one, other = _opened(before), _opened(after)
    return Comparison(
        _changed(_settings(one.config), _settings(other.config)),
        _changed(_table(one), _table(other)),
        (_found(one).sub_tables(one.table.schema), _found(other).sub_tables(other.table.schema)),
        _changed(_in_part(one), _in_part(other)),
        _lacking(one, other),
        _lacking(other, one),
    )


def _opened(path: str | Path) -> ResolvedInput:
    require_run(run_at(Path(path)))
    source = ResolvedInput.open(str(path))
    if source.build is None or source.released is None:
        raise RunFolderError(f"{path} is not a run that has found a release; name a run folder whose search has ended")
    return source


def _found(source: ResolvedInput) -> Release:
    assert source.released is not None
    return source.released


def _in_part(source: ResolvedInput) -> dict[str, Any]:
    schema, tables = source.table.schema, source.suppressed_tables.tables
    return {
        part.label(schema): f"rounded to multiples of {part.base}" if part.base else len(part.suppressed)
        for part in tables
    }


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    keys = sorted({*one, *other})
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}


def _settings(config: BuildConfig) -> dict[str, Any]:
    return dict(_flat(config.model_dump(mode="json", exclude=set(ELSEWHERE)), ""))


def _flat(value: Any, key: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict) or not value:
        return [(key, value)]
    return [pair for name, own in value.items() for pair in _flat(own, f"{key}.{name}" if key else str(name))]


def _table(source: ResolvedInput) -> dict[str, Any]:
    table, small = source.table, source.small_count
    categories = {f"categories of {v.name}": len(v.categories) for v in table.schema.variables}
    return {
        "records": table.total,
        "variables": ", ".join(table.schema.names),
        "non-zero cells": len(table),
        "at-risk cells": len(table.at_risk(small)),
        **categories,
    }


def _lacking(source: ResolvedInput, other: ResolvedInput) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The largest released sub-tables of the other run that this one has not, and why; as many as are explained."""
    own = source.table.schema
    names = [tuple(st.names(t, other.table.schema)) for t in _found(other).frontier]
    lacking = [one for one in names if not {*one} <= {*own.names} or st.named(one, own) not in _found(source)]
    return tuple((one, _why(source, one) if k < MOST_EXPLAINED else "") for k, one in enumerate(lacking))


def _why(source: ResolvedInput, names: tuple[str, ...]) -> str:
    schema = source.table.schema
    if unknown := [name for name in names if name not in schema.names]:
        return f"the table has no {', '.join(unknown)}"
    view = st.named(names, schema)
    if not Constraints(forbid=named("forbid", source.config.release.forbid, schema)).allows(view):
        return "release.forbid names it, or a sub-table within it"
    assert source.build is not None
    try:
        evaluator = source.build.settings().evaluator(source.table, source.public(None))
    except InputError as error:
        return str(error)
    return reason_of(evaluator, view).text(schema)
