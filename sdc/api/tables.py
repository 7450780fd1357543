"""Single tables: suppressed, rounded, sums of values; and what published folders tell together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress as suppress_errors
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdc.api.settings import asked
from sdc.config.capabilities import require_together
from sdc.config.given import require_names
from sdc.data.reading import TableLike, table_of
from sdc.events import WARNING, EventText, heard
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.risk.criteria import Criteria, CriteriaKeywords
from sdc.risk.effort import Budget, Effort
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.stages.resolved import Public, known_of

if TYPE_CHECKING:
    from sdc.protect.magnitude import MagnitudeTables
    from sdc.protect.one_table import Suppressed
    from sdc.protect.rounding import Rounded
    from sdc.public.check import Composition

SUPPRESSING = ("budget", "executor", "whole", "witnesses", "whole_table", *CriteriaKeywords.__annotations__)

SUMMING = ("contributors", "dominance", "percent", "unique", "negative", "alike", "decimals", "csv", "ignore")


def _names(by: Any) -> list[str] | None:
    """The variables of `age*sex` or of a list; None where they are not texts, which another check refuses."""
    names = by.split("*") if isinstance(by, str) else by
    is_list = isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names)
    return [name.strip() for name in names] if is_list else None


def _table_by(table: TableLike, by: Any, public: Any = ()) -> Table:
    """Of a table all its variables; of a frame those that are used, for others may be no categories."""
    each = [public] if isinstance(public, str) else public
    lists = [_names(one) for one in (by, *each)] if isinstance(each, list | tuple) else [None]
    known = all(names is not None for names in lists)
    used = list(dict.fromkeys(name for names in lists for name in names or ())) if known else None
    return table_of(table) if isinstance(table, Table) else table_of(table, used)


def suppress(
    table: TableLike,
    by: str | Sequence[str],
    *,
    min_width: int | None = None,
    small_count: int = 2,
    public: Public = (),
    criteria: Criteria | None = None,
    **settings: Any,
) -> Suppressed:
    """Choose the cells of a table to suppress, so that no small count can be pinned down.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    by : str or list of str
        The table to protect: `age*sex`, or the list of its variables.
    min_width : int
        Records. The least width of the bounds of each small count. There is no default.
    small_count : int, default 2
        Counts of 1 up to this are small.
    public : list, Release, Knowledge or found release, default ()
        What else is public. An empty list means nothing.
    criteria : Criteria, optional
        What `sdc.criteria` gives, instead of `min_width` and `small_count`.
    **settings
        `whole_table=True`: judge every at-risk cell of the whole table, as `assess` does, not only the small counts of
        this one; `budget`, `executor`; `posterior_limit`, which judges the whole table too; `whole` and `witnesses`,
        with which a build begins.

    Returns
    -------
    Suppressed
        All cells, a suppressed one without a count. It has the true counts too: publish what `.to_pandas()` gives.

    Raises
    ------
    InputError
        For a table that is released already, and for a frame without records.
    ReleaseError
        For an unknown variable.
    NotReleasableError
        Where suppression does not do.

    Notes
    -----
    The margins stay public where they may be. The cheapest choice in records and cells is sought by cuts; a table of
    more than 4,096 cells, or one beside public tables, is protected by walks among the feasible tables. The result is
    in no ledger.

    References
    ----------
    [DKS] Dobra, Karr, Sanil: section 5. Fischetti and Salazar (2001).

    Examples
    --------
    >>> import pyarrow as pa
    >>> cells = {"age": [*"xxxyyyzzz"], "sex": [*"rstrstrst"], "count": [1, 20, 9, 30, 40, 8, 7, 6, 50]}
    >>> found = sdc.suppress(pa.table(cells), by=["age", "sex"], min_width=5, small_count=1)
    >>> found
    4 of 9 cells suppressed; small_count=1
    >>> found.to_arrow().column("count").to_pylist()
    [None, None, 9, 30, 40, 8, None, None, 50]
    """
    from sdc.protect import one_table

    require_names(settings, SUPPRESSING, "suppress")
    budget, executor = settings.pop("budget", None), settings.pop("executor", IN_PROCESS)
    whole, witnesses = settings.pop("whole", None), settings.pop("witnesses", None)
    whole_table = settings.pop("whole_table", False)
    own, _ = asked(criteria, min_width, small_count, settings)
    require_together("suppress", *own.settings)
    whole_table |= own.get(PosteriorLimit) is not None
    table = table_of(table) if whole_table else _table_by(table, by, public)
    view, known = st.subtable_of(by, table.schema), known_of(table, public)
    schema = table.schema.restrict(st.members(view))
    # the margins of one axis are the total alone, and then its labels say more
    beside = whole_table or len(schema.axes) < 2 or known.release != NOTHING or bool(known.facts)
    if not beside and st.cells(view, table.schema) <= one_table.MOST_CELLS:
        counts = table.marginal(view).dense
        zeros = known.zeros.excluded(view, table.schema)
        with suppress_errors(NotReleasableError):  # its margins are suppressed too then
            found = one_table.suppress(counts, own.small_count, own.floor, zeros=zeros)
            return found.named_by(schema, own.small_count)
    effort = Effort(budget or Budget(), executor=executor)
    before = None if whole is None else known_of(table, whole)
    found = one_table.suppress_beside(table, known, view, own, effort, before, witnesses)
    return found.named_by(schema, own.small_count)


def round(table: TableLike, by: str | Sequence[str] | None = None, *, base: int) -> Rounded:
    """Round a table to multiples of a base, so that its margins are rounded too and still add up.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    by : str or list of str, optional
        The table to round: `age*sex`, or the list of its variables; default all variables.
    base : int
        Records. At least 2.

    Returns
    -------
    Rounded
        All cells, each less than the base from its true count. `moved` is confidential.

    Raises
    ------
    InputError
        For a base below 2, more than 2^20 cells, a table below a level of a hierarchy, or a frame without records.
    ReleaseError
        For an unknown variable, and where no rounding is found.

    Notes
    -----
    One integer program. In two dimensions a rounding always exists; in more, where none is found, only margins of one
    variable, or the total, are held near; `margins` says which. The result is judged beside nothing, and in no ledger.

    References
    ----------
    [DKS] Dobra, Karr, Sanil: section 5.

    Examples
    --------
    >>> rounded = sdc.round("czech_auto_workers.csv", by=["A", "C"], base=5)
    >>> rounded.to_arrow().to_pydict()["count_rounded_to_5"]
    [540, 420, 385, 495]
    """
    from sdc.protect import rounding

    if by is not None:
        table = _table_by(table, by)
        table = table.marginal(st.subtable_of(by, table.schema))
    table = table_of(table)
    rounding.require_no_levels(st.full(len(table.schema)), table.schema)
    return rounding.controlled_rounding(table.dense, base).named_by(table.schema)


def magnitude_table(
    table: Any,
    *,
    value: str,
    by: str | Sequence[str],
    contributor: str | None = None,
    contributors: int | None = None,
    dominance: tuple[int, Any] | None = None,
    percent: Any = None,
    also: Sequence[str | Sequence[str]] = (),
    hierarchies: Mapping[str, str | Sequence[str]] | None = None,
    **settings: Any,
) -> MagnitudeTables:
    """Sum a column by variables, such that every cell passes the rules of dominance and number of contributors.

    Parameters
    ----------
    table : data frame or path
        The records.
    value : str
        The column that is summed.
    by : str or list of str
        The variables: `region*sector`, or the list of them.
    contributor : str, optional
        The column that says whose a record is; without it each record is another contributor's.
    contributors : int, optional
        The least number of contributors of a cell. At least one of the three rules is given.
    dominance : (int, number), optional
        (n, p): the n largest hold no more than p per cent of a cell.
    percent : number, optional
        p: without the two largest, at least p per cent of the largest is left.
    also : list, optional
        Further tables of the same records, judged together with the first.
    hierarchies : dict, optional
        For a variable its coarser columns, the finest first.
    **settings
        `unique` (default False): refuse a contributor with several records; `negative`: "refuse" or "split" values
        below 0; `alike`: "refuse", "merge" or "keep" names that differ by blanks or case alone; `decimals`, to which
        values are rounded half to even; `csv` and `ignore` as for `read_table`.

    Returns
    -------
    MagnitudeTables
        A tuple of tables, and by name: `result["region*sector"]`. `failing` of each is confidential.

    Raises
    ------
    InputError
        For a missing column, a value that is missing or no number, and records that are none.
    NotReleasableError
        Where no aggregation passes; its `detail` is confidential.

    Notes
    -----
    Cells that fail are aggregated along the hierarchies until all pass. The tables are judged beside nothing else and
    are in no ledger: the difference to other published sums of the same records may fail the rules.

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control: section 4.2.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sales = pa.table({"region": ["n", "n", "n", "s", "s", "s"], "sales": [5, 6, 7, 8, 9, 10]})
    >>> sums = sdc.magnitude_table(sales, value="sales", by=["region"], contributors=3)
    >>> sums["region"].rows
    [{'region': 'n', 'total': '18'}, {'region': 's', 'total': '27'}]
    """
    from sdc.data.columns import read_columns
    from sdc.data.reading import settings_of
    from sdc.data.records import FRAME, source_of
    from sdc.model.alike import alike_key
    from sdc.protect import magnitude
    from sdc.protect.dominance import Rules

    require_names(settings, SUMMING, "a magnitude table")
    rules = Rules.of(contributors, dominance, percent)
    text = settings_of(FRAME, {"csv": settings.pop("csv", None) or {}}).csv
    variables = by.split("*") if isinstance(by, str) else by
    sums = magnitude.MagnitudeRequest.of(value, variables, also, hierarchies, contributor)
    source = source_of(table, settings.pop("ignore", ()), frozenset(map(alike_key, (value, *sums.columns))))
    with source.named():
        records = read_columns(source, value, sums.columns, text, settings.get("alike", "refuse"))
        return magnitude.magnitude_table(records, sums, rules, decimal=text.decimal, **settings)


def check(
    *folders: str | Path,
    relations: str | Path | Sequence[Mapping[str, Any]] | None = None,
    cells: str = "at-risk",
    min_width: int | None = None,
    small_count: int = 2,
    min_frequency: int | None = None,
    executor: Executor = IN_PROCESS,
) -> Composition:
    """Check what published folders tell together, without a confidential table.

    Parameters
    ----------
    *folders : str or path
        Published folders, or files of tables of counts.
    relations : path or list of dict, optional
        How they relate: sections as `earlier` of a config has them, or a YAML file with a list of such.
    cells : {"at-risk", "all"}
        The cells that may have 1 up to `small_count` records, or all that may have any.
    min_width : int, optional
        Records. The least width that the cells which may be small are to keep.
    small_count : int, default 2
        Counts of 1 up to this are small.
    min_frequency : int, optional
        The smallest count that may be public, but for 0.
    executor : Executor
        Where the units of work run.

    Returns
    -------
    Composition
        `consistent`, and the bounds of the cells. What is broken is in the result. `warnings` has what to look at in
        the files first, such as a category that has the sums of others and may be a total.

    Raises
    ------
    InputError
        Where a table cannot be read, or cannot be expressed beside the others.
    ConfigError
        For relations that are none.

    Notes
    -----
    It costs a linear or integer program for each end of a cell; of more than 500 cells some bounds may not be sharp.

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> sdc.check(sdc.publish(found, "checked")).consistent
    True
    """
    from sdc.public.check import check as check_published
    from sdc.public.check import few_counts
    from sdc.public.relation import relations_given

    if cells not in ("at-risk", "all"):
        raise InputError(f"cells = {cells!r}; choose at-risk or all")
    if not folders:
        raise InputError("no folder is named; name published folders, or files of tables of counts")
    known, least = relations_given(relations), small_count if cells == "at-risk" else None
    warned = dict[str, None]()
    with heard(EventText(lambda line: warned.setdefault(line.removeprefix("warning: ")), WARNING)):
        found = check_published(folders, known, small_count=least, min_width=min_width, executor=executor)
        few = () if min_frequency is None else few_counts(folders, min_frequency, known)
    return replace(found.judged(small_count, min_width, few), warnings=(*warned,))
