"""Whether what is called disjoint looks like the same records, by totals and margins that agree to the digit."""

from __future__ import annotations

import numpy as np

from sdc.model.table import Table


def looks_the_same(table: Table, published: Table) -> bool:
    """Whether they have one total, or one of them has in one of its categories the margins of the other.

    Equal totals may be chance where there are few records: then a key of the records has to decide.
    """
    return table.total == published.total or _is_part(published, table) or _is_part(table, published)


def _is_part(part: Table, whole: Table) -> bool:
    """Whether the records of one category have the total, and the margin of each variable that both have."""
    for v, counts in enumerate(whole.one_way()):
        shared = {*whole.schema.names} & {*part.schema.names} - {whole.schema.names[v]}
        for code in np.flatnonzero(counts == part.total) if shared and part.total else ():
            rows = whole.codes[:, v] == code
            own = Table.of(whole.schema, whole.codes[rows], whole.counts[rows])
            if all(_margin(own, name) == _margin(part, name) for name in shared):
                return True
    return False


def _margin(table: Table, name: str) -> dict[str, int]:
    """By category, those without records left out."""
    v = table.schema.index(name)
    pairs = zip(table.schema.variables[v].categories, table.one_way()[v].tolist(), strict=True)
    return {category: count for category, count in pairs if count}
