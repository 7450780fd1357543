"""Check each refutation that the search used, in integers, from the table.

A refutation is an at-risk cell, a support of released sub-tables, and bounds of the cell given the support. Either the
shuttle ([DKS] section 4) gives the bounds on the table collapsed around the cell, {own category, rest} of each
variable: own + rest = sum, in every direction, until nothing changes. Or integer multipliers y of released marginal
cells b, of scale s, give them: for every feasible table x and cell t

    s x_t <= y b + sum_c max(0, s [c = t] - (y A)_c) u_c,    u_c the maximum of cell c.
"""

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from sdc import run_format as names
from sdc.verify.core.levels import Array, SubTable, check
from sdc.verify.core.proof import AGAIN, EvidenceFolder, Problem, is_within, matching

MOST_VARIABLES, MOST_CELLS = 13, 1 << 19  # of a collapsed table; of a table with multipliers
LEAST_SWEEPS, SWEEPS_A_BIT = 256, 64
OWN, REST, SUM = 0, 1, 2
_FILE = f"{names.SEARCH}/{names.REFUTATIONS_FILE}"
Bounds = tuple[int, int]


def check_refutations(evidence: EvidenceFolder, risk: dict[str, Any]) -> int:
    """Return the number of refutations. Each false one, and each step with an invalid reference, becomes a failure."""
    search = evidence.read_json(names.SEARCH, names.SEARCH_FILE)
    refused = list(_refused(evidence, search, risk["undecided"] == names.UNPROVEN_IS_ALLOWED))
    if not refused and not (evidence.folder / _FILE).exists():
        return 0
    content = evidence.read_json(names.SEARCH, names.REFUTATIONS_FILE, version=names.REFUTATIONS_FORMAT)
    for key, own in (
        ("table", evidence.digest),
        ("small_count", risk["small_count"]),
        ("min_width", risk["min_width"]),
    ):
        claimed = content[key]
        which = f"its {key} is {str(claimed)[:12]}, this run's {str(own)[:12]}"
        evidence.holds((f"{_FILE} is of another run: {which}; {AGAIN}", claimed != own))
    listed = {claim[names.NAME]: claim for claim in content[names.REFUTATIONS]}
    check(len(listed) == len(content[names.REFUTATIONS]), "two refutations have one name")
    for claim in listed.values():
        evidence.holds(*_errors(evidence, claim, risk["min_width"]))
    for where, name, is_refuted, release in refused:
        evidence.holds(*_errors_of_step(evidence, where, name, is_refuted, release, listed))
    unnamed = listed.keys() - {name for _, name, *_ in refused}
    evidence.holds((f"{_FILE}: nothing that was refused names {min(unnamed, default='')}; {AGAIN}", unnamed))
    return len(listed)


def _refused(
    evidence: EvidenceFolder, search: dict[str, Any], lets_open_out: bool
) -> Iterator[tuple[str, str, bool, list[SubTable]]]:
    """Each use of a refutation: place, name, whether it is marked refuted, and the sub-tables that would be public."""
    known, grown, required = evidence.known.release, list[SubTable](), list[SubTable]()
    cliques = [evidence.levels.closed(frozenset(clique)) for clique in search.get("graph") or ()]
    for number, step in enumerate(search.get("steps", ()), 1):
        added, phase, answer = evidence.levels.subtables(step["added"]), step["phase"], step["answer"]
        passed = answer is True or (answer is None and lets_open_out)
        if step.get(names.REFUTATION) is not None:
            start = {"required": [], "growth": required, "extension": cliques}.get(phase)
            whole = _listed(evidence, required) if start is None else [*start, *grown, *added]
            yield f"step {number}", step[names.REFUTATION], answer is False, [*known, *whole]
        if passed and phase == "required":
            required = added
        elif passed:
            grown += added
    for number, conflict in enumerate((search.get("required") or {}).get("conflicts", ()), 1):
        if conflict.get(names.REFUTATION) is not None:
            conflicting = evidence.levels.subtables(conflict["sub_tables"])
            yield f"conflict {number}", conflict[names.REFUTATION], conflict["proven"], [*known, *conflicting]


def _listed(evidence: EvidenceFolder, required: list[SubTable]) -> list[SubTable]:
    """The sub-tables that an evaluation of the list or of a prefix can involve: the list and the required ones.

    A sub-table within a listed one is listed itself, because its critical width is no smaller.
    """
    path, columns = evidence.path, evidence.read_columns("widths", "widths.parquet")
    evidence.path = path
    return [*required, *(evidence.levels.closed(frozenset(t.split("*"))) for t in columns["sub_table"].to_pylist())]


def _errors_of_step(
    evidence: EvidenceFolder, where: str, name: str, is_refuted: bool, release: list[SubTable], listed: dict[str, Any]
) -> Iterator[Problem]:
    yield f"{where} of the search names the refutation {name}, which {_FILE} does not have; {AGAIN}", name not in listed
    yield f"{where} of the search names the refutation {name}, which is not marked as refuted; {AGAIN}", not is_refuted
    if name in listed:
        support = evidence.levels.subtables(listed[name]["support"])
        beyond = [evidence.levels.label(s) for s in support if not is_within(s, [frozenset(), *release])]
        what = f"the refutation {name} rests on {', '.join(beyond[:5])}, which {where} of the search did not evaluate"
        yield f"{what}; {AGAIN}", beyond


def _errors(evidence: EvidenceFolder, claim: dict[str, Any], min_width: int) -> Iterator[Problem]:
    which = f"{_FILE}: {claim[names.NAME]}"
    cell = [claim["cell"].get(v) for v in evidence.axes]
    codes = [c.index(code) if code in c else -1 for code, c in zip(cell, evidence.axes.values(), strict=True)]
    is_it = np.all([evidence.cells[v] == code for v, code in zip(evidence.axes, codes, strict=True)], axis=0)
    check(len(claim["cell"]) == len(evidence.axes), f"{claim[names.NAME]} names a cell of other variables")
    yield f"{which} is of a cell that is not at risk; {AGAIN}", not is_it.any()
    if not is_it.any():
        return
    row, (low, high) = int(is_it.argmax()), claim["bounds"]
    check(type(low) is int and type(high) is int, f"{claim[names.NAME]} has bounds that are not integers")
    count, wrong = int(evidence.small[row]), (f"it is wrong; {AGAIN}")
    yield f"{which} has the count {claim['count']}, it is {count}; {wrong}", claim["count"] != count
    yield (
        f"{which} has the width {high - low}, which is enough: {min_width} is required; {wrong}",
        (high - low >= min_width),
    )
    shown = _Cell(evidence, row, evidence.levels.subtables(claim["support"]), claim["with_zeros"] is True)
    lowest, highest = shown.bounds(claim, low)
    yield f"{which} claims at least {low}, its support shows {lowest}; {wrong}", lowest < low
    yield f"{which} claims at most {high}, its support shows {highest}; {wrong}", highest > high


class _Cell:
    """An at-risk cell by its row, with the released sub-tables and structural zeros that the refutation may use."""

    def __init__(self, evidence: EvidenceFolder, row: int, support: list[SubTable], with_zeros: bool) -> None:
        self.evidence, self.row, self.support = evidence, row, support
        self.zeros = evidence.known.zeros if with_zeros else []
        named = frozenset[str]().union(*support, *(evidence.levels.closed(frozenset(z)) for z in self.zeros))
        self.named = evidence.levels.closed(named)

    def bounds(self, claim: dict[str, Any], claimed: int) -> Bounds:
        """Bounds from whichever means the refutation names."""
        low, high = 0, self.evidence.total
        if claim["upper"] is None or (claim["lower"] is None and claimed > 0):
            low, high = self._propagated()
        if claim["upper"] is not None:
            high = self._priced(claim["upper"], 1)
        if claim["lower"] is not None:
            low = 0 if self._is_shared(self.named) else -self._priced(claim["lower"], -1)
        return max(0, low), high

    def _is_shared(self, covered: SubTable) -> bool:
        """Whether another cell shares all covered marginal cells: that one may have all their records."""
        spread = self.evidence.spread(covered, frozenset(self.evidence.categories))
        return any(categories[self.row] > 1 for categories in spread)

    def _own(self, v: str) -> int:
        return int(self.evidence.cells[v][self.row])

    def _propagated(self) -> Bounds:
        evidence = self.evidence
        own = [v for v in evidence.categories if v in self.named & evidence.essential]
        check(len(own) <= MOST_VARIABLES, f"a support has {len(own)} variables, at most {MOST_VARIABLES} are checked")
        truth = self._collapsed(own)
        low, high = np.zeros_like(truth), np.full_like(truth, evidence.total)
        for s in [frozenset[str](), *self.support]:
            place = tuple(slice(None) if v in s else SUM for v in own)
            low[place], high[place] = truth[place], truth[place]
        impossible = [*self._nested(own), *filter(None, (self._within(zero) for zero in self.zeros))]
        for digits in impossible:
            high[tuple(digits.get(v, slice(None)) for v in own)] = 0
        _settle(low, high, LEAST_SWEEPS + SWEEPS_A_BIT * evidence.total.bit_length())
        at = (OWN,) * len(own)
        return (0 if self._is_shared(self.named) else int(low[at])), int(high[at])

    def _collapsed(self, own: list[str]) -> Array:
        """Counts of all super-cells: own category, rest and sum of each variable."""
        place = np.zeros(len(self.evidence.counts), np.int64)
        for v in own:
            place = 2 * place + (self.evidence.table[v] != self._own(v))
        counts = np.zeros(1 << len(own), np.int64)
        np.add.at(counts, place, self.evidence.counts)
        found = counts.reshape((2,) * len(own))
        for axis in range(len(own)):
            found = np.concatenate([found, found.sum(axis=axis, keepdims=True)], axis=axis)
        return found

    def _nested(self, own: list[str]) -> Iterator[dict[str, int]]:
        """Empty super-cells: own category of a level outside the own category of a coarser one."""
        levels = self.evidence.levels
        for fine in own:
            for coarse in levels.implied[fine] & {*own} - {fine}:
                yield {fine: OWN, coarse: REST}
                if (levels.group(fine, coarse) == self._own(coarse)).sum() == 1:
                    yield {fine: REST, coarse: OWN}

    def _within(self, zero: dict[str, frozenset[int]]) -> dict[str, int]:
        """The super-cells that contain impossible cells only; empty if there are none."""
        digits = dict[str, int]()
        for v, codes in zero.items():
            own = self._own(v) in codes
            rest = len(codes) - own == len(self.evidence.categories[v]) - 1
            if not own and not rest:
                return {}
            if not (own and rest):
                digits[v] = OWN if own else REST
        return digits

    def _priced(self, claim: dict[str, Any], sign: int) -> int:
        """The upper bound of sign * cell by the multipliers; for a marginal cell, by the larger end."""
        evidence, scale = self.evidence, claim["scale"]
        variables = [v for v in evidence.axes if v in self.named]
        sizes = [len(evidence.axes[v]) for v in variables]
        check({*variables} == self.named and variables, "multipliers are of a level, or of nothing")
        check(prod(sizes) <= MOST_CELLS, f"multipliers price {prod(sizes)} cells, at most {MOST_CELLS} are checked")
        of = [(*evidence.levels.subtables([s]), codes, y) for s, codes, y in claim["of"]]
        caps = evidence.levels.subtables(claim["caps"])
        check(all(is_within(s, self.support) or not s for s in [*caps, *(s for s, *_ in of)]), "it uses other counts")
        whole = all(type(number) is int for number in [scale, *(y for *_, y in of)])
        check(whole and scale > 0 and scale + sum(abs(y) for *_, y in of) < 1 << 62, "multipliers are too large")
        counts = np.zeros(sizes, np.int64)
        np.add.at(counts, tuple(evidence.table[v] for v in variables), evidence.counts)
        lack, known = np.zeros(sizes, np.int64), 0
        lack[tuple(map(self._own, variables))] = sign * scale
        for s, codes, y in of:
            inside = [v for v in variables if v in s]
            check(len(codes) == len(inside), "a multiplier is of no marginal cell")
            check(all(0 <= c < len(evidence.axes[v]) for v, c in zip(inside, codes, strict=True)), "a code is unknown")
            given = dict(zip(inside, codes, strict=True))
            place = tuple(given.get(v, slice(None)) for v in variables)
            lack[place] -= y
            known += y * int(counts[place].sum())
        most = self._most(variables, counts, caps)
        short = np.nonzero(lack > 0)
        priced = sum(a * b for a, b in zip(lack[short].tolist(), most[short].tolist(), strict=True))
        return int((known + priced) // scale)

    def _most(self, variables: list[str], counts: Array, caps: Iterable[SubTable]) -> Array:
        """The maximum of each cell by the named sub-tables; 0 if the cell is impossible."""
        most = np.full_like(counts, self.evidence.total)
        for cap in caps:
            summed = tuple(axis for axis, v in enumerate(variables) if v not in cap)
            most = np.minimum(most, counts.sum(axis=summed, keepdims=True))
        codes = np.indices(counts.shape).reshape(len(variables), -1)
        cells = dict(zip(variables, codes, strict=True))
        most[matching(self.zeros, cells).reshape(counts.shape)] = 0
        return most


def _settle(low: Array, high: Array, most_sweeps: int) -> None:
    """Narrow all intervals by own + rest = sum until nothing changes; stopping earlier is valid too."""
    for _ in range(most_sweeps):
        before = low.copy(), high.copy()
        for axis in range(low.ndim):
            lows, highs = np.moveaxis(low, axis, 0), np.moveaxis(high, axis, 0)
            lows[SUM] = np.maximum(lows[SUM], lows[OWN] + lows[REST])
            highs[SUM] = np.minimum(highs[SUM], highs[OWN] + highs[REST])
            for one, other in ((OWN, REST), (REST, OWN)):
                lows[one] = np.maximum(lows[one], lows[SUM] - highs[other])
                highs[one] = np.minimum(highs[one], highs[SUM] - lows[other])
        if np.array_equal(before[0], low) and np.array_equal(before[1], high):
            return
