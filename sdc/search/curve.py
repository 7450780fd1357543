"""Risk-utility curves: what can be released at every small count and minimum width, and under limits of a posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from sdc.config.methods import CURVE_METHODS
from sdc.model.errors import ConfigError, ReleaseError
from sdc.model.named import Drawn, Rows
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.min_width import MinWidth
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.search.best import FoundRelease, ReleaseSearch, require_method
from sdc.search.decomposable import DecomposableRelease, DecomposableSearch
from sdc.utility.measures import cells, degrees_of_freedom


@dataclass(frozen=True)
class CurvePoint:
    """The release that a method finds for a small count and a minimum width, by its utility and its risk.

    value      by the weights of the search, or its halvings; without any it is the number of sub-tables
    min_width  in records, that is proven for the release; None where nothing can be released
    """

    method: str
    small_count: int
    min_width_required: int
    sub_tables: int
    value: float
    cells: int
    degrees_of_freedom: int
    min_width: int | None

    @property
    def name(self) -> str:
        """Of its release."""
        return f"{self.method}, small count {self.small_count}, min width {self.min_width_required}"


class Curve(Drawn, Rows[CurvePoint]):
    """The points of a curve, by method, small count and width."""


@dataclass(frozen=True)
class CurveSearch:
    """Points for all the small counts and minimum widths, with the settings of the given search.

    Of each small count the critical widths and the marginals are found once. Widths are treated from the largest
    down, for what is releasable at one is at every smaller: chains start from the graph found before, feasible tables
    are kept, and where a method finds less than before its release stays. So no curve rises with the width.
    `on_point` hears of every point, with its release. ConfigError for an unknown method, InputError where a small count
    has no cells.
    """

    search: ReleaseSearch
    min_widths: tuple[int, ...]
    small_counts: tuple[int, ...]
    methods: tuple[str, ...] = ("ordered", "decomposable")
    on_point: Callable[[CurvePoint, FoundRelease | None], None] = lambda point, found: None

    def run(self) -> Curve:
        """Sorted by method, small count and width."""
        for method in self.methods:
            require_method(method)
            if method not in CURVE_METHODS:
                raise ConfigError(f"the curve has no method {method}; choose {' or '.join(CURVE_METHODS)}")
            self.search.require_objective(method)
        points = [point for small_count in sorted(set(self.small_counts)) for point in self._points(small_count)]
        return Curve(sorted(points, key=lambda p: (CURVE_METHODS.index(p.method), p.small_count, p.min_width_required)))

    def _points(self, small_count: int) -> Iterator[CurvePoint]:
        ordered = replace(self.search.ordered, widths=self._widths(small_count))
        evaluator = ordered.evaluator
        known: Mapping[str, FoundRelease] = {}
        for min_width in sorted(set(self.min_widths), reverse=True):
            # a budget for each width, or the points would depend on how many there are
            criteria = replace(evaluator.criteria, small_count=small_count, width=MinWidth(min_width))
            evaluator = evaluator.anew(criteria)
            start = known["decomposable"].graph if "decomposable" in known else None
            chains = replace(self.search.decomposable, evaluator=evaluator, start=start, checkpoint=lambda state: None)
            search = replace(self.search, ordered=replace(ordered, evaluator=evaluator), decomposable=chains)
            known = self._found(search, known)
            for method in (method for method in CURVE_METHODS if method in self.methods):
                point = _point(method, evaluator, known.get(method))
                self.on_point(point, known.get(method))
                yield point

    def _widths(self, small_count: int) -> CriticalWidths:
        evaluator, widths = self.search.ordered.evaluator, self.search.ordered.widths
        least = min(self.min_widths)
        # the widths at hand, unless what is needed was left out by a floor that was given
        if small_count == evaluator.criteria.small_count and (widths.most or widths.floor <= least):
            return widths
        floor, most = least if widths.floor else 0, widths.most
        table, executor = evaluator.table, evaluator.executor
        return critical_widths(table, small_count=small_count, floor=floor, most=most, executor=executor)

    def _found(self, search: ReleaseSearch, known: Mapping[str, FoundRelease]) -> dict[str, FoundRelease]:
        """What each method finds, not less than it found for a larger width; no entry where nothing may be public."""
        found: dict[str, FoundRelease] = {}
        both, grown = "best" in self.methods, None
        if both or "ordered" in self.methods:
            with suppress(ReleaseError):  # not even the grand total
                grown = search.by_order(known.get("ordered"))
                found["ordered"] = search.improved(grown)
        if "bisection" in self.methods:
            with suppress(ReleaseError):
                found["bisection"] = search.by_bisection(known.get("bisection"))
        if (both or "decomposable" in self.methods) and search.can_anneal():
            found["decomposable"] = search.by_annealing()
        if both and grown is not None:
            prefix = found["bisection"] if "bisection" in found else search.prefix()
            annealed = found["decomposable"] if "decomposable" in found else search.annealed()
            extended = None if annealed is None else search.extended(annealed)
            found["best"] = search.improved(search.best_of(prefix, annealed, grown, extended))
        # a release that is safe at a larger width is safe at this one, and a search may have found less
        return {method: max(new, known.get(method, new), key=lambda f: f.rank) for method, new in found.items()}


@dataclass(frozen=True)
class LikelyPoint:
    """The decomposable release found under a limit on what it makes likely.

    max_above   the fraction of at-risk cells whose true count may be above the threshold; None for no limit
    threshold   of a true count's probability
    sub_tables  without the grand total; 0 where `reason` says why nothing was found
    above       the fraction that is, None where nothing was found
    highest     the largest probability of a true count, likewise
    """

    max_above: float | None
    threshold: float
    sub_tables: int
    value: float
    above: float | None
    highest: float | None
    reason: str | None = None


@dataclass(frozen=True)
class LikelyCurve:
    """The decomposable search of a criterion under other limits, strictest first, and with none.

    What keeps a strict limit keeps every looser one: so chains start from the graph found before, and where they find
    less its release stays. `on_point` hears of every point.
    """

    chains: DecomposableSearch
    threshold: float
    max_above: tuple[float, ...]
    on_point: Callable[[LikelyPoint], None] = lambda point: None

    def run(self) -> tuple[LikelyPoint, ...]:
        """Sorted by the limit, that without one last."""
        best: DecomposableRelease | None = None
        points = []
        for most in (*sorted(set(self.max_above)), None):
            try:
                found = self._search(most, best).run()
                best = found if best is None or found.value > best.value else best
                points.append(self._point(most, best))
            except ReleaseError as error:  # no search has a graph to start from
                points.append(LikelyPoint(most, self.threshold, 0, 0.0, None, None, str(error)))
            self.on_point(points[-1])
        return tuple(points)

    def _search(self, most: float | None, best: DecomposableRelease | None) -> DecomposableSearch:
        criteria = self.chains.evaluator.criteria
        limit = None if most is None else PosteriorLimit(threshold=self.threshold, max_above=most)
        asked = criteria.without(PosteriorLimit)
        evaluator = self.chains.evaluator.anew(replace(asked, others=(*asked.others, *filter(None, [limit]))))
        start = self.chains.start if best is None else best.graph
        return replace(self.chains, evaluator=evaluator, start=start, checkpoint=lambda state: None)

    def _point(self, most: float | None, found: DecomposableRelease) -> LikelyPoint:
        """What a release makes likely, judged anew: it may be one of a stricter limit."""
        table, evaluator = self.chains.evaluator.table, self.chains.evaluator
        limit = PosteriorLimit(threshold=self.threshold, max_above=most or 0.0)
        likely = limit.judge(table, evaluator.knows(found.release), table.at_risk(evaluator.criteria.small_count))
        return LikelyPoint(most, self.threshold, found.sub_tables, found.value, likely.fraction, likely.highest)


def _point(method: str, evaluator: RiskEvaluator, found: FoundRelease | None) -> CurvePoint:
    criteria, schema = evaluator.criteria, evaluator.table.schema
    if found is None:
        return CurvePoint(method, criteria.small_count, criteria.width.min_width, 0, 0.0, 0, 0, None)
    release = found.release
    return CurvePoint(
        method,
        criteria.small_count,
        criteria.width.min_width,
        found.sub_tables,
        found.value,
        cells(release, schema),
        degrees_of_freedom(release, schema),
        found.evaluation.margin[0],
    )
