"""Builds under each criterion: what goes out, what verify says under a stricter one, and what the gate says."""

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.api import posterior
from sdc.intruder.losses import Claims
from sdc.model.errors import NotReleasableError, ReleaseError
from sdc.model.release import Release
from sdc.publish.gate import clear
from sdc.risk.attribute_disclosure import AttributeDisclosure
from sdc.risk.criteria import Criteria
from sdc.risk.min_frequency import MinFrequency
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Policy
from sdc.stages.build import Build, open_build
from sdc.storage.certificate import read_certificate
from sdc.storage.results import read_assessment
from sdc.verify.run_folder import verify
from tests.helpers.builds import (
    ANNEALED,
    Config,
    assert_nothing_published,
    built,
    copied_with_risk,
    made,
    redone,
    report_of,
    write_czech,
)
from tests.helpers.folders import contents

LOSSES = {"intruder": {"none": 0.72}, "agency": {"right": 1.0, "wrong": 0.25}}
"""Of an intruder who claims every count with a probability above 0.28."""


@pytest.fixture(scope="module")
def annealed(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The decomposable build without a limit, not to be touched: 47 sub-tables."""
    return built(write_czech(tmp_path_factory.mktemp("annealed"), release=ANNEALED))


LOOSE: dict[str, dict[str, Any]] = {
    "likely": {"threshold": 0.005, "max_probability": 0.9},
    "losses": {"losses": LOSSES, "max_loss": 0.17},
}


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Build]:
    """Builds with a limit that nothing breaks, not to be touched."""

    def made_with(name: str) -> Build:
        return built(write_czech(tmp_path_factory.mktemp(name), release=ANNEALED, risk={"posterior": LOOSE[name]}))

    return cache(made_with)


def refused_by_verify(build: Build, folder: Path, risk: dict[str, Any], failure: str) -> None:
    """What the run publishes does not keep the criterion with these settings instead."""
    failures = verify(copied_with_risk(build, folder / "copied", **risk)).failures
    assert [one for one in failures if failure in one], (failure, failures)


def test_a_limit_on_the_posterior(config: Config, annealed: Build) -> None:
    """Without it 47 sub-tables go out, and the second at-risk cell has its true count at 0.0106."""
    limit = {"threshold": 0.006, "max_above": 0.0, "max_probability": 0.006}
    build = built(config(release=ANNEALED, risk={"posterior": limit}))
    likely = read_assessment(build.folder.stage("assessment"), build.made.table, 2)[0].likely
    assert likely is not None
    own = posterior(build.made.table, build.made.found.release).cells.at_truth
    assert (likely.is_kept, likely.above, likely.cells) == (True, 0, 3)
    assert likely.highest == pytest.approx(own.max(), abs=1e-9)
    # from a graph that makes less likely than the one-way sub-tables alone, with 0.0314
    assert 6 < build.made.found.release.sub_tables(build.made.table.schema) < 47
    assert own.max() <= 0.006
    assert "under the law released 0 of 3 at-risk cells" in report_of(build)
    published = contents(build.folder.stage("release"))
    assert not [name for name, content in published.items() if b"likely" in content or b"0.006" in content]


def test_a_limit_on_losses(config: Config, loose: Callable[[str], Build]) -> None:
    """Of the release without it two cells of three are claimed, and wrong."""
    build = loose("losses")
    likely = read_assessment(build.folder.stage("assessment"), build.made.table, 2)[0].likely
    assert likely is not None
    assert likely.claims == Claims(0, 2, 3)
    assert likely.loss == pytest.approx(0.5 / 3)
    strict = built(config(release=ANNEALED, risk={"posterior": {"losses": LOSSES, "max_loss": 0.1}}))
    own = posterior(strict.made.table, strict.made.found.release).cells
    assert (own.most_likely[0] != own.counts).all()
    assert (own.most_likely[1] > 0.28).sum() <= 1
    assert re.search(r"0 right and [01] wrong claims cost 0\.\d+ a cell \(at most 0\.1 allowed\)", report_of(strict))


HARMLESS = {"intruder": {"none": 0.72, "wrong": 1.0}, "agency": {"right": 1.0, "wrong": 0.0}}


STRICTER: dict[str, list[tuple[dict[str, Any], str]]] = {
    "likely": [
        ({"max_above": 0.3}, "above 0.005: 1 true count, more than 0.3 of all"),
        ({"max_probability": 0.01}, "a true count is more probable than 0.01"),
        ({"threshold": 0.5}, "claims above = 1 of what is likely, it is 0"),
        ({"law": "uniform"}, "the limit on the posterior is of the law uniform, not released"),
    ],
    "losses": [
        ({"max_loss": 0.16}, "claims cost 0.5, more than 0.16 a cell"),
        ({"losses": HARMLESS}, "of what is likely, it is {'right': 0, 'wrong': None, 'cells': 3}"),
    ],
}


@pytest.mark.parametrize("name", LOOSE)
def test_verification_judges_the_limit_too(
    name: str, loose: Callable[[str], Build], annealed: Build, tmp_path: Path
) -> None:
    """The release of a limit that nothing breaks is that without it; and it is refused under a stricter one."""
    build = loose(name)
    assert contents(build.folder.stage("release")) == contents(annealed.folder.stage("release"))
    assert verify(build.folder.path).failures == ()
    for number, (changed, failure) in enumerate(STRICTER[name]):
        refused_by_verify(build, tmp_path / str(number), {"posterior": changed}, failure)


@pytest.fixture
def sensitive(tmp_path: Path) -> dict[str, Any]:
    """The table with 6 records that have a1 and b0, all of them c0, and 9 with a2 and b0."""
    cells = np.array([*product(range(3), range(2), range(2))])
    counts = np.array([7, 8, 30, 40, 6, 0, 20, 30, 9, 0, 50, 60])
    rows = [",".join("abc"[v] + str(code) for v, code in enumerate(cell)) for cell in np.repeat(cells, counts, axis=0)]
    (tmp_path / "records.csv").write_text("\n".join(["a,b,c", *rows]) + "\n")
    return {"table": {"path": str(tmp_path / "records.csv"), "categories": {}}, "labels": {"variables": {}}}


@pytest.mark.parametrize(
    ("judge", "name", "risk", "message"),
    [
        (PosteriorLimit, "keeps_losses", {"posterior": {"losses": LOSSES, "max_loss": 0.1}}, "claims cost 0.5, more"),
        (PosteriorLimit, "allows", {"posterior": {"max_probability": 0.01}}, "a true count is more probable than 0.01"),
        (MinFrequency, "keeps", {"min_frequency": 10}, "has a count from 1 to 9, which the minimum frequency excludes"),
        (
            AttributeDisclosure,
            "keeps",
            {"attribute_disclosure": {"sensitive": ["c"], "most": 9}, "min_width": 1},
            "at most 9 records; ",
        ),
    ],
)
def test_the_last_verification_relies_on_no_judge_of_the_search(
    judge: type,
    name: str,
    risk: dict[str, Any],
    message: str,
    config: Config,
    sensitive: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A judge that accepts every release: nothing is published all the same."""
    monkeypatch.setattr(judge, name, lambda *of: True)
    sections = sensitive if judge is AttributeDisclosure else {"release": ANNEALED} if judge is PosteriorLimit else {}
    file = config(**sections, risk=risk)
    with pytest.raises(ReleaseError, match=message):
        built(file)
    assert_nothing_published(open_build(file))


def test_the_gate_judges_the_limit(annealed: Build) -> None:
    """Whatever an assessment says: cells are wide enough, and one true count is too probable."""
    made = annealed.made
    certificate = read_certificate(annealed.folder.stage("assessment"), made.table.schema)
    strict = Criteria.of(2, 6, PosteriorLimit(max_probability=0.01))
    with pytest.raises(
        ReleaseError, match=r"breaks the posterior limit: .* has 0.0106 \(at most 0.01 allowed\); nothing"
    ):
        clear(made.table, made.known, certificate, strict, Policy.REFUSE)
    loose = Criteria.of(2, 6, PosteriorLimit(max_probability=0.02))
    cleared = clear(made.table, made.known, certificate, loose, Policy.REFUSE)
    with pytest.raises(ReleaseError, match=r"of another limit on the posterior: .*max_probability=0.02.*, asked is"):
        cleared.require(annealed.gate_input)


def test_a_release_that_is_worth_too_little(config: Config, finished: Path, begun: Build) -> None:
    """59 sub-tables are found; where more is asked for nothing is published, and an earlier release is not left."""
    met, statuses = made(config(release={"at_least": {"sub_tables": 59, "degrees_of_freedom": 59}}))
    assert redone(statuses) == ["confidential", "release"]
    assert contents(met.folder.stage("release")) == contents(finished)
    file = config(release={"at_least": {"sub_tables": 60, "weighted": 59.5, "cells": 1}})
    with pytest.raises(NotReleasableError, match=r"sub_tables = 59, required 60; weighted = 59, required 59.5"):
        made(file)
    assert_nothing_published(open_build(file))
    assert report_of(open_build(file))
    demand = {"A*B": 3, "A*B*C*D*E*F": 1}
    with pytest.raises(NotReleasableError, match=r"requests_served = 0.75, required 0.8"):
        built(config(release={"demand": demand, "at_least": {"requests_served": 0.8}}))


def test_an_n_rule(config: Config, tmp_path: Path) -> None:
    """What goes out has no count below it; under a stricter one the same run fails."""
    build = built(config(risk={"min_frequency": 10}))
    table, release = build.made.table, build.made.found.release
    assert min(table.least_count(t) for t in release.frontier) == 10
    assert release.sub_tables(table.schema) == 56
    found = verify(build.folder.path)
    assert (found.failures, found.uncertified) == ((), ())
    assert "No published count is from 1 to 9." in report_of(build)
    refused_by_verify(build, tmp_path, {"n_rule": 11}, "has a count from 1 to 10, which the minimum frequency excludes")
    refused_by_verify(build, tmp_path, {"n_rule": 11}, "claims releasable = True, it is False")
    certificate = read_certificate(build.folder.stage("assessment"), table.schema)
    with pytest.raises(NotReleasableError, match=r"from 1 to 10, which the minimum frequency of 11 excludes; nothing"):
        clear(table, build.made.known, certificate, Criteria.of(2, 6, min_frequency=11), Policy.REFUSE)
    cleared = clear(table, build.made.known, certificate, Criteria.of(2, 6, min_frequency=9), Policy.REFUSE)
    with pytest.raises(ReleaseError, match="of another n_rule: 9, asked is 10"):
        cleared.require(build.gate_input)


def test_a_number_of_values(config: Config, tmp_path: Path) -> None:
    """The certificate shows 5 values with 0 of each at-risk cell; of more than a cell can have it does not."""
    build = built(config(risk={"min_values": {"least": 5, "include_zero": True}}))
    found = verify(build.folder.path)
    assert (found.failures, found.uncertified) == ((), ())
    assert "Each of these cells can still have at least 5 different counts, 0 among them." in report_of(build)
    stricter = {"min_values": {"least": 10_000, "include_zero": False}}
    refused_by_verify(build, tmp_path, stricter, "not shown to have 10000 values")


def test_an_n_rule_in_part(config: Config, tmp_path: Path) -> None:
    """Counts that are not small are withheld too; the verifier looks at those that are shown."""
    names = ["A*B*C*D*F"]
    build = built(config(release={"require": names, "protect": [{"of": names[0]}]}, risk={"min_frequency": 8}))
    (part,) = build.made.found.suppressed_tables.tables
    counts = build.made.table.marginal(part.view).dense.reshape(-1)
    shown = np.delete(counts, part.places(build.made.table.schema))
    assert not ((shown > 0) & (shown < 8)).any()
    assert ((counts > 2) & (counts < 8)).any()
    assert verify(build.folder.path).failures == ()
    least = int(shown[shown > 0].min())
    refused_by_verify(build, tmp_path, {"n_rule": least + 1}, f"A*B*C*D*F has a count from 1 to {least}, which")


def test_a_rule_on_sensitive_variables(config: Config, sensitive: dict[str, Any], tmp_path: Path) -> None:
    """What goes out tells nothing of a group; under a stricter rule the same run fails, and a build releases less."""
    build = built(config(**sensitive, risk={"min_width": 2, "attribute_disclosure": {"sensitive": ["c"], "most": 5}}))
    assert build.made.found.release == Release.of([0b111])
    assert verify(build.folder.path).failures == ()
    assert "No published group of at most 5 records discloses" in report_of(build)
    failure = "a*b*c reveals a sensitive category of a group of at most 6 records"
    refused_by_verify(build, tmp_path, {"attributes": {"most": 6}}, failure)
    stricter = built(
        config(**sensitive, risk={"min_width": 2, "attribute_disclosure": {"sensitive": ["c"], "most": 6}})
    )
    assert stricter.made.found.release == Release.of([0b011, 0b101, 0b110])
