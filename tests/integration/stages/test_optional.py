"""The stages that a config may ask for, and the other methods of search: what they find is what the functions find."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.api import decide, find_release, posterior, uniques
from sdc.bounds.enumeration import feasible_tables
from sdc.config.release import AnnealingConfig, ReleaseConfig
from sdc.intruder.decision import RatedRelease
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.release import NOTHING, Release
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.search.blockers import blockers
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.stages.assemble import ALL_WIDTHS, Listing, SearchSettings
from sdc.stages.build import Build, open_build
from sdc.stages.report import refusals
from sdc.storage.results import (
    read_points,
    read_posteriors,
    read_recodings,
    read_refusals,
    read_uniques,
)
from sdc.utility.uniques import Uniques
from sdc.verify.run_folder import verify
from tests.helpers.builds import (
    ANNEALED,
    BEST,
    CZECH_CSV,
    NAMES,
    Config,
    built,
    document_of,
    made,
    redone,
    rekeyed,
    report_of,
    write_counts,
)
from tests.helpers.folders import contents
from tests.strategies import dense, knows, schema_of


def test_a_decomposable_build(config: Config) -> None:
    """REFERENCE section 2: 48 sub-tables with the total, at the width 10; its graph, trace and utility are kept."""
    build, statuses = made(config(release=ANNEALED))
    found = build.made.found
    assert statuses == dict.fromkeys(NAMES, "done")
    assert found.release.sub_tables_with_total(build.made.table.schema) == 48
    assert found.graph is not None
    assert found.graph.release == found.release
    assert [(row.round, row.chain, row.step) for row in found.trace[:3]] == [(0, 0, 400), (0, 1, 400), (1, 0, 800)]
    assert len(found.trace) == 10
    assert (found.steps, found.reason) == ((), None)
    assert document_of(build, "confidential", "utility.json")["converged"] is True
    assert document_of(build, "assessment", "assessment.json")["min_width"] == [10, 10]
    assert not build.folder.parts("search").exists()


def test_the_best_of_both(config: Config, finished: Path) -> None:
    build = built(config(release=BEST))
    assert "Both methods end at the same release" in str(build.made.found.reason)
    assert contents(build.folder.stage("release")) == contents(finished)
    assert str(build.made.found.reason) in report_of(build)


def test_a_curve_is_a_stage_before_the_report(config: Config, finished: Path) -> None:
    curve = {"min_width": [6, 10, 11], "small_count": [1, 2], "methods": ["ordered", "decomposable"]}
    settings = {"steps": 2000, "chains": 2}
    build, statuses = made(config(release={"annealing": settings}, curve=curve))
    assert statuses == dict.fromkeys([*NAMES[:4], "curve", *NAMES[4:]], "done")
    points = {
        (p.method, p.small_count, p.min_width_required): p.sub_tables
        for p in read_points(CurvePoint, build.folder.stage("curve"))
    }
    assert len(points) == 12
    assert [points["ordered", 2, 6], points["decomposable", 2, 10], points["decomposable", 2, 11]] == [59, 47, 31]
    assert contents(build.folder.stage("release")) == contents(finished)
    wider = open_build(config(release={"annealing": settings}, curve={**curve, "min_width": [6]}))
    assert rekeyed(wider, build) == ["curve", "confidential"]
    assert rekeyed(open_build(config()), build) == ["confidential"]


def test_a_curve_under_limits(config: Config) -> None:
    """No more sub-tables under a stricter limit; the largest release is that of none."""
    curve = {"min_width": [6], "methods": ["decomposable"], "max_above": [0.0, 0.4], "threshold": 0.006}
    annealing = {**ANNEALED["annealing"], "chains": 1}
    build = built(config(release={"annealing": annealing}, curve=curve))
    points = read_points(LikelyPoint, build.folder.stage("curve"))
    assert [point.max_above for point in points] == [0.0, 0.4, None]
    assert 6 < points[0].sub_tables < points[1].sub_tables == points[2].sub_tables == 47
    assert [point.above for point in points] == [0.0, 1 / 3, 1 / 3]
    strict = {**curve, "max_above": [0.0], "threshold": 1e-6}
    points = read_points(
        LikelyPoint, built(config(release={"annealing": annealing}, curve=strict)).folder.stage("curve")
    )
    assert (points[0].sub_tables, points[1].sub_tables) == (0, 47)
    assert "[A] [B] [C] [D] [E] [F], from which the search starts" in str(points[0].reason)


def test_a_curve_with_a_decision(config: Config, finished: Path) -> None:
    """The releases of the curve and those that are named, as the function rates them; what is published stays."""
    releases = {"pairs": ["A*B", "B*C"], "too much": ["A*B*C*D*E*F"]}
    users = {
        "intruders": [
            {"thresholds": {0.2: 0.5, 0.3: 0.5}, "agency": {"right": 1.0, "wrong": 0.25}},
            {"thresholds": {0.5: 1.0}, "weight": 0.5},
        ],
        "scientists": [{"loss": "absolute", "weight": 2.0}],
    }
    curve = {"min_width": [3, 6], "methods": ["ordered"], "decision": {**users, "releases": releases}}
    build = built(config(curve=curve))
    rated = {one.name: one for one in read_points(RatedRelease, build.folder.stage("curve"))}
    weak = rated.pop("ordered, small count 2, min width 3")  # than the criterion of the build
    assert (weak.risk, weak.reason) == (None, "the criteria of risk do not allow it")
    assert [*rated] == ["ordered, small count 2, min width 6", *releases]
    assert (rated["too much"].risk, rated["too much"].reason) == (None, "the criteria of risk do not allow it")
    expected = decide(CZECH_CSV, {"6": build.made.found.release, "pairs": releases["pairs"]}, **users)
    assert [replace(one, name="") for one in expected] == [replace(one, name="") for one in list(rated.values())[:2]]
    assert [one.name for one in rated.values() if one.is_chosen] == ["ordered, small count 2, min width 6"]
    report = report_of(build)
    assert re.search(r"too much.*not chosen: the criteria of risk do not allow it", report)
    assert contents(build.folder.stage("release")) == contents(finished)
    plain = open_build(config(curve={**curve, "decision": None}))
    assert rekeyed(plain, build) == ["curve", "confidential"]


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (
            {"intruders": [{"targets": {"A=no": 1.0}}]},
            r"curve\.decision: intruders\.0\.targets: 'A=no' is not a cell of the table",
        ),
        ({"releases": {"one": ["A*G"]}}, r"curve\.decision: releases\.one: .*'G'"),
    ],
)
def test_a_decision_about_other_tables_is_refused_at_once(
    config: Config, decision: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        built(config(curve={"min_width": [6], "decision": decision}))


def test_a_simulatable_build(config: Config) -> None:
    """What refusals tell is nothing: and what that costs is said."""
    build = built(config(release={"method": "simulatable", "simulatable": {"draws": 10}}))
    found = build.made.found
    accepted = Release.of(step.added for step in found.simulated if step.accepted)
    assert (found.release, found.release.sub_tables(build.made.table.schema)) == (accepted, 39)
    assert not all(step.accepted for step in found.simulated)
    assert "cost 20 sub-tables" in report_of(build)
    other = open_build(config(release={"method": "simulatable", "simulatable": {"draws": 10, "seed": 1}}))
    assert "search" in rekeyed(other, build)
    assert verify(build.folder.path).verified


def test_remedies_are_a_stage_before_the_report(config: Config, finished: Path, begun: Build) -> None:
    """They can be asked for afterwards: what was found stays, and the release too."""
    build, statuses = made(config(remedies={"variables": 6}))
    assert redone(statuses) == ["remedies", "confidential"]
    tried = read_recodings(build.folder.stage("remedies"), build.made.table.schema)
    assert tried
    assert all(remedy.recode.leaves_out for remedy in tried)  # all variables have two categories
    stopped = {t for _, sub_tables in blockers(build.made.found.steps) for t in sub_tables}
    assert stopped
    for remedy in tried:
        assert set(remedy.asked) == {t for t in stopped if not st.has(t, remedy.recode.variable)}
        assert set(remedy.freed) <= set(remedy.asked)
        assert remedy.lost == sum(st.has(t, remedy.recode.variable) for t in range(64) if t in build.made.found.release)
    assert 'id="remedies"' in report_of(build)
    assert contents(build.folder.stage("release")) == contents(finished)
    assert rekeyed(open_build(config()), build) == ["confidential"]


def test_what_is_likely_is_a_stage_before_the_report(config: Config, finished: Path, begun: Build) -> None:
    """It can be asked for afterwards: what was found stays, and the release too."""
    asked = {"laws": ["released", "saturated", "[A,B][B,C]"], "alpha": [0.5, 1.0], "threshold": 0.4}
    build, statuses = made(config(posterior=asked))
    assert redone(statuses) == ["posterior", "confidential"]
    found = read_posteriors(build.folder.stage("posterior"))
    labels = ["released", "saturated, alpha 0.5", "saturated, alpha 1", "[A,B][B,C], alpha 0.5", "[A,B][B,C], alpha 1"]
    assert [summary.label for summary in found] == labels
    for summary in found:
        own = posterior(build.made.table, build.made.found.release, law=summary.law, alpha=summary.alpha or 0.5)
        assert summary.feasible_tables == own.feasible_tables == 810
        assert summary.at_truth.tolist() == own.cells.at_truth.tolist()
        assert summary.disclosing.tolist() == own.groups.probabilities(own.cells).tolist()
        assert summary.above(0.4) == (own.cells.at_truth > 0.4).mean()
        assert summary.identified(0.4) <= summary.above(0.4)
    assert 'id="likely-cells"' in report_of(build)
    assert contents(build.folder.stage("release")) == contents(finished)
    assert rekeyed(open_build(config(posterior={**asked, "threshold": 0.2})), build) == ["confidential"]
    assert rekeyed(open_build(config(posterior={**asked, "share": 0.8})), build) == ["posterior", "confidential"]
    assert rekeyed(open_build(config()), build) == ["confidential"]


def test_measures_side_by_side(config: Config, finished: Path, begun: Build) -> None:
    """Of the 810 tables that agree all are alike under the law uniform; beside it the one-way tables, and the total."""
    losses = {"intruder": {"none": 0.9}, "agency": {"right": 1.0, "wrong": 0.5}}
    build = built(config(posterior={"laws": ["uniform"], "threshold": 0.1, "losses": losses}))
    document = document_of(build, "confidential", "measures.json")
    own, one_way, nothing = document["releases"]
    cells = posterior(build.made.table, build.made.found.release, law="uniform").cells
    is_claimed, is_true = cells.most_likely[1] > 0.1, cells.at_truth >= cells.most_likely[1] - 1e-9
    assert own == {
        "release": "this release",
        "sub_tables": 59,
        "at_risk_cells": 3,
        "bounds_are_sharp": True,
        "known_by_bounds": 0,
        "total_width": 28,
        "mean_width": pytest.approx(28 / 3),
        "feasible_tables": 810,
        "log_probability_if_uniform": pytest.approx(-np.log(810)),
        "law": "uniform",
        "reason": None,
        "sampled": False,
        "log_probability_of_true_table": pytest.approx(-np.log(810)),
        "entropy": pytest.approx(np.log(810)),
        "identified": pytest.approx((is_claimed & is_true).mean()),
        "disclosure_risk": pytest.approx(((is_claimed & is_true) + 0.5 * (is_claimed & ~is_true)).mean()),
    }
    by_hand = posterior(build.made.table, list("ABCDEF")).cells
    assert (one_way["release"], one_way["sub_tables"], one_way["law"]) == ("one-way sub-tables", 6, "released")
    assert one_way["identified"] == 0
    assert one_way["disclosure_risk"] == pytest.approx(0.5 * (by_hand.most_likely[1] > 0.1).mean())
    assert (nothing["sub_tables"], nothing["total_width"], nothing["disclosure_risk"]) == (0, 3 * 1841, 0)
    assert own["entropy"] < one_way["entropy"] < nothing["entropy"]
    assert rekeyed(open_build(config(posterior={"laws": ["uniform"], "threshold": 0.1})), build) == ["confidential"]


def test_what_refusals_tell(config: Config, tmp_path: Path) -> None:
    """Of the 52 tables that agree with the release 35 lead to it; each is built again by what makes a build."""
    write_counts(tmp_path / "t.csv", NARROWED)
    small = {"table": {"path": str(tmp_path / "t.csv"), "categories": {}}, "risk": {"min_width": 3}}
    build = built(config(posterior={"refusals": 1000}, **small))
    found = read_refusals(build.folder.stage("posterior"))
    assert (found.feasible_tables, found.alike, found.reason) == (52, 35, None)
    assert (found.possible.tolist(), found.left.tolist()) == ([[0, 5]], [[0, 4]])
    assert "52 tables agree with the release, and 35 of these lead to it" in report_of(build)
    build = built(config(posterior={"refusals": 51}, **small))
    assert "more than 51 tables agree" in str(read_refusals(build.folder.stage("posterior")).reason)


NARROWED = dense(schema_of([2, 2, 2]), [0, 2, 3, 0, 3, 3, 4, 5])


NOTHING_KNOWN = knows(NARROWED, NOTHING)


SETTINGS = SearchSettings(Criteria.of(2, 3), Policy.REFUSE, ALL_WIDTHS)


def test_refusals_narrow_what_is_left() -> None:
    """Beside a plain loop over the feasible tables: some lead elsewhere, and some have no at-risk cell at all."""
    table, found = NARROWED, find_release(NARROWED, "ordered", min_width=3)
    told = refusals(table, NOTHING_KNOWN, SETTINGS, "ordered", found.release, 1000)
    alike = []
    for counts in feasible_tables(table, knows(table, found.release)):
        other = dense(table.schema, counts.reshape(-1).tolist())
        with suppress(InputError, ReleaseError):
            if find_release(other, "ordered", min_width=3).release == found.release:
                alike.append(counts.reshape(-1))
    assert (told.feasible_tables, told.alike, len(alike)) == (52, 35, 35)
    assert (told.possible.tolist(), told.left.tolist()) == ([[0, 5]], [[0, 4]])
    rows = table.schema.keys.pack(table.codes[table.at_risk(2)])
    kept = np.array(alike)[:, rows]
    assert told.left.tolist() == np.stack([kept.min(axis=0), kept.max(axis=0)], axis=1).tolist()
    assert told.at_truth == pytest.approx((kept == table.counts[table.at_risk(2)]).mean(axis=0))


def test_of_some_tables_nothing_may_be_released() -> None:
    """Three records of A = 0 are in one cell not at risk, and as 2 and 1 keep no width of 4: no fault of settings."""
    table = dense(schema_of([3, 2]), [3, 0, 1, 4, 5, 3])
    found = find_release(table, "decomposable", min_width=4, steps=200, chains=2)
    release = ReleaseConfig(annealing=AnnealingConfig(steps=200, chains=2))
    settings = replace(SETTINGS, criteria=Criteria.of(2, 4), release=release)
    told = refusals(table, knows(table, NOTHING), settings, "decomposable", found.release, 1000)
    alike = [
        counts
        for counts in feasible_tables(table, knows(table, found.release))
        if counts[0, 0] in (0, 3) and ((counts > 0) & (counts <= 2)).any()
    ]
    assert (told.feasible_tables, told.alike) == (23, len(alike))


def test_a_fault_of_the_settings_is_none_of_the_tables() -> None:
    found = find_release(NARROWED, "ordered", min_width=3)
    with pytest.raises(ReleaseError, match="critical widths are known from the floor 4 on, the minimum width is 3"):
        refusals(NARROWED, NOTHING_KNOWN, replace(SETTINGS, listing=Listing(4)), "ordered", found.release, 1000)
    release = ReleaseConfig(annealing=AnnealingConfig(start="[A,Z]"))
    with pytest.raises(InputError, match="unknown variable 'Z'"):
        refusals(NARROWED, NOTHING_KNOWN, replace(SETTINGS, release=release), "ordered", found.release, 1000)


def test_refusals_are_of_a_release_that_the_settings_make() -> None:
    """Of another release the true table is not among those that lead to it."""
    with pytest.raises(RuntimeError, match="lead to it, but not the true table"):
        refusals(NARROWED, NOTHING_KNOWN, SETTINGS, "ordered", Release.of([0b111]), 1000)


def test_sample_uniques_are_a_stage_before_the_report(config: Config, finished: Path, begun: Build) -> None:
    """It can be asked for afterwards: what was found stays, and the release too."""
    build, statuses = made(config(uniques={"fraction": 0.05}))
    assert redone(statuses) == ["uniques", "confidential"]
    assert contents(build.folder.stage("release")) == contents(finished)
    table, folder = build.made.table, build.folder.stage("uniques")
    found, own = read_uniques(folder, table), uniques(table, fraction=0.05)
    assert isinstance(found, Uniques)
    assert (found.cells.tolist(), found.alone.tolist()) == (own.cells.tolist(), own.alone.tolist())
    assert (found.matched.tolist(), found.expected.tolist()) == (own.matched.tolist(), own.expected.tolist())
    assert f"{100 * own.intrusion:.2f} % from 1 cells" in report_of(build)
    build, statuses = made(config(uniques={"fraction": 0.05, "model": "released"}))
    assert redone(statuses) == ["uniques", "confidential"]
    released = read_uniques(build.folder.stage("uniques"), table)
    own = uniques(table, build.made.found.release, fraction=0.05, model="released")
    assert isinstance(released, Uniques)
    assert released.alone.tolist() == own.alone.tolist()


def test_the_report_says_why_uniques_are_not_known(config: Config, tmp_path: Path) -> None:
    """Two records wherever there was one: nobody is alone, and all else goes on."""
    twice = tmp_path / "twice.csv"
    twice.write_text(re.sub(r",1$", ",2", CZECH_CSV.read_text(), flags=re.MULTILINE))
    build = built(config(table={"path": str(twice)}, uniques={"fraction": 0.05}))
    reason = "no cell has exactly one record, so there is no sample unique; nothing needs estimating"
    assert read_uniques(build.folder.stage("uniques"), build.made.table) == reason
    assert reason in report_of(build)
