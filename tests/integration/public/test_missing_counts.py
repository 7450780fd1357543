"""Tables with missing counts as the table to publish from: decisions are safe whatever the missing counts are."""

from pathlib import Path

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.errors import InputError, NothingReleasableError
from sdc.model.release import NOTHING, Release
from sdc.public.incomplete import read_incomplete
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.search.ordered import OrderedSearch
from tests import reference
from tests.integration.public.test_untold import File, random_told
from tests.levels import Rng
from tests.profiles import scaled
from tests.strategies import knows

SIZES = [(2, 2), (2, 3), (2, 4), (2, 2, 2), (5,)]
SMALL, LEAST = 2, 2


def random_file(rng: Rng) -> File:
    """A file of which some counts are missing or between two numbers, with the total and some other totals."""
    sizes = SIZES[rng.integers(len(SIZES))]
    counts, of = rng.choice([0, 0, 1, 1, 2, 4], sizes), File(sizes)
    while counts.sum() > 14:  # so that all tables with the total can be listed
        counts = rng.choice([0, 0, 1, 1, 2, 4], sizes)
    for axes in reference.query_space(len(sizes)):
        is_whole, share = len(axes) == len(sizes), rng.choice([0.0, 0.5, 1.0])
        sums = reference.marginal(counts, sorted(axes)).items()
        if is_whole:
            of.told[tuple(sorted(axes))] = {
                cell: random_told(rng, count, 0.3) if rng.random() < 0.5 else (count, count) for cell, count in sums
            }
        else:
            of.told[tuple(sorted(axes))] = {
                cell: (count, count) for cell, count in sums if not axes or rng.random() < share
            }
    return of


def known_sub_tables(completions: reference.Counts, sizes: tuple[int, ...]) -> list[frozenset[int]]:
    """Those whose counts are the same in all completions."""
    every = reference.query_space(len(sizes))
    return [t for t in every if not np.ptp(reference.sums(completions, sizes, sorted(t)), axis=0).any()]


@pytest.mark.parametrize("seed", range(scaled(300)))
def test_decisions_hold_whatever_the_missing_counts_are(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    of = random_file(rng)
    completions = reference.feasible(of.sizes, of.facts)
    table, known = read_incomplete(of.write(tmp_path)).table(), known_sub_tables(completions, of.sizes)
    sets = {t: st.of(t) for t in reference.query_space(len(of.sizes))}
    assert {t for t, own in sets.items() if not table.hides(own)} == {*known}
    # at risk in some completion
    cells = reference.every_cell(of.sizes)
    is_small = ((completions > 0) & (completions <= SMALL)).any(axis=0)
    found = {tuple(cell) for cell in table.codes[table.at_risk(SMALL)].tolist()}
    assert found >= {cell for cell, small in zip(cells, is_small, strict=True) if small}
    at_risk = [place for place, cell in enumerate(cells) if cell in found]
    # critical widths of the sub-tables that may be published, beside the one-way sub-tables that may
    ways = [t for t in known if len(t) == 1]
    widths = critical_widths(table, small_count=SMALL).by_sub_table()
    assert {*widths} == {sets[t] for t in known}
    for t in known:
        facts = reference.released(completions[0].reshape(of.sizes), [t, *ways])
        tables = reference.feasible(of.sizes, facts)
        assert widths[sets[t]] == reference.widths(tables)[at_risk].min(initial=table.total)
    # a random release, and the one that is found
    criteria = Criteria.of(SMALL, LEAST)
    asked = [t for t in known if rng.random() < 0.5]
    evaluator = RiskEvaluator(table, knows(table, NOTHING), criteria)
    verdict = evaluator.evaluate(Release.of(sets[t] for t in asked)).verdict
    tables = reference.feasible(of.sizes, reference.released(completions[0].reshape(of.sizes), asked))
    is_wide = bool((reference.widths(tables)[at_risk] >= LEAST).all())
    assert verdict is (Verdict.SAFE if is_wide else Verdict.UNSAFE)
    unknown = [t for t in sets if t not in known]
    if unknown:
        answer = evaluator.evaluate(Release.of([sets[unknown[0]]])).assessment
        assert answer.verdict is Verdict.UNSAFE
        assert answer.broken is not None
        assert "has a count that is not known" in answer.broken.text
    search = OrderedSearch(evaluator.anew(), critical_widths(table, small_count=SMALL))
    if at_risk and table.total < LEAST:
        with pytest.raises(NothingReleasableError):
            search.run()
        return
    release = search.run().release
    out = [t for t, own in sets.items() if own in release]
    assert {*out} <= {*known}
    for counts in completions[rng.permutation(len(completions))[:20]].reshape(-1, *of.sizes):
        assert reference.is_releasable(counts, out, SMALL, LEAST)


def test_the_number_of_records_must_be_known(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("A,B,count\na,b,0-3\na,c,4\nd,b,5\nd,c,6\n")
    with pytest.raises(InputError, match="nothing determines the number of records"):
        read_incomplete(path).table()


def test_counts_that_follow_from_the_others_are_not_missing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("A,B,count\na,b,\na,c,4\nd,b,5\nd,c,0\n(total),(total),10\n")
    table = read_incomplete(path).table()
    assert table.missing is None
    assert table.counts.tolist() == [1, 4, 5]
