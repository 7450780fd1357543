"""Posteriors, sample uniques and fitted models by command."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.builds import BY_NAME, CZECH_YAML
from tests.helpers.commands import CZECH, RELEASE, Sdc, tree


def test_the_posterior_of_the_at_risk_cells(sdc: Sdc) -> None:
    """The counts from `from` on have probabilities, and are those within the bounds."""
    document = sdc("posterior", CZECH, *RELEASE, "--law", "uniform", "--threshold", "0.2", "--json").document
    cells = document.pop("cells")
    assert (document["engine"], document["exact"], document["feasible_tables"]) == ("enumeration", True, 810)
    assert document["log_probability_of_true_table"] == pytest.approx(-np.log(810))
    assert document["bounds"] == {"sharp": True, "known": 0, "total_width": 28}
    assert document["identified"] == document["above"] == {"threshold": 0.2, "fraction": 0.0}
    assert document["attribute_disclosure"] == {"share": 1.0, "certain": 0, "impossible": 1, "above_threshold": 0}
    assert sorted(tuple(cell["outer"]) for cell in cells) == [(0, 9), (0, 9), (0, 10)]
    for cell in cells:
        assert (cell["from"], len(cell["probabilities"]) - 1) == tuple(cell["outer"])
        assert sum(cell["probabilities"]) == pytest.approx(1)
        assert cell["standard_error"] is None
        assert cell["group"]["records"] >= cell["outer"][1]
        all_of_it = cell["from"] + len(cell["probabilities"]) > cell["group"]["records"]
        assert cell["group"]["probability"] == pytest.approx(cell["probabilities"][-1] if all_of_it else 0.0)


def test_sample_uniques(sdc: Sdc, tmp_path: Path) -> None:
    words = "uniques", CZECH, "--fraction", "0.1"
    document = sdc(*words, "--json", "--out", tmp_path / "uniques.csv").document
    assert (document["sample_uniques"], document["fraction"], len(document["cells"])) == (1, 0.1, 1)
    (cell,) = document["cells"]
    assert cell["population_unique"] == document["population_uniques"] == pytest.approx(np.exp(1 - cell["population"]))
    assert (tmp_path / "uniques.csv").read_text().startswith("A,B,C,D,E,F,population_unique,match,population\n")
    released = sdc(*words, "--model", "released", *RELEASE, "--json").document
    assert released["model"] == "released"
    assert released["intrusion"] == document["intrusion"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fraction", "1.5"], r"uniques\.fraction = 1\.5: should be less than or equal to 1 \(the share of"),
        (["--fraction", "nan"], r"uniques\.fraction = 'nan': should be a valid number"),
        (["--fraction", "0"], r"uniques\.fraction = 0: should be greater than"),
        ([], "does not describe the population; give --fraction, or a config with uniques.fraction or table.weight"),
        (["--fraction", "0.1", "--model", "released"], "is not a run with a release; give --release"),
        (["--fraction", "0.1", "--release", "A*B"], "--release is for --model released; add that"),
    ],
)
def test_uniques_that_cannot_be(words: list[str], message: str, sdc: Sdc, tmp_path: Path) -> None:
    out = tmp_path / "uniques.csv"
    sdc("uniques", CZECH, *words, "--out", out).assert_refused(message)
    assert not out.exists()


def test_what_claims_cost_by_the_posterior(sdc: Sdc) -> None:
    """The release of [KDSF], under which he claims what is more probable than 0.1, beside the cells themselves."""
    asked = ["posterior", CZECH, *RELEASE, "--loss", "none=0.9", "--loss", "harm=0.5"]
    found = sdc(*asked, "--json").document
    highest = [
        max(range(len(p)), key=p.__getitem__) + one["from"] for one in found["cells"] if (p := one["probabilities"])
    ]
    right = sum(count == one["count"] for count, one in zip(highest, found["cells"], strict=True))
    assert all(max(one["probabilities"]) > 0.1 for one in found["cells"])
    assert found["losses"] == {
        "intruder": {"none": 0.9, "wrong": 1.0},
        "agency": {"right": 1.0, "wrong": 0.5},
        "claims": {"right": right, "wrong": 3 - right, "cells": 3},
        "disclosure_risk": pytest.approx((right + 0.5 * (3 - right)) / 3),
    }
    assert f"losses        an intruder's {right} right and {3 - right} wrong claims cost " in sdc(*asked).out
    for given, message in (
        (["harm=1"], "posterior.losses.intruder is missing; add it (a section with none, and wrong)"),
        (["none=1", "pain=1"], "posterior.losses.pain is an unknown key; allowed: intruder, agency"),
        (["none=-1"], "posterior.losses.intruder.none = -1: should be greater than 0"),
    ):
        refused = sdc(*asked[:2], *RELEASE, *(word for loss in given for word in ("--loss", loss)))
        assert refused.status == 1
        assert message in refused.err


def test_an_average_that_is_sampled(sdc: Sdc) -> None:
    """The second model is not decomposable: its weight has a standard error, and so have all others."""
    laws = ["--prior", "uniform=0.999999", "--prior", "[A,B][B,C][A,C][D,E,F]=0.000001"]
    words = ["posterior", CZECH, *RELEASE, "--law", "average", *laws, "--draws", "20", "--chains", "2"]
    document = sdc(*words, "--json").document
    assert (document["engine"], document["exact"]) == ("enumeration and chains", False)
    assert document["log_probability_of_true_table"] is None
    assert document["log_evidence_standard_error"] > 0
    assert set(document["diagnostics"]) >= {"r_hat", "effective_sample_size", "connectivity"}
    uniform, other = document["models"]
    assert uniform["standard_error"] == pytest.approx(other["standard_error"])
    assert "log_evidence_standard_error" not in uniform
    assert other["log_evidence_standard_error"] > 0
    for cell in document["cells"]:
        assert len(cell["standard_error"]) == len(cell["probabilities"])


def test_the_fit_of_a_release(sdc: Sdc, tmp_path: Path) -> None:
    out = tmp_path / "fitted.parquet"
    document = sdc("fit", CZECH, *RELEASE, "--json", "--out", out).document
    cells, terms = document.pop("cells"), document.pop("terms")
    assert document["frontier"] == [name.split("*") for name in BY_NAME]
    assert (document["deviance"], document["pearson"]) == (pytest.approx(7.1286904), pytest.approx(5.7830253))
    assert [document[key] for key in ("degrees_of_freedom", "fitted_cells", "parameters")] == [4, 64, 60]
    assert sum(term["estimable"] for term in terms) == 60
    assert all(np.sum(term["effects"], axis=0) == pytest.approx(0, abs=1e-9) for term in terms[1:])
    rows = pq.read_table(out).to_pylist()
    assert (len(rows), sum(row["fitted"] for row in rows)) == (64, pytest.approx(1841))
    listed = {tuple(row[name] for name in "ABCDEF"): (row["count"], row["fitted"]) for row in rows}
    assert [cell["count"] for cell in cells] == [1, 2, 2]
    assert all(listed[tuple(cell["cell"].values())] == (cell["count"], cell["fitted"]) for cell in cells)
    dense = sdc("fit", CZECH, *RELEASE, "--form", "dense", "--cells", "all", "--json").document
    assert dense["method"] == "dense IPF"
    assert [cell["fitted"] for cell in dense["cells"]] == pytest.approx([row["fitted"] for row in rows], abs=1e-8)


def test_the_best_model_is_searched_and_fitted(sdc: Sdc) -> None:
    """Of a config without a release any model; with one those that its readers can fit."""
    document = sdc("fit", CZECH_YAML, "--search", "--models", 2, "--json").document
    search = document["search"]
    assert (search["looked_at"], search["complete"], len(search["models"])) == (18154, True, 2)
    assert document["frontier"] == [["A", "C", "E"], ["A", "D", "E"], ["B", "C"], ["F"]]
    assert (document["degrees_of_freedom"], document["deviance"]) == (
        49,
        pytest.approx(search["models"][0]["deviance"]),
    )
    within = sdc("fit", CZECH, *OF_THREES, "--search", "--json").document
    assert all({*names} <= {*"ABC"} or {*names} <= {*"DEF"} for names in within["frontier"])
    priors = ["--prior", f"{search['models'][0]['model']}=1"]
    assert sdc("posterior", CZECH, *RELEASE, "--law", "average", *priors, "--json").status == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "is not a run with a release; give --release"),
        (["--release", "A*B", "--cells", "some"], "cells = 'some'; choose at-risk or all"),
        (["--release", "A*B", "--release", "C*Q"], "'C.Q' names the unknown variable 'Q'"),
    ],
)
def test_a_fit_that_cannot_be(words: list[str], message: str, sdc: Sdc, tmp_path: Path) -> None:
    sdc("fit", CZECH, *words, "--out", tmp_path / "fitted.csv", "--json").assert_refused(message)
    sdc("fit", CZECH, "--release", "A*B", "--out", tmp_path / "fitted.txt").assert_refused("must end in .parquet or")
    assert tree(tmp_path) == set()


def test_models_are_not_searched_beside_structural_zeros(informed: list[str], sdc: Sdc) -> None:
    words = ["fit", CZECH, *RELEASE, *informed]
    for asked in (words, ["fit", CZECH, *informed]):
        sdc(*asked, "--search").assert_refused("a search for models needs closed forms, and no model has one with")
    assert sdc(*words, "--json").document["fitted_cells"] == 63


OF_THREES = ["--release", "A*B*C", "--release", "D*E*F"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--law", "saturated", "--alpha", "0"], "alpha = 0.0; give a number above 0"),
        (["--law", "saturated", "--draws", "0"], r"posterior\.draws = 0: should be greater than or equal to 20"),
        (["--threshold", "1"], r"posterior\.threshold = 1: should be less than 1"),
        (["--share", "0.5"], r"posterior\.share = 0\.5: should be greater than 0\.5"),
        (["--law", "average", "--prior", "uniform"], "--prior uniform: '' is not a number; give one such as"),
        (["--law", "average", "--prior", "uniform=0.5"], "the priors of uniform sum to 0.5; they must sum to 1"),
        (["--cells", "some"], "cells = 'some'; choose at-risk or all"),
    ],
)
def test_a_posterior_that_cannot_be(words: list[str], message: str, sdc: Sdc) -> None:
    sdc("posterior", CZECH, *RELEASE, *words).assert_refused(message)
