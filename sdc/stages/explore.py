"""The query space of a run that has a release, for an explorer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sdc.model.errors import RunFolderError
from sdc.paths import checked_path
from sdc.report.space import QuerySpace, query_space
from sdc.run_format import SEARCH
from sdc.search.wishes import named
from sdc.stages.outputs import WIDTHS
from sdc.stages.subject import Subject, require_recorded
from sdc.storage.refutations import read_refutations
from sdc.storage.results import read_search, read_widths
from sdc.storage.run_folder import RunFolder
from sdc.storage.runs import Run, read_run, run_at

PAGE = "explorer.html"
INSTEAD = "Of what is said to be public totals of weights are published, and no counts."


def explore(run_folder: str | Path) -> Any:
    """The query space of a run in a notebook, as `sdc explore` shows it in a browser.

    It is as confidential as the audit report. MissingLibraryError, an ImportError, without anywidget; RunFolderError as
    `space_of_run`.
    """
    from sdc.report.explorer import widget

    return widget(space_of_run(checked_path(run_folder)))


def space_of_run(path: Path) -> QuerySpace:
    """What the stages of a finished run say of all sub-tables.

    RunFolderError for what is no run folder, for a run that is at work or has no release, and where a stage is not as
    it was made.
    """
    path = run_at(path)
    _require_finished(read_run(path))
    about = Subject.open(str(path))
    assert about.build is not None
    folder, schema = RunFolder(path), about.table.schema
    require_recorded(folder, WIDTHS)
    found = read_search(folder.stage(SEARCH), schema)
    space = query_space(
        about.config.name,
        about.public(None),
        about.build.criteria,
        found,
        read_refutations(folder.stage(SEARCH), about.table).values(),
        widths=read_widths(folder.stage(WIDTHS)),
        table=about.table,
        forbid=named("forbid", about.forbid, schema),
        hidden=about.build.origin.hides(schema, found.release, found.asked_in_part),
    )
    totals = about.config.totals
    return replace(space, notes=(INSTEAD, *space.notes)) if totals and totals.publish == "instead" else space


def _require_finished(run: Run) -> None:
    if run.state == "finished":
        return
    path = run.folder.path
    if run.state == "unreadable":
        run.folder.manifest()
    if run.state == "running":
        raise RunFolderError(f"{path} is at work; explore it when sdc status says that it is finished")
    if run.state == "damaged":
        gone = ", ".join(name for name in run.planned if name not in {record.name for record in run.stages})
        raise RunFolderError(f"{path} has lost its {gone}; run the build again")
    raise RunFolderError(
        f"{path} is {run.state} and has no release to explore; see sdc status for why, and run the build again"
    )
