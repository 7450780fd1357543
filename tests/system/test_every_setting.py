"""Every setting of a config is used or refused: for each it is stated how another value shows, and shown.

By a stage of a small build whose output is another one, by the plan, by a refusal, or by the name of the test that
shows it: tests/every_setting.yaml. Those of `table` are in tests/unit/data/test_settings.py, as is that all are listed.
"""

import copy
import random
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.model.errors import SdcError
from sdc.server.service.prepare import prepare, prepared
from sdc.server.web.access import Access, new_keys
from sdc.server.web.problems import Problem
from sdc.stages.build import Build, open_build
from sdc.stages.plan import plan_build
from sdc.stages.stages import run_stage, stages_of
from tests.helpers.builds import written

Given = dict[str, Any]
LISTED = yaml.safe_load((Path(__file__).parents[1] / "every_setting.yaml").read_text())
CASES: dict[str, Any] = LISTED["cases"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records, a publication of them as a bare file, and others that do not fit."""
    folder, rng = tmp_path_factory.mktemp("settings"), random.Random(0)
    pairs = [(rng.choice("xxxyyz"), rng.choice("ppq")) for _ in range(90)]
    rows = [(a, b, rng.choice("12" if b == "q" else "1112233"), rng.randrange(1, 9)) for a, b in pairs]
    lines = ["a,b,c,w", *(",".join(map(str, row)) for row in rows)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "formulas.csv").write_text("\n".join(lines).replace("x", "=x") + "\n")
    for name, column in (("before", 0), ("other", 1)):
        counts = {row[column]: 0 for row in rows}
        for row in rows:
            counts[row[column]] += 1
        cells = "".join(f"{value},{n}\n" for value, n in sorted(counts.items()))
        (folder / f"{name}.csv").write_text(f"{lines[0].split(',')[column]},count\n{cells}")
    (folder / "totals.csv").write_text((folder / "before.csv").read_text() + "Total,90\n")
    for name, values, weight in (("light", "123", 1), ("heavy", "1", 90_000)):
        cells = "".join(f"{a},{b},{c},{weight}\n" for a in "xyz" for b in "pq" for c in values)
        (folder / f"{name}.csv").write_text(f"a,b,c,weight\n{cells}")
    (folder / "codes.csv").write_text("variable,category,label\na,x,Ex\n")
    return folder


def given(settings: Given) -> Given:
    """Sections, from keys with dots between; of a list the first is meant, and NAME is its first key."""
    found: Given = {}
    for key, value in settings.items():
        *above, last = key.split(".")
        inner = found
        for name in above:
            name = next(iter(inner)) if name == "NAME" else name
            inner = inner.setdefault(name, {})
            inner = inner[0] if isinstance(inner, list) else inner
        inner[last] = copy.deepcopy(value)
    return found


@cache
def shown(where: str, folder: Path, text: str) -> str:
    """What a build of a config has there, or by what it is refused."""
    settings: Given = yaml.safe_load(text)
    try:
        build = open_build(written(folder, settings.pop("name"), **settings))
        if where == "folder":
            return str(build.folder.path)
        if where == "effort":
            return repr(build.settings().effort)
        if where == "plan":
            plan = plan_build(build, lambda text: None, quick=True)
            return repr({key: value for key, value in plan.items() if "disk" not in key and key != "run_folder"})
        if where == "keys":
            return keys(build, folder)
        if where == "bench":
            outputs(build, "widths")
            prepare(build)
            return repr((prepared(build).bench.seconds, prepared(build).bench.job_seconds))
        return outputs(build, "release" if where == "refused" else where)
    except SdcError as error:
        return f"refused: {error}"


def keys(build: Build, folder: Path) -> str:
    """What a server that is new says of the key that it made for its first user, a week later."""
    assert build.config.server is not None
    access = Access(build.config.server, lambda *entry: None)
    path = new_keys(access, access.without_key(datetime.now(UTC)), folder)
    assert path is not None
    try:
        return access.by_key(path.read_text().split()[-1], datetime.now(UTC) + timedelta(days=7)).name
    except Problem as error:
        return str(error)


def outputs(build: Build, where: str) -> str:
    """The digest of the stage's outputs; of the report its text, but for the settings that it repeats."""
    stages = stages_of(build.config)
    with build.started([stage.name for stage in stages]):
        for stage in stages:
            record = run_stage(stage, build, IN_PROCESS, lambda text: None)
            if stage.name == where:
                return record.output
            if stage.name == "confidential":
                report = (build.folder.stage(stage.name) / "report.html").read_text()
                if where == "report":
                    return re.sub(
                        r'<table class="search" id="settings">.*?</table>|[0-9a-f]{16,}', "", report, flags=re.DOTALL
                    )
    return f"no stage {where}"


@pytest.mark.parametrize("key", [key for key, case in CASES.items() if not isinstance(case, str)])
def test_another_value_shows(key: str, folder: Path) -> None:
    where, value, *names = CASES[key]
    beside = [LISTED["given"][one] if isinstance(one, str) else one for one in names]
    base: Given = {"name": "build", "table.path": "t.csv", "table.variables": ["a", "b", "c"]}
    base |= {"risk.min_width": 3, "risk.small_count": 2, "execution.cluster": "in-process", "assessment": "proven"}
    base |= {
        "output.folder": str(folder / "runs"),
    }
    for one in beside:
        base |= one
    before, after = (shown(where, folder, yaml.safe_dump(given(own))) for own in (base, base | {key: value}))
    assert after != before
    assert where != "refused" or after.startswith("refused: "), after


@pytest.mark.parametrize("named", sorted({case for case in CASES.values() if isinstance(case, str)}))
def test_tests_that_are_named_are_there(named: str) -> None:
    file, _, test = named.partition("::")
    (path,) = Path(__file__).parents[1].rglob(f"**/{file}")
    assert f"def {test}" in path.read_text()
