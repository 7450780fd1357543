"""Totals among records: categories that are sums of others, found by names and by counts.

A table with totals beside its cells counts each record several times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.keys import KeySpace
from sdc.model.schema import Schema, Variable
from sdc.model.table import Counts, Table
from sdc.run_format import RESERVED, TOTAL

SumCategory = tuple[str, str]
"""A variable, and a category that is a sum of others."""
MOST_LEVELS = 4  # of totals of totals
MOST_VARIABLES = 10  # of a table that lists all its totals: it has 2^n - 1 marginals
WORDS = frozenset(
    "total totals subtotal subtotals totaal totale totaux totalt totales totalsumme grandtotal insgesamt insg gesamt "
    "gesamtsumme summe sum somme suma summa soma zusammen ensemble alle alles all alla tous toutes tout todos todas "
    "tutti ialt samlet samtliga sammanlagt yhteensä kaikki ogółem razem celkem spolu összesen ukupno skupaj kokku kopā "
    "iš_viso toplam итого всего сумма všichni усього σύνολο 合計 総数 总计 合计 總計 합계".replace("_", " ").split()
)
SHORT = frozenset({"t", "tot", "ttl", "i alt", "iš viso", "both sexes"})


def is_reserved(name: str) -> bool:
    """Whether a name always means totals, in any case and with any blanks."""
    return "".join(name.split()).casefold() in RESERVED


def is_usual(name: str) -> bool:
    """Whether a name is usual for totals: Total, Insgesamt, Ensemble, _T, All ages and the like."""
    words = _words(name)
    return " ".join(words) in SHORT or any(word in WORDS for word in (*words[:1], *words[-1:]))


def is_plain(name: str) -> bool:
    """Whether it is such a word alone, which rarely means anything else."""
    return "".join(_words(name)) in WORDS


def _words(name: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in name.casefold()).split()


def without_totals(table: Table, path: str, is_counted: bool) -> Table:
    """A table with all totals, as `(total)` of its variables, reduced to its cells; others unchanged.

    Published tables have this form. InputError if a total is missing or wrong, or if the rows are records.
    """
    names = [variable.name for variable in table.schema.variables if any(map(is_reserved, variable.categories))]
    if not names:
        return table
    variables = table.schema.variables
    cells_alone = [tuple(c for c in variable.categories if not is_reserved(c)) for variable in variables]
    wrong = InputError(
        f"{path} has rows of totals: {names[0]!r} has {' or '.join(RESERVED)}, which stands for all others and is "
        "not a category. Give only the cells; a table with totals is read only if it lists every total, each correct"
    )
    is_whole = all(own and v.categories == (*own, TOTAL) for own, v in zip(cells_alone, variables, strict=True))
    if not (is_counted and is_whole) or len(cells_alone) > MOST_VARIABLES:
        raise wrong
    schema = Schema(tuple(Variable(v.name, own) for v, own in zip(variables, cells_alone, strict=True)))
    is_total = table.codes == np.array(schema.sizes)
    of = is_total @ (1 << np.arange(len(schema)))
    cells = Table.of(schema, table.codes[of == 0], table.counts[of == 0])
    for left_out in range(1, 1 << len(schema)):
        others, rows = list(st.members(st.full(len(schema)) & ~left_out)), of == left_out
        own = cells.marginal(st.of(others)) if others else None
        if own is None:
            is_right = table.counts[rows].tolist() == [cells.total]
        else:
            is_right = own == Table.of(own.schema, table.codes[rows][:, others], table.counts[rows])
        if not is_right:
            raise wrong
    return cells


def require_no_totals(table: Table, allowed: Mapping[str, Sequence[str]], path: str) -> None:
    """InputError if categories named like totals are sums of others and are not declared as categories."""
    if found := named_sums(table, allowed):
        listed = ", ".join(f"{category!r} of {name!r}" for name, category in found)
        name, category = found[0]
        raise InputError(
            f"{path} has rows of totals: {listed} has the sums of other categories in every row. Leave these rows out, "
            f"or, if it is a category, declare it: table.not_totals: {{{name}: [{category!r}]}}"
        )


def named_sums(table: Table, allowed: Mapping[str, Sequence[str]]) -> list[SumCategory]:
    """Categories named like totals whose counts, in all their rows, are sums of other rows.

    A total is the sum of all others, or of others and their totals: then each counts once for each level.
    """
    return _sums_of(
        table,
        [[c for c in v.categories if is_usual(c) and c not in allowed.get(v.name, ())] for v in table.schema.variables],
    )


def _sums_of(table: Table, marks: Sequence[Sequence[str]]) -> list[SumCategory]:
    """The marks of each variable whose counts, in all their rows, are sums of rows without them."""
    variables = table.schema.variables
    marked = [v for v, own in enumerate(marks) if own]
    if not marked:
        return []
    # by row the totals that it belongs to, -1 for a category
    of = np.full((len(table), len(marked)), -1)
    for place, v in enumerate(marked):
        column = table.codes[:, v].astype(np.int64)
        of[:, place] = np.where(np.isin(column, [variables[v].categories.index(c) for c in marks[v]]), column, -1)
    kinds, rows_of = np.unique(of, axis=0, return_inverse=True)
    rows_of, found = rows_of.reshape(-1), set[tuple[int, int]]()
    by_kind = {tuple(kind): number for number, kind in enumerate(kinds.tolist())}
    for kind, number in by_kind.items():
        own = [place for place, code in enumerate(kind) if code >= 0]
        finer = [tuple(-1 if place == p else code for place, code in enumerate(kind)) for p in own]
        for other in {*finer, (-1,) * len(kind)} & by_kind.keys() - {kind}:
            summed = [p for p in own if other[p] < 0]
            rest = [v for v in range(len(variables)) if v not in {marked[p] for p in summed}]
            if _are_sums(table, rows_of == number, rows_of == by_kind[other], rest):
                found |= {(marked[p], kind[p]) for p in summed}
    return [(variables[v].name, variables[v].categories[code]) for v, code in sorted(found)]


def _are_sums(table: Table, rows: npt.NDArray[np.bool_], finer: npt.NDArray[np.bool_], rest: Sequence[int]) -> bool:
    """Whether the counts of rows are the sums of finer ones with the same other categories, or 1/k of these."""
    both = np.flatnonzero(rows), np.flatnonzero(finer)
    group = _groups(table, np.concatenate(both), rest)
    own, others = np.zeros(group.max() + 1, np.int64), np.zeros(group.max() + 1, np.int64)
    np.add.at(own, group[: len(both[0])], table.counts[both[0]])
    np.add.at(others, group[len(both[0]) :], table.counts[both[1]])
    own, others = own[own > 0], others[own > 0]
    times = others[0] // own[0]
    # with a single other category a multiple is chance
    most = 1 if len(both[1]) <= len(own) else times
    return bool(1 <= times <= most and (others == times * own).all())


def _groups(table: Table, rows: npt.NDArray[np.int64], variables: Sequence[int]) -> npt.NDArray[np.int64]:
    """(rows,) equal numbers for rows with equal categories of the variables."""
    if not variables:
        return np.zeros(len(rows), np.int64)
    codes = table.codes[rows][:, variables]
    return KeySpace(tuple(table.schema.sizes[v] for v in variables)).distinct(codes)[1]


def sum_categories(table: Table, allowed: Mapping[str, Sequence[str]]) -> Iterator[SumCategory]:
    """Categories whose counts are everywhere the sum of all others of their variable, or of a consecutive range of
    them.

    Categories named like totals are included. Totals among the others count once for each level. So are those of
    rows with a total of several variables, as ROLLUP of SQL writes them: see `_nested`.
    """
    yield from _nested(table, allowed)
    for v, (variable, counts) in enumerate(zip(table.schema.variables, table.one_way(), strict=True)):
        order = sorted(range(len(counts)), key=variable.categories.__getitem__)
        names, sums = [variable.categories[code] for code in order], np.append(0, np.cumsum(counts[order]))
        for place, (code, category) in enumerate(zip(order, names, strict=True)):
            if category in allowed.get(variable.name, ()) or not counts[code]:
                continue
            begun = place + 1, bisect_left(names, category + chr(0x10FFFF), place)
            if is_plain(category) or any(_is_sum(table, v, order, sums, place, *of) for of in ((0, len(order)), begun)):
                yield variable.name, category


def _nested(table: Table, allowed: Mapping[str, Sequence[str]]) -> Iterator[SumCategory]:
    """Totals of several variables: one name in all of them, or the names of the largest cell.

    The rows with them add up to the records, again for each set of variables that are totals in a row.
    """
    if not len(table):
        return
    variables, one_way = table.schema.variables, table.one_way()
    named = dict[str, dict[int, int]]()
    for v, variable in enumerate(variables):
        for code, category in enumerate(variable.categories):
            if category not in allowed.get(variable.name, ()):
                named.setdefault(category, {})[v] = code
    largest = enumerate(table.codes[int(table.counts.argmax())].tolist())
    marks = [{v: code for v, code in largest if named.get(variables[v].categories[code], {}).get(v) == code}]
    # half of what is counted is in rows with a total, or more
    often = (own for own in named.values() if 2 * sum(one_way[v][code] for v, code in own.items()) >= table.total)
    for own in filter(None, [*marks, *(own for own in often if len(own) > 1)]):
        is_total = np.stack([table.codes[:, v] == code for v, code in own.items()], axis=1)
        kinds = KeySpace((2,) * len(own)).distinct(is_total.astype(np.uint16))[1]
        sums = np.zeros(kinds.max() + 1, np.int64)
        np.add.at(sums, kinds, table.counts)
        cells = ~is_total.any(axis=1)
        if cells.sum() > 1 and len(sums) > 1 and (sums == table.counts[cells].sum()).all():
            yield from _sums_of(
                table, [[variable.categories[own[v]]] if v in own else [] for v, variable in enumerate(variables)]
            )
            return


def _is_sum(table: Table, v: int, order: Sequence[int], sums: Counts, place: int, first: int, last: int) -> bool:
    """Whether the range of categories has the same multiple of its counts everywhere; for few cells that is chance."""
    own, others = int(sums[place + 1] - sums[place]), last - first - (not first)
    times, rest = divmod(int(sums[last] - sums[first]) - own * (not first), own)
    if rest or not 1 <= times <= max(1, min(MOST_LEVELS, others - 2)) or others < min(first + 1, 2):
        return False
    group = _groups(table, np.arange(len(table)), [u for u in range(len(table.schema)) if u != v])
    signs = np.zeros(len(order), np.int64)
    signs[order[first:last]], signs[order[place]] = -1, times
    left = np.zeros(group.max() + 1, np.int64)
    np.add.at(left, group, signs[table.codes[:, v]] * table.counts)
    return not left.any() and (times == 1 or len(left) > 2)


def warnings_of(found: Iterable[SumCategory]) -> Iterator[str]:
    """The warnings before a build, each once; they quote no data."""
    hidden = "a category, which sdc init names,"
    for name, shown in dict.fromkeys((name, f"{one!r}" if is_usual(one) else hidden) for name, one in found):
        yield (
            f"warning: {shown} of {name!r} looks like a total: it is called so, or its counts are the sum of all "
            f"others. Leave its rows out if it is one, or name it in table.not_totals.{name}"
        )
