"""Cells given what is public: their bounds, how many tables agree, and what is likely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from sdc.bounds.super_cells import FRACTIONAL
from sdc.config.given import require_names
from sdc.data.reading import TableLike, table_of
from sdc.executor import IN_PROCESS, Executor
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING
from sdc.model.sharpness import SHARP_SECONDS, require_budget
from sdc.model.super_cell import SuperCellBounds, SuperCells
from sdc.model.weights import RecordWeights
from sdc.risk.bounds_in_units import bounds_in_units
from sdc.stages.answers import chosen_cells, super_cells
from sdc.stages.resolved import Public, known_of

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration, EnumerationProgress
    from sdc.intruder.posterior import Posterior
    from sdc.risk.sharp import SharpBounds
    from sdc.utility.ipf import Form, Support
    from sdc.utility.loglinear import LogLinearFit
    from sdc.utility.model_search import ModelSearch
    from sdc.utility.uniques import Uniques


def cell_bounds(
    table: TableLike,
    public: Public,
    *,
    cells: str = "at-risk",
    small_count: int = 2,
    method: str = "auto",
    executor: Executor = IN_PROCESS,
) -> CellBounds:
    """Compute bounds of cells given what is public.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        What is public. An empty list means nothing.
    cells : {"at-risk", "all"}
        The at-risk cells, or all, zeros included.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    method : str, default "auto"
        Of `sdc.bounds`: "decomposable", "reducible", "shuttle", "collapse" or another; "auto" is a formula where one
        gives sharp bounds, else `sharp_bounds` with a budget of 10 seconds.
    executor : Executor
        Where the units of work run.

    Returns
    -------
    CellBounds
        One row a cell: `outer` contains the sharp interval, `inner` is reached by feasible tables.

    Raises
    ------
    InputError
        Without an at-risk cell, and for more than a million cells.
    ReleaseError
        Where the release or the method does not fit.

    Notes
    -----
    Bounds of a decomposable release are exact and closed; others cost at most the budget. `exact` says which are sharp.

    References
    ----------
    [DF] Dobra and Fienberg (2000): theorem 4. [DKS] Dobra, Karr, Sanil: section 4.

    Examples
    --------
    >>> sdc.cell_bounds("czech_auto_workers.csv", ["A*B*C*D", ["E", "F"]]).outer.tolist()
    [[0, 22], [0, 22], [0, 31]]
    """
    table = table_of(table)
    chosen = chosen_cells(table, cells, small_count)
    found = bounds_in_units(table, known_of(table, public), chosen, method, executor)
    return found.named_by(table.schema, small_count if cells == "at-risk" else None)


def super_cell_bounds(
    table: TableLike,
    public: Public,
    cells: SuperCells,
    *,
    small_count: int = 2,
    method: str = "auto",
    fractional: bool = False,
    executor: Executor = IN_PROCESS,
) -> SuperCellBounds:
    """Compute bounds of sums of cells given what is public.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        What is public. An empty list means nothing.
    cells : str, dict or list of these
        Each a sum: "age in (young, old), sex = f" or {"age": ["young", "old"], "sex": "f"}; or "at-risk" or "all" for
        single cells.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    method : str, default "auto"
        See `sdc.bounds.super_cells`.
    fractional : bool, default False
        Over tables of fractions, as `Fraction`s: what linear programs have of them.
    executor : Executor
        Where the units of work run.

    Returns
    -------
    SuperCellBounds
        One row a sum, with `outer` and `inner`.

    Raises
    ------
    InputError
        For what is not a sum of cells of the table.
    ReleaseError
        Where the release or the method does not fit.

    Notes
    -----
    It costs an integer program for each end, a linear one where fractions are asked for.

    References
    ----------
    [DKS] Dobra, Karr, Sanil: table 1.

    Examples
    --------
    >>> sdc.super_cell_bounds("czech_auto_workers.csv", ["A*B", "B*C"], "A=no, B=no").outer.tolist()
    [[522, 522]]
    """
    if fractional and method != "auto":
        raise InputError(f"method = {method!r} with fractional; they are by a linear program, leave the method out")
    table, by = table_of(table), FRACTIONAL if fractional else method
    found = super_cells(table, known_of(table, public), cells, small_count, by, executor)
    return found.named_by(table.schema, small_count if cells == "at-risk" else None)


def sharp_bounds(
    table: TableLike,
    public: Public,
    *,
    cells: str = "at-risk",
    small_count: int = 2,
    seconds: float = SHARP_SECONDS,
    executor: Executor = IN_PROCESS,
) -> SharpBounds:
    """Compute bounds of cells that are sharp as far as a budget reaches.

    Parameters
    ----------
    table, public, cells, small_count, executor
        As for `cell_bounds`.
    seconds : float
        Of a reference core, counted in steps: the result is the same on every machine.

    Returns
    -------
    SharpBounds
        One row a cell, with the method that gave each end.

    Raises
    ------
    InputError
        As `cell_bounds`, and for a budget that is not above 0.

    Notes
    -----
    Outer and inner ends are brought together, cell by cell. Where they meet, the bounds are sharp.

    References
    ----------
    [DKS] Dobra, Karr, Sanil: section 4.5.

    Examples
    --------
    >>> sdc.sharp_bounds("czech_auto_workers.csv", ["A*B*C*D", "E*F"]).bounds.exact.tolist()
    [True, True, True]
    """
    from sdc.risk.sharp import sharp_bounds as sharpest

    require_budget(seconds)
    table = table_of(table)
    chosen, known = chosen_cells(table, cells, small_count), known_of(table, public)
    found = sharpest(table, known, chosen, seconds=seconds, executor=executor)
    named = replace(found, bounds=found.bounds.named_by(table.schema))
    return named.named_by(table.schema, small_count if cells == "at-risk" else None)


def enumerate_tables(
    table: TableLike,
    public: Public,
    *,
    limit: int | None = None,
    max_steps: int | None = None,
    watch: Callable[[EnumerationProgress], bool] | None = None,
) -> Enumeration:
    """Count the feasible integer tables, and find the range of every cell.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        What is public. An empty list means nothing.
    limit : int, optional
        Stop after so many tables.
    max_steps : int, optional
        Stop after so many steps, of which some 50 million take a second.
    watch : function, optional
        Called with the progress; the count ends when it returns False.

    Returns
    -------
    Enumeration
        `feasible_tables`, `complete`, and the range of each cell over the tables seen.

    Raises
    ------
    ReleaseError
        Beyond 2,048 cells, or for a limit below 1.

    Notes
    -----
    Depth-first search; the number of tables may be exponential in the counts.

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> sdc.enumerate_tables("czech_auto_workers.csv", found).feasible_tables
    810
    """
    from sdc.bounds.enumeration import enumerate_tables as enumerate_feasible

    table, goes_on = table_of(table), watch or (lambda progress: True)
    return enumerate_feasible(table, known_of(table, public), limit, max_steps, goes_on).named_by(table.schema)


def fit(
    table: TableLike,
    public: Public,
    *,
    form: Form | None = None,
    support: Support = "possible",
    max_sweeps: int = 10_000,
) -> LogLinearFit:
    """Fit the log-linear model of the released sub-tables: the counts that readers would expect.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        Its sub-tables are the terms. Structural zeros are used; suppressed and rounded tables are not.
    form : {"sparse", "dense"}, optional
        Of IPF; by default the closed form where it holds, else "sparse".
    support : {"possible", "non-zero"}, default "possible"
        The cells that are fitted. "non-zero" is for the table's non-zero cells alone, which readers do not know.
    max_sweeps : int, default 10000
        Of IPF.

    Returns
    -------
    LogLinearFit
        Expected counts, deviance, Pearson's chi-square, degrees of freedom, and the parameters that can be estimated.

    Raises
    ------
    InputError
        Without records, where IPF does not converge, or where it needs more than 1 GiB.

    Notes
    -----
    A decomposable release costs one pass; others cost a sweep over all cells for each iteration.

    References
    ----------
    Bishop, Fienberg, Holland (1975): chapter 3.

    Examples
    --------
    >>> sdc.fit("czech_auto_workers.csv", ["A*C", "A*D"]).degrees_of_freedom
    58
    """
    from sdc.utility.loglinear import fit_model

    table = table_of(table)
    return fit_model(table, known_of(table, public), form=form, support=support, max_sweeps=max_sweeps)


def decomposable_models(table: TableLike, public: Public = (), *, most: int = 10) -> ModelSearch:
    """Search the decomposable log-linear models of lowest BIC.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release, default ()
        Whose readers fit the models: cliques are released sub-tables. Where nothing is public, any model.
    most : int, default 10
        The number of models.

    Returns
    -------
    ModelSearch
        One row a model; `.release(table.schema)` of the best goes into `fit`.

    Raises
    ------
    InputError
        Without records, with structural zeros, or where a variable is not released.

    Notes
    -----
    A search by single edges from several starts, exact for few variables.

    References
    ----------
    Lauritzen (1996), Graphical Models: chapter 4.

    Examples
    --------
    >>> table = sdc.read_table("czech_auto_workers.csv")
    >>> sdc.decomposable_models(table).best.graph.text(table.schema)
    '[A,C,E] [A,D,E] [B,C] [F]'
    """
    from sdc.utility.model_search import search_models

    table = table_of(table)
    known = known_of(table, public)
    if known.zeros:
        raise InputError(
            "structural zeros: a search for models needs closed forms, and no model has one with structural zeros; "
            "name the models to fit"
        )
    return search_models(table, None if known.release == NOTHING else known.release, most=most)


def posterior(
    table: TableLike,
    public: Public,
    *,
    law: str = "released",
    alpha: float = 0.5,
    priors: Mapping[str, float] | None = None,
    cells: str = "at-risk",
    small_count: int = 2,
    executor: Executor = IN_PROCESS,
    **settings: Any,
) -> Posterior:
    """Compute what the released tables make probable of cells.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        What is public.
    law : str, default "released"
        "released", any log-linear model whose generators are released; "uniform"; "saturated"; a model "[a,b][b,c]"; or
        "average", of those in `priors`, or "average-over-draws", which weighs them as [DFT] prints.
    alpha : float, default 0.5
        Of the conjugate priors, for each cell of the full table.
    priors : dict, optional
        Prior probabilities of the laws of an average.
    cells : {"at-risk", "all"}
        The at-risk cells, or all.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    executor : Executor
        Where the units of work run.
    **settings
        `draws` (1000) of each of `chains` (4) with seeds from `seed` (0), at most `most` (64000), until no probability
        has a larger standard error than `error` (0.005, None for no limit); `share` (1.0): of a released group that a
        cell must hold to disclose its categories, above 0.5.

    Returns
    -------
    Posterior
        One row a cell, with the probability of each count.

    Raises
    ------
    InputError
        Without an at-risk cell, for an unknown law, priors that are none, or another share.
    ReleaseError
        Where no engine gives the law.

    Notes
    -----
    An exact engine is used where one gives the law; else chains over the feasible tables, with their standard error.

    References
    ----------
    [DFT] Dobra, Fienberg, Trottini: section 5.

    Examples
    --------
    >>> likely = sdc.posterior("czech_auto_workers.csv", ["A*B*C*D", "E*F"])
    >>> likely.exact
    True
    """
    from sdc.intruder import posterior as intruder
    from sdc.intruder.average import average
    from sdc.intruder.chains import Sampling
    from sdc.intruder.laws import law_of
    from sdc.intruder.measures import groups

    averages = intruder.AVERAGE, intruder.OVER_DRAWS
    if law not in averages and priors:
        raise InputError(
            f"priors are of the laws of an {intruder.AVERAGE}, and the law is {law}; choose {intruder.AVERAGE}"
        )
    require_names(settings, ("share", *(field.name for field in fields(Sampling))), "a posterior")
    table, share = table_of(table), settings.pop("share", 1.0)
    known, chosen = known_of(table, public), chosen_cells(table, cells, small_count)
    held, drawn = groups(CellMarginals(table, chosen), known, share), Sampling(**settings)
    if law in averages:
        is_over_draws = law == intruder.OVER_DRAWS
        found = average(table, known, priors or {}, chosen, alpha, drawn, executor, over_draws=is_over_draws)
    else:
        found = intruder.posterior(table, known, law_of(law, table.schema, alpha), chosen, drawn, executor)
    return replace(found, groups=held).named_by(table.schema, small_count if cells == "at-risk" else None)


def uniques(
    table: TableLike,
    public: Public = (),
    *,
    fraction: float | None = None,
    model: str | None = None,
    record_weights: RecordWeights | None = None,
) -> Uniques:
    """Estimate which sample uniques are unique in the population, cell by cell.

    Parameters
    ----------
    table : Table, data frame or path
        The sample, or its records.
    public : list, Release, Knowledge or found release, default ()
        Whose readers fit the model "released".
    fraction : float, optional
        The share of the population that is in the sample, above 0 and at most 1.
    model : str, optional
        "best", the decomposable log-linear model of lowest BIC and the default; "released"; or "[a,b][b,c]".
    record_weights : RecordWeights, optional
        What `read_weights` gives, instead of a fraction; of a build `built.weights`.

    Returns
    -------
    Uniques
        One row a cell with one record, with the probability.

    Raises
    ------
    InputError
        Where neither a fraction nor weights are given, for other values of these, and where no cell has one record.

    Notes
    -----
    Counts are Poisson with the fitted expectations; it costs one fit.

    References
    ----------
    Skinner and Holmes (1998); Skinner and Elliot (2002); Skinner and Shlomo (2008).

    Examples
    --------
    >>> len(sdc.uniques("czech_auto_workers.csv", fraction=0.1))
    1
    """
    from sdc.utility.uniques import uniques_by

    table = table_of(table)
    if record_weights is not None:
        record_weights.check(table)
    return uniques_by(table, known_of(table, public), fraction, model, record_weights)
