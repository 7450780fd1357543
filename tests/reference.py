"""What every answer of the program means, defined on small tables by listing all feasible tables.

Nothing of `sdc` is imported here: the fast methods are tested against this file. A table is an array of counts with one
axis for each variable, and a cell is the tuple of its codes. Everything public is a list of facts, a table is feasible
if it agrees with all of them, and every other notion is a statement about the feasible tables.

References: [KDSF] Dobra, Karr, Sanil, Fienberg, "Software systems for tabular data releases" (2002); [DKS] Dobra, Karr,
Sanil, "Preserving confidentiality of high-dimensional tabulated data" (2003); [DFT] Dobra, Fienberg, Trottini,
"Assessing the risk of disclosure of confidential categorical data" (2003); [CACM] Karr, Dobra, Sanil, "Table servers
protect confidentiality" (2003); [FS] Fischetti, Salazar, "Solving the cell suppression problem on tabular data" (2001);
[Cox] "A constructive procedure for unbiased controlled rounding" (1987); [KMN] Kenthapadi, Mishra, Nissim, "Simulatable
auditing" (2005).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import exp, lgamma
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Cell: TypeAlias = tuple[int, ...]
Counts: TypeAlias = npt.NDArray[np.int64]
MOST_TABLES = 4_000_000

# Variables and sub-tables


@dataclass(frozen=True)
class Level:
    """A coarser level of a hierarchy: the group of each category of an axis, such as the region of each area."""

    axis: int
    groups: tuple[int, ...]


Variable: TypeAlias = int | Level
"""An axis itself, by its number, or a coarser level of one."""
SubTable: TypeAlias = Collection[Variable]
Pattern: TypeAlias = Sequence[tuple[Variable, Collection[int]]]
"""Some categories of some variables: the cells that have one of them in each."""


def every_cell(sizes: Sequence[int]) -> list[Cell]:
    """All cells, in C order."""
    return list(product(*map(range, sizes)))


def axis_of(variable: Variable) -> int:
    return variable.axis if isinstance(variable, Level) else variable


def code(cell: Cell, variable: Variable) -> int:
    """The category of a cell in a variable."""
    return variable.groups[cell[variable.axis]] if isinstance(variable, Level) else cell[variable]


def matches(cell: Cell, pattern: Pattern) -> bool:
    return all(code(cell, variable) in codes for variable, codes in pattern)


def marginal_cells(sizes: Sequence[int], subtable: SubTable) -> dict[Cell, list[Cell]]:
    """The cells of the table that are summed in each cell of a sub-table."""
    found: dict[Cell, list[Cell]] = {}
    for cell in every_cell(sizes):
        found.setdefault(tuple(code(cell, variable) for variable in subtable), []).append(cell)
    return found


def marginal(counts: Counts, subtable: SubTable) -> dict[Cell, int]:
    """The counts of a sub-table; of the empty one the grand total."""
    groups = marginal_cells(counts.shape, subtable)
    return {key: int(sum(counts[cell] for cell in inside)) for key, inside in groups.items()}


def closure(sizes: Sequence[int], variables: Collection[Variable], subtable: SubTable) -> frozenset[Variable]:
    """The sub-table with every level whose category follows from its variables of the same axis."""
    found = set(subtable)
    for variable in variables:
        own = [one for one in subtable if axis_of(one) == axis_of(variable)]
        cells = [(0,) * axis_of(variable) + (category,) for category in range(sizes[axis_of(variable)])]
        blocks = [tuple(code(cell, one) for one in own) for cell in cells]
        both = [(block, code(cell, variable)) for block, cell in zip(blocks, cells, strict=True)]
        if own and len(set(both)) == len(set(blocks)):
            found.add(variable)
    return frozenset(found)


def closed_subtables(sizes: Sequence[int], variables: Collection[Variable]) -> set[frozenset[Variable]]:
    """The query space of a table with hierarchies: the sub-tables that contain all that follows from them."""
    found: set[frozenset[Variable]] = {frozenset()}
    for axis in {axis_of(variable) for variable in variables}:
        own = [variable for variable in variables if axis_of(variable) == axis]
        of_axis = {closure(sizes, own, some) for size in range(len(own) + 1) for some in combinations(own, size)}
        found = {one | other for one in found for other in of_axis}
    return found


# Facts


@dataclass(frozen=True)
class Fact:
    """The counts of some cells sum to at least `low` and at most `high`: all that is ever public is of this form.

    A minimum or maximum of a total is one, and so is a count below 5 that is printed as "<5".
    """

    cells: frozenset[Cell]
    low: int
    high: int


def published(
    counts: Counts, subtable: SubTable, universe: Pattern = (), intervals: Mapping[Cell, tuple[int, int]] | None = None
) -> Iterator[Fact]:
    """A published sub-table, of all records or of those in a universe; each cell is exact unless it has an interval."""
    for key, inside in marginal_cells(counts.shape, subtable).items():
        if matches(inside[0], universe):
            total = int(sum(counts[cell] for cell in inside))
            yield Fact(frozenset(inside), *(intervals or {}).get(key, (total, total)))


def exact(counts: Counts, subtable: SubTable) -> Iterator[Fact]:
    """An exact marginal, cell by cell."""
    return published(counts, subtable)


def suppressed(counts: Counts, subtable: SubTable, hidden: Collection[int]) -> Iterator[Fact]:
    """A suppressed table: nothing is said of its hidden cells, which are named by their places in C order."""
    return (fact for place, fact in enumerate(exact(counts, subtable)) if place not in hidden)


def nearest(count: int, base: int) -> tuple[int, int]:
    """The interval of a count that is rounded to the nearest multiple of an odd base."""
    printed = base * ((count + base // 2) // base)
    return printed - base // 2, printed + base // 2


def controlled(count: int, base: int, *, up: bool) -> tuple[int, int]:
    """The interval of a count that is rounded to one of the two multiples next to it [Cox]."""
    printed = base * (-(-count // base) if up else count // base)
    return printed - base + 1, printed + base - 1


def listed(counts: Counts, variable: Variable, code_list: Collection[int] = ()) -> Iterator[Fact]:
    """Published labels: each category of a variable has a record, unless a code list names it."""
    groups = marginal_cells(counts.shape, [variable]).items()
    yield from (Fact(frozenset(inside), 1, int(counts.sum())) for (own,), inside in groups if own not in code_list)


def impossible(cells: Iterable[Cell]) -> Iterator[Fact]:
    """Structural zeros: everybody knows that these cells have no record."""
    return (Fact(frozenset([cell]), 0, 0) for cell in cells)


def released(counts: Counts, release: Iterable[SubTable], known: Iterable[Fact] = ()) -> list[Fact]:
    """Several publications judged together are the union of their facts; the grand total is always public."""
    return [*known, *exact(counts, ()), *(fact for subtable in release for fact in exact(counts, subtable))]


# Feasible tables


class TooManyTablesError(Exception):
    """More tables than are listed: draw a smaller case."""


def feasible(sizes: Sequence[int], facts: Iterable[Fact], most: int = MOST_TABLES) -> Counts:
    """(tables, cells in C order) all tables of non-negative integers that agree with every fact.

    Cell after cell takes every count that the facts leave it. Each cell must be in some fact, or it could have any.
    """
    cells, told = every_cell(sizes), list(facts)
    inside = np.array([[cell in fact.cells for cell in cells] for fact in told])
    assert inside.any(axis=0).all(), "a cell without a fact has no largest count"
    # what each fact still needs and still allows, of each table as far as it is filled in
    low, high = (np.array([[getattr(fact, end) for fact in told]], np.int64) for end in ("low", "high"))
    tables = np.zeros((1, len(cells)), np.int32)
    for place in range(len(cells)):
        touched = np.flatnonzero(inside[:, place])
        repeats = np.maximum(high[:, touched].min(axis=1) + 1, 0)
        if (total := int(repeats.sum())) > most:
            raise TooManyTablesError(f"{total} tables after {place + 1} of {len(cells)} cells")
        values = np.arange(total) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        tables, low, high = (np.repeat(array, repeats, axis=0) for array in (tables, low, high))
        tables[:, place] = values
        low[:, touched] -= values[:, None]
        high[:, touched] -= values[:, None]
        closed = touched[~inside[touched, place + 1 :].any(axis=1)]
        kept = (low[:, closed] <= 0).all(axis=1)
        tables, low, high = tables[kept], low[kept], high[kept]
    return tables.astype(np.int64)


def sums(tables: Counts, sizes: Sequence[int], subtable: SubTable) -> Counts:
    """(tables, cells of the sub-table) the sub-table of each table, in the order of `marginal_cells`."""
    place = {cell: row for row, cell in enumerate(every_cell(sizes))}
    groups = marginal_cells(sizes, subtable).values()
    return np.stack([tables[:, [place[cell] for cell in inside]].sum(axis=1) for inside in groups], axis=1)


# Bounds, widths and releases


def bounds(tables: Counts) -> Counts:
    """(cells, 2) the bounds of each cell: its smallest and largest count over all feasible tables [DKS]."""
    return np.stack([tables.min(axis=0), tables.max(axis=0)], axis=1)


def widths(tables: Counts) -> Counts:
    """(cells,) the width of each cell: upper less lower bound."""
    return np.diff(bounds(tables), axis=1)[:, 0]


def at_risk(counts: Counts, small_count: int) -> Counts:
    """The places in C order of the at-risk cells: those with a small count ([KDSF] eq. 4)."""
    return np.flatnonzero((counts > 0) & (counts <= small_count))


def min_width(counts: Counts, facts: Iterable[Fact], small_count: int, most: int = MOST_TABLES) -> int:
    """The least width of an at-risk cell ([KDSF] eq. 6); without such a cell the grand total."""
    return int(widths(feasible(counts.shape, facts, most))[at_risk(counts, small_count)].min(initial=counts.sum()))


def keeps_values(counts: Counts, facts: Iterable[Fact], small_count: int, least: int, *, zero: bool) -> bool:
    """Whether each at-risk cell has so many values over all feasible tables, 0 among them where that is asked."""
    values = [{*column.tolist()} for column in feasible(counts.shape, facts).T[at_risk(counts, small_count)]]
    return all(len(own) >= least and (0 in own or not zero) for own in values)


def is_releasable(
    counts: Counts, release: Iterable[SubTable], small_count: int, least: int, known: Iterable[Fact] = ()
) -> bool:
    """Whether a release keeps the width of every at-risk cell, together with what is known ([KDSF] eq. 6)."""
    tables = feasible(counts.shape, released(counts, release, known))
    return bool((widths(tables)[at_risk(counts, small_count)] >= least).all())


def critical_width(counts: Counts, subtable: SubTable, small_count: int) -> int:
    """w*(T): the min width under the most parsimonious release, T and the other variables alone ([KDSF] eq. 10)."""
    others = [[axis] for axis in range(counts.ndim) if axis not in subtable]
    return min_width(counts, released(counts, [subtable, *others]), small_count)


def explicit_critical_width(codes: Counts, counts: Counts, subtable: SubTable, small_count: int) -> int:
    """The same without a listing, of larger tables ([DKS] theorem 1); `codes` are (n, axes) the occupied cells.

    T and, of each axis that it has not whole, the one-way marginal are the cliques; what T has of such an axis is the
    separator. UB is the least clique count, LB is at least their sum less the separator counts.
    """

    def at_cells(variables: SubTable) -> Counts:
        columns = [
            np.array(variable.groups)[codes[:, variable.axis]] if isinstance(variable, Level) else codes[:, variable]
            for variable in variables
        ]
        keys = np.stack([np.zeros(len(codes), np.int64), *columns], axis=1)
        group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        return np.bincount(group, counts)[group].astype(np.int64)

    upper = lower = at_cells(subtable)
    for axis in set(range(codes.shape[1])) - {variable for variable in subtable if not isinstance(variable, Level)}:
        own = at_cells([axis])
        upper = np.minimum(upper, own)
        lower = lower + own - at_cells([variable for variable in subtable if axis_of(variable) == axis])
    small = (counts > 0) & (counts <= small_count)
    return int((upper - np.maximum(lower, 0))[small].min(initial=counts.sum()))


# Searches


def query_space(axes: int) -> list[frozenset[int]]:
    """All 2^K sub-tables, numbered by their bits."""
    return [frozenset(axis for axis in range(axes) if number >> axis & 1) for number in range(1 << axes)]


def downward_closure(release: Iterable[Collection[int]]) -> set[frozenset[int]]:
    """Who has a sub-table has all that are within it."""
    return {frozenset(some) for t in release for size in range(len(t) + 1) for some in combinations(sorted(t), size)}


def ordered(critical_widths: Mapping[frozenset[int], int]) -> list[frozenset[int]]:
    """Ordered marginals: by decreasing critical width, ties by decreasing dimension, then by number ([KDSF] 5.2)."""
    numbers = {subtable: sum(1 << axis for axis in subtable) for subtable in critical_widths}
    return sorted(critical_widths, key=lambda t: (-critical_widths[t], -len(t), numbers[t]))


Releasable: TypeAlias = Callable[[Collection[frozenset[int]]], bool]


def longest_prefix(listed: Sequence[frozenset[int]], releasable: Releasable) -> Sequence[frozenset[int]]:
    """What the bisection finds: the longest prefix of the list that is releasable ([KDSF] 5.2)."""
    return max((listed[:length] for length in range(len(listed) + 1) if releasable(listed[:length])), key=len)


def is_maximal(release: Collection[frozenset[int]], axes: int, releasable: Releasable) -> bool:
    """Whether no further sub-table can go out."""
    inside = downward_closure(release)
    return not any(releasable([*release, t]) for t in query_space(axes) if t not in inside)


# Annealing over decomposable releases ([KDSF] 5.1)

Edges: TypeAlias = frozenset[tuple[int, int]]


def cliques(edges: Edges, size: int) -> list[frozenset[int]]:
    """The largest sets of variables that are joined pairwise: the frontier of the graph's release."""
    complete = [t for t in query_space(size) if t and all(pair in edges for pair in combinations(sorted(t), 2))]
    return [t for t in complete if not any(t < other for other in complete)]


def is_decomposable(edges: Edges, size: int) -> bool:
    """Whether the graph is chordal: vertices whose neighbours are joined can be removed one by one."""
    left = set(range(size))
    while left:
        around = {v: {u for u in left if (min(u, v), max(u, v)) in edges} for v in left}
        free = [v for v in left if all(pair in edges for pair in combinations(sorted(around[v]), 2))]
        if not free:
            return False
        left -= {free[0]}
    return True


def legal_moves(edges: Edges, size: int) -> list[tuple[int, int]]:
    """The pairs whose edge may be added or deleted: the neighbours are decomposable too."""
    return [pair for pair in combinations(range(size), 2) if is_decomposable(edges ^ {pair}, size)]


def utility(edges: Edges, size: int) -> int:
    """DU: the number of non-empty sub-tables that the graph releases ([KDSF] eq. 5)."""
    return len(downward_closure(cliques(edges, size))) - 1


def annealing_step(
    edges: Edges, size: int, temperature: float, draws: Iterator[float], releasable: Callable[[Edges], bool]
) -> Edges:
    """One step from a graph: what is accepted at the given draws, uniform in [0, 1).

    Pairs are drawn until one is legal. An addition is accepted if it is releasable; a deletion, which loses utility,
    with probability exp(-loss / T) (Metropolis).
    """
    pairs, legal = list(combinations(range(size), 2)), legal_moves(edges, size)
    pair = next(one for one in (pairs[int(draw * len(pairs))] for draw in draws) if one in legal)
    neighbour = edges ^ {pair}
    loss = utility(edges, size) - utility(neighbour, size)
    if loss > 0:
        return neighbour if next(draws) < exp(-loss / temperature) else edges
    return neighbour if releasable(neighbour) else edges


# Rules on published counts


def breaks_threshold(counts: Counts, release: Iterable[SubTable], least: int) -> bool:
    """The minimum-frequency rule: a published count, or the total, is positive and below the least."""
    return any(0 < count < least for t in [(), *release] for count in marginal(counts, t).values())


def discloses_attribute(
    counts: Counts, subtable: SubTable, sensitive: Variable, most: int, zeros: Collection[Cell] = (), *, lacking: bool
) -> bool:
    """The homogeneity rule: some group of at most `most` records is told to lack a category that it could have.

    A group has one category in each of the sub-table's other axes. Not `lacking`: it is told to have a single one.
    """
    others = [variable for variable in subtable if axis_of(variable) != axis_of(sensitive)]
    for inside in marginal_cells(counts.shape, others).values():
        possible = {code(cell, sensitive) for cell in inside if cell not in zeros}
        present = {code(cell, sensitive) for cell in inside if counts[cell]}
        is_small = 0 < sum(counts[cell] for cell in inside) <= most
        if is_small and (present < possible if lacking else len(present) == 1 < len(possible)):
            return True
    return False


def fails_magnitude_rules(contributions: Iterable[int], least: int, n: int, share: Any, percent: Any) -> list[bool]:
    """Of a sum whether it fails the threshold rule, the dominance rule and the p per cent rule.

    It has fewer than `least` contributors; the n largest have more than `share` per cent of it; without the two largest
    less than `percent` per cent of the largest is left.
    """
    largest = sorted((value for value in contributions if value), reverse=True)
    total = sum(largest)
    if not total:
        return [False, True, True]
    few, rest = len(largest) < least, total - sum(largest[:2])
    return [few, sum(largest[:n]) * 100 > share * total, rest * 100 < percent * largest[0]]


# Suppression ([FS])


def is_safe_pattern(
    counts: Counts, subtable: SubTable, hidden: Collection[int], small_count: int, least: int, known: Iterable[Fact]
) -> bool:
    """Whether hiding these cells of a sub-table protects: primary suppression and secondary suppression together.

    Every small cell of the sub-table is primary: it is hidden and keeps the width, beside the other cells and what is
    known. So does every at-risk cell of the full table.
    """
    tables = feasible(counts.shape, [*known, *suppressed(counts, subtable, hidden)])
    truth = np.array([*marginal(counts, subtable).values()])
    primary = at_risk(truth, small_count)
    own, whole = widths(sums(tables, counts.shape, subtable))[primary], widths(tables)[at_risk(counts, small_count)]
    return {*primary.tolist()} <= {*hidden} and bool((own >= least).all() and (whole >= least).all())


def cheapest_pattern(
    counts: Counts, subtable: SubTable, small_count: int, least: int, known: Sequence[Fact]
) -> frozenset[int] | None:
    """The safe pattern of least cost, a hidden cell costing its count and 1; None where all cells are too few."""
    truth = [*marginal(counts, subtable).values()]
    places = [frozenset(some) for size in range(len(truth) + 1) for some in combinations(range(len(truth)), size)]
    by_cost = sorted(places, key=lambda hidden: sum(truth[place] + 1 for place in hidden))
    safe = (hidden for hidden in by_cost if is_safe_pattern(counts, subtable, hidden, small_count, least, known))
    return next(safe, None)


# Controlled rounding ([Cox])


def controlled_roundings(counts: Counts, base: int, margins: Collection[SubTable]) -> Iterator[Counts]:
    """Every table of multiples of the base in which no cell and no margin moves by the base or more."""
    for raised in product(*((0, 1) if count % base else (0,) for count in counts.reshape(-1).tolist())):
        tried = counts // base * base + base * np.array(raised).reshape(counts.shape)
        pairs = (zip(marginal(tried, m).values(), marginal(counts, m).values(), strict=True) for m in margins)
        if all(abs(one - other) < base for own in pairs for one, other in own):
            yield tried


# Server decisions ([CACM])


def decisions(requests: Iterable[Collection[int]], releasable: Releasable) -> list[bool]:
    """Of each request whether it is answered: it must be releasable jointly with all earlier answers."""
    answered, found = list[frozenset[int]](), list[bool]()
    for request in map(frozenset, requests):
        found.append(releasable([*answered, request]))
        answered += [request] if found[-1] else []
    return found


def alike(tables: Counts, sizes: Sequence[int], decide: Callable[[Counts], object], truth: Counts) -> Counts:
    """The feasible tables that lead to the same decisions as the true one: what is left to who knows the rule."""
    said = decide(truth)
    return tables[[decide(table.reshape(sizes)) == said for table in tables]]


def is_simulatable(counts: Counts, release: Iterable[SubTable], decide: Callable[[Counts], object]) -> bool:
    """Whether decisions tell nothing: every table that agrees with what is public leads to the same ones [KMN]."""
    tables = feasible(counts.shape, released(counts, release))
    return len(alike(tables, counts.shape, decide, counts)) == len(tables)


# The intruder's posterior ([DFT] section 5)


def log_weight(
    counts: Counts, alpha: float | None = None, of: Iterable[SubTable] = (), less: Iterable[SubTable] = ()
) -> float:
    """The logarithm of what a feasible table weighs.

    Without a model, prod 1/f!: the multinomial law whatever its probabilities, given a release that has its generators.
    With the cliques `of` and separators `less` of a decomposable model, its hyper-Dirichlet prior: factors Gamma(n + a)
    for each of their counts, a being `alpha` for each cell summed. The saturated model with alpha = 1 is uniform.
    """
    found = -sum(lgamma(count + 1) for count in counts.reshape(-1).tolist())
    for subtables, sign in ((of, 1), (less, -1)):
        for subtable in subtables:
            sums_of, cells = marginal(counts, subtable), marginal_cells(counts.shape, subtable)
            found += sign * sum(lgamma(sums_of[key] + (alpha or 0) * len(cells[key])) for key in sums_of)
    return found


def posterior(tables: Counts, log_weights: Iterable[float]) -> list[dict[int, float]]:
    """Of each cell the probability of every count that some feasible table has."""
    logs = np.array([*log_weights])
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return [{int(count): float(shares[column == count].sum()) for count in np.unique(column)} for column in tables.T]


def claims(laws: Iterable[Mapping[int, float]], truth: Iterable[int], none: float, wrong: float) -> list[int | None]:
    """What an intruder claims of each cell: the count of least expected loss, or nothing ([DFT] section 3).

    Silence costs him `none` and a wrong claim `wrong`; of claims that cost as much he makes the true one.
    """
    found = list[int | None]()
    for law, count in zip(laws, truth, strict=True):
        expected = {k: wrong * (1 - probability) for k, probability in law.items()}
        best = min(expected, key=lambda k: (expected[k] > min(expected.values()) + 1e-9 * wrong, k != count))
        found.append(None if expected[best] >= none - 1e-9 * wrong else best)
    return found
