"""Whether what the search refused as refuted is so, in integers: each refutation is worked out again from the table.

A refutation is an at-risk cell, a support of released sub-tables, and two numbers that the cell is between for whoever
knows these. They follow from one of two things. Either the shuttle ([DKS] section 4) on the table collapsed around the
cell, {its own category, the rest} of each variable: own + rest = sum, in every direction, until nothing moves. Or whole
multipliers y of released marginal cells b, of scale s: for every feasible table x and cell t

    s x_t <= y b + sum_c max(0, s [c = t] - (y A)_c) u_c,    u_c the most that cell c can have.
"""

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from sdc import run_format as names
from sdc.verify.core.levels import Array, SubTable, check
from sdc.verify.core.proof import AGAIN, EvidenceFolder, Fault, is_within, matching

MOST_VARIABLES, MOST_CELLS = 13, 1 << 19  # of a collapsed table; of one that multipliers price
LEAST_SWEEPS, SWEEPS_A_BIT = 256, 64
OWN, REST, SUM = 0, 1, 2
_FILE = f"{names.SEARCH}/{names.REFUTATIONS_FILE}"
Bounds = tuple[int, int]


def check_refutations(evidence: EvidenceFolder, risk: dict[str, Any]) -> int:
    """How many there are; each that does not hold, and each step that names none that does, becomes a failure."""
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
    listed = {told[names.NAME]: told for told in content[names.REFUTATIONS]}
    check(len(listed) == len(content[names.REFUTATIONS]), "two refutations have one name")
    for told in listed.values():
        evidence.holds(*_faults(evidence, told, risk["min_width"]))
    for where, name, is_refuted, release in refused:
        evidence.holds(*_faults_of_step(evidence, where, name, is_refuted, release, listed))
    unnamed = listed.keys() - {name for _, name, *_ in refused}
    evidence.holds((f"{_FILE}: nothing that was refused names {min(unnamed, default='')}; {AGAIN}", unnamed))
    return len(listed)


def _refused(
    evidence: EvidenceFolder, search: dict[str, Any], lets_open_out: bool
) -> Iterator[tuple[str, str, bool, list[SubTable]]]:
    """What names a refutation: where that is, the name, whether it says refuted, and what would have been public."""
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
            asked = evidence.levels.subtables(conflict["sub_tables"])
            yield f"conflict {number}", conflict[names.REFUTATION], conflict["proven"], [*known, *asked]


def _listed(evidence: EvidenceFolder, required: list[SubTable]) -> list[SubTable]:
    """What a question about the list, or a prefix of it, can have asked about: all of the list, and what is required.

    A sub-table is within a listed one where it is listed itself, for its critical width is no smaller.
    """
    path, columns = evidence.path, evidence.read_columns("widths", "widths.parquet")
    evidence.path = path
    return [*required, *(evidence.levels.closed(frozenset(t.split("*"))) for t in columns["sub_table"].to_pylist())]


def _faults_of_step(
    evidence: EvidenceFolder, where: str, name: str, is_refuted: bool, release: list[SubTable], listed: dict[str, Any]
) -> Iterator[Fault]:
    yield f"{where} of the search names the refutation {name}, which {_FILE} does not have; {AGAIN}", name not in listed
    yield f"{where} of the search names the refutation {name}, and does not say refuted; {AGAIN}", not is_refuted
    if name in listed:
        support = evidence.levels.subtables(listed[name]["support"])
        beyond = [evidence.levels.label(s) for s in support if not is_within(s, [frozenset(), *release])]
        what = f"the refutation {name} rests on {', '.join(beyond[:5])}, which {where} of the search did not ask about"
        yield f"{what}; {AGAIN}", beyond


def _faults(evidence: EvidenceFolder, told: dict[str, Any], min_width: int) -> Iterator[Fault]:
    """Of one refutation by itself."""
    which = f"{_FILE}: {told[names.NAME]}"
    cell = [told["cell"].get(v) for v in evidence.axes]
    codes = [c.index(code) if code in c else -1 for code, c in zip(cell, evidence.axes.values(), strict=True)]
    is_it = np.all([evidence.cells[v] == code for v, code in zip(evidence.axes, codes, strict=True)], axis=0)
    check(len(told["cell"]) == len(evidence.axes), f"{told[names.NAME]} names a cell of other variables")
    yield f"{which} is of a cell that is not at risk; {AGAIN}", not is_it.any()
    if not is_it.any():
        return
    row, (low, high) = int(is_it.argmax()), told["bounds"]
    check(type(low) is int and type(high) is int, f"{told[names.NAME]} has bounds that are no numbers")
    count, wrong = int(evidence.small[row]), (f"it is wrong; {AGAIN}")
    yield f"{which} says the count {told['count']}, it is {count}; {wrong}", told["count"] != count
    yield (
        f"{which} has the width {high - low}, which is enough: {min_width} is required; {wrong}",
        (high - low >= min_width),
    )
    shown = _Cell(evidence, row, evidence.levels.subtables(told["support"]), told["with_zeros"] is True)
    lowest, highest = shown.bounds(told, low)
    yield f"{which} claims at least {low}, its support shows {lowest}; {wrong}", lowest < low
    yield f"{which} claims at most {high}, its support shows {highest}; {wrong}", highest > high


class _Cell:
    """An at-risk cell, by its row among them, and what of the released sub-tables and structural zeros is used."""

    def __init__(self, evidence: EvidenceFolder, row: int, support: list[SubTable], with_zeros: bool) -> None:
        self.evidence, self.row, self.support = evidence, row, support
        self.zeros = evidence.known.zeros if with_zeros else []
        named = frozenset[str]().union(*support, *(evidence.levels.closed(frozenset(z)) for z in self.zeros))
        self.named = evidence.levels.closed(named)

    def bounds(self, told: dict[str, Any], claimed: int) -> Bounds:
        """What is shown of it, by whichever means the refutation names."""
        low, high = 0, self.evidence.total
        if told["upper"] is None or (told["lower"] is None and claimed > 0):
            low, high = self._propagated()
        if told["upper"] is not None:
            high = self._priced(told["upper"], 1)
        if told["lower"] is not None:
            low = 0 if self._is_shared(self.named) else -self._priced(told["lower"], -1)
        return max(0, low), high

    def _is_shared(self, covered: SubTable) -> bool:
        """Whether another cell is the same to all that is covered: it may have all the records."""
        spread = self.evidence.spread(covered, frozenset(self.evidence.categories))
        return any(categories[self.row] > 1 for categories in spread)

    def _own(self, v: str) -> int:
        return int(self.evidence.cells[v][self.row])

    def _propagated(self) -> Bounds:
        evidence = self.evidence
        own = [v for v in evidence.categories if v in self.named & evidence.essential]
        check(len(own) <= MOST_VARIABLES, f"a support has {len(own)} variables, at most {MOST_VARIABLES} are looked at")
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
        """Counts of all super-cells: of each variable own category, rest and sum."""
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
        """Super-cells that no category is in: own of a level outside of own of a coarser one."""
        levels = self.evidence.levels
        for fine in own:
            for coarse in levels.told[fine] & {*own} - {fine}:
                yield {fine: OWN, coarse: REST}
                if (levels.group(fine, coarse) == self._own(coarse)).sum() == 1:
                    yield {fine: REST, coarse: OWN}

    def _within(self, zero: dict[str, frozenset[int]]) -> dict[str, int]:
        """The super-cells all of whose cells are impossible; nothing where there are none."""
        digits = dict[str, int]()
        for v, codes in zero.items():
            own = self._own(v) in codes
            rest = len(codes) - own == len(self.evidence.categories[v]) - 1
            if not own and not rest:
                return {}
            if not (own and rest):
                digits[v] = OWN if own else REST
        return digits

    def _priced(self, told: dict[str, Any], sign: int) -> int:
        """What the multipliers show that sign * cell does not exceed; of a marginal cell that has it the upper end."""
        evidence, scale = self.evidence, told["scale"]
        kept = [v for v in evidence.axes if v in self.named]
        sizes = [len(evidence.axes[v]) for v in kept]
        check({*kept} == self.named and kept, "multipliers are of a level, or of nothing")
        check(prod(sizes) <= MOST_CELLS, f"multipliers price {prod(sizes)} cells, at most {MOST_CELLS} are looked at")
        of = [(*evidence.levels.subtables([s]), codes, y) for s, codes, y in told["of"]]
        caps = evidence.levels.subtables(told["caps"])
        check(all(is_within(s, self.support) or not s for s in [*caps, *(s for s, *_ in of)]), "it uses other counts")
        whole = all(type(number) is int for number in [scale, *(y for *_, y in of)])
        check(whole and scale > 0 and scale + sum(abs(y) for *_, y in of) < 1 << 62, "multipliers are too large")
        counts = np.zeros(sizes, np.int64)
        np.add.at(counts, tuple(evidence.table[v] for v in kept), evidence.counts)
        lack, known = np.zeros(sizes, np.int64), 0
        lack[tuple(map(self._own, kept))] = sign * scale
        for s, codes, y in of:
            inside = [v for v in kept if v in s]
            check(len(codes) == len(inside), "a multiplier is of no marginal cell")
            check(all(0 <= c < len(evidence.axes[v]) for v, c in zip(inside, codes, strict=True)), "a code is unknown")
            given = dict(zip(inside, codes, strict=True))
            place = tuple(given.get(v, slice(None)) for v in kept)
            lack[place] -= y
            known += y * int(counts[place].sum())
        most = self._most(kept, counts, caps)
        short = np.nonzero(lack > 0)
        priced = sum(a * b for a, b in zip(lack[short].tolist(), most[short].tolist(), strict=True))
        return int((known + priced) // scale)

    def _most(self, kept: list[str], counts: Array, caps: Iterable[SubTable]) -> Array:
        """What each cell can have: no more than the sub-tables that are named say, and where it is impossible 0."""
        most = np.full_like(counts, self.evidence.total)
        for cap in caps:
            summed = tuple(axis for axis, v in enumerate(kept) if v not in cap)
            most = np.minimum(most, counts.sum(axis=summed, keepdims=True))
        codes = np.indices(counts.shape).reshape(len(kept), -1)
        cells = dict(zip(kept, codes, strict=True))
        most[matching(self.zeros, cells).reshape(counts.shape)] = 0
        return most


def _settle(low: Array, high: Array, most_sweeps: int) -> None:
    """Narrows all intervals by own + rest = sum, until nothing moves; whatever is reached before is true too."""
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
