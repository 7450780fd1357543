"""Releases: found, assessed, explained, compared by risk and utility, and published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from sdc.api.settings import BY_DEFAULT, asked, of_search, search_settings
from sdc.config.analysis import DecisionConfig
from sdc.config.capabilities import require_together, require_used
from sdc.config.file import faults_of
from sdc.config.given import require_names
from sdc.config.methods import METHODS
from sdc.config.release import PatternLike
from sdc.data.reading import TableLike, table_of
from sdc.deadline import Deadline
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.release import NOTHING
from sdc.model.subtable import SubTable
from sdc.risk import critical_width
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria, CriteriaKeywords
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.effort import Budget, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.search.best import FoundRelease, require_method
from sdc.search.constraints import Constraints, named
from sdc.search.curve import Curve, CurveSearch
from sdc.search.found import Found
from sdc.search.why import Reason
from sdc.search.why import why as reason_of
from sdc.stages.assemble import Watch, no_widths, release_search, require_utility
from sdc.stages.release import PublishedFolder, publish_found
from sdc.stages.resolved import Public, known_of
from sdc.stages.search import QuestionLines

if TYPE_CHECKING:
    from sdc.intruder.decision import ReleaseChoice
    from sdc.search.recodings import Recodings

CRITERIA = {*CriteriaKeywords.__annotations__} - {"min_width", "small_count", "posterior_limit"}  # of a curve
SubTableLike: TypeAlias = str | Sequence[str] | SubTable
"""A sub-table written `age*sex`, or as the list of its variables."""


def critical_widths(
    table: TableLike, *, small_count: int = 2, threshold: int = 0, most: int = 0, executor: Executor = IN_PROCESS
) -> CriticalWidths:
    """Compute how dangerous each sub-table is: its critical width.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    threshold : int, default 0
        Records. Only sub-tables whose critical width reaches it are listed; 0 lists all.
    most : int, default 0
        At most so many sub-tables are listed, the widest; 0 for no limit.
    executor : Executor
        Where the units of work run.

    Returns
    -------
    CriticalWidths
        One row a sub-table; `.of("age*sex")` is the width of one.

    Raises
    ------
    InputError
        Where all sub-tables of more than 26 variables would have to be listed.

    Notes
    -----
    The critical width is the smallest width of an at-risk cell given the sub-table and all one-way sub-tables. It never
    increases when a variable is added, so with a threshold only the sub-tables that reach it and their border are
    visited. Without one the cost is 2^variables passes over the at-risk cells. Structural zeros are not used.

    References
    ----------
    [KDSF] Dobra, Karr, Sanil, Fienberg: section 5.2.

    Examples
    --------
    >>> widths = sdc.critical_widths("czech_auto_workers.csv")
    >>> widths.of("A*B*C*D*F")
    3
    """
    table = table_of(table)
    found = critical_width.critical_widths(
        table, small_count=small_count, floor=threshold, most=most, executor=executor
    )
    return found.named_by(table.schema, small_count)


def find_release(
    table: TableLike,
    method: str = "ordered",
    public: Public = (),
    *,
    min_width: int | None = None,
    small_count: int = 2,
    variables: Sequence[str] | None = None,
    require: Sequence[Any] = (),
    criteria: Criteria | None = None,
    executor: Executor = IN_PROCESS,
    **settings: Any,
) -> FoundRelease:
    """Find a release: the sub-tables that may be published exactly.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    method : {"ordered", "bisection", "decomposable", "best", "optimum", "simulatable"}
        The search. See the handbook page "Choosing a method".
    public : list, Release, Knowledge or found release, default ()
        What is public already. An empty list means nothing.
    min_width : int
        Records. The least width of the bounds of each at-risk cell. There is no default.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    variables : list of str, optional
        The variables of the table that are used; default all.
    require : list, optional
        Sub-tables that the release must have: `age*sex`, `["age", "sex"]`, or `all:2` for every pair.
    criteria : Criteria, optional
        What `sdc.criteria` gives, instead of `min_width` and `small_count`.
    executor : Executor
        Where the units of work run. The result does not depend on it.
    **settings
        The keys of `release` in a config, such as `forbid`, `weights`, `minutes` or `annealing`; `seed`, `chains`,
        `steps`, `start` of annealing; `draws` and `share` of "simulatable"; `budget`, `accept_undecided`, `watch`; and
        the other keywords of `sdc.criteria`.

    Returns
    -------
    FoundRelease
        The release with its proof; `found.tables` has the tables.

    Raises
    ------
    ConfigError
        For an unknown method, or settings that do not work with it or that it does not use.
    InputError
        For an unknown setting, a value that is not allowed, or a table without records.
    NotReleasableError
        Where required sub-tables do not fit together.

    Notes
    -----
    Every at-risk cell of the full table keeps the width given all that is public: a proof, not an estimate. The cost is
    that of the evaluations, at most 200 by default, 2000 with one dimension first. "best" runs three searches.

    References
    ----------
    [KDSF] Dobra, Karr, Sanil, Fienberg: equation 6, sections 5.1 and 5.2.

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6, require=[["A", "B"]])
    >>> found.sub_tables
    59
    >>> found["A", "C"].to_arrow().column("count").to_pylist()
    [540, 421, 387, 493]
    """
    table = table_of(table, variables)
    section, deadline = settings.pop("release", BY_DEFAULT), settings.pop("deadline", None)
    watch = settings.pop("watch", None) or Watch(QuestionLines())
    rules, given = asked(criteria, min_width, small_count, settings)
    if require:
        given["require"] = require
    require_method(method)
    require_used(method, (name for name, value in given.items() if value is not None))
    known = known_of(table, public)
    searched = search_settings(table, rules, executor, given, section)
    require_together(method, *of_search(known, searched))
    widths = no_widths() if method == "decomposable" else searched.widths(table)
    ends = deadline or Deadline.of(searched.release)
    found = release_search(table, known, searched, widths, watch, ends).run(method)
    require_utility(table, known, found.release, searched)
    return found


def assess(
    table: TableLike,
    public: Public,
    criteria: Criteria | None = None,
    *,
    min_width: int | None = None,
    small_count: int = 2,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    **rules: Any,
) -> Assessment:
    """Decide whether a release is safe.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        What is public, or would be.
    criteria : Criteria, optional
        What `sdc.criteria` gives, instead of `min_width` and `small_count`.
    min_width : int
        Records. The least width of the bounds of each at-risk cell. There is no default.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    refute_cells : int, default 16
        How many of the narrowest cells are tried to be refuted.
    budget : Budget, optional
        What proofs may cost.
    executor : Executor
        Where the units of work run.
    **rules
        The other keywords of `sdc.criteria`.

    Returns
    -------
    Assessment
        `releasable` is True, False, or None where nothing could decide.

    Raises
    ------
    ReleaseError
        For an unknown variable, or where no exact engine gives the law of a limit on the posterior.

    Notes
    -----
    Bounds come from outside and inside; a cell that neither decides is undecided. What decides is checked again in
    integers.

    References
    ----------
    [KDSF] Dobra, Karr, Sanil, Fienberg: equation 6.

    Examples
    --------
    >>> sdc.assess("czech_auto_workers.csv", ["A*B*C*D*F"], min_width=6).releasable
    False
    """
    table = table_of(table)
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    own, others = asked(criteria, min_width, small_count, rules)
    require_names(others, tuple(CriteriaKeywords.__annotations__), "criteria")
    evaluator = RiskEvaluator(table, known_of(table, public), own, effort=effort)
    return evaluator.evaluate(NOTHING).assessment.named_by(table.schema, own.small_count)


def why(
    table: TableLike,
    public: Public,
    sub_table: SubTableLike,
    criteria: Criteria | None = None,
    *,
    min_width: int | None = None,
    small_count: int = 2,
    forbid: Sequence[PatternLike] = (),
    executor: Executor = IN_PROCESS,
    **settings: Any,
) -> Reason:
    """Explain why a sub-table is in a release or not.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        The release.
    sub_table : str or list of str
        `age*sex`, or the list of its variables.
    criteria, min_width, small_count
        As for `assess`.
    forbid : list
        What was forbidden in the search.
    executor : Executor
        Where the units of work run.
    **settings
        `refute_cells`, `budget`, and the other keywords of `sdc.criteria`.

    Returns
    -------
    Reason
        What the criteria say of it alone, beside the one-way sub-tables, and beside all that is public.

    Raises
    ------
    ReleaseError
        For a variable that the table does not have.

    Notes
    -----
    It costs three evaluations and one critical width.

    Examples
    --------
    >>> sdc.why("czech_auto_workers.csv", ["A*B"], ["A", "B", "C", "D", "F"], min_width=6)
    A*B*C*D*F breaks the criterion alone; small_count=2
    """
    table = table_of(table)
    own, given = asked(criteria, min_width, small_count, settings)
    searched = search_settings(table, own, executor, {**given, "forbid": forbid})
    view = st.subtable_of(sub_table, table.schema)
    evaluator = searched.evaluator(table, known_of(table, public))
    width = searched.widths(table).by_sub_table().get(view)
    forbidden = not Constraints(forbid=named("forbid", searched.release.forbid, table.schema)).allows(view)
    reason = reason_of(evaluator, view, width)
    return replace(reason, forbidden=forbidden and not reason.released).named_by(table.schema, own.small_count)


def redesign(
    table: TableLike,
    public: Public,
    sub_table: SubTableLike,
    criteria: Criteria | None = None,
    *,
    merging: bool = True,
    executor: Executor = IN_PROCESS,
    **settings: Any,
) -> Recodings:
    """Find what may be published instead of a sub-table.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release
        What is public.
    sub_table : str or list of str
        The sub-table that may not be published.
    criteria : Criteria, optional
        What `sdc.criteria` gives, or its keywords among the settings: `min_width`, `small_count`.
    merging : bool, default True
        Whether merged categories of one variable are tried.
    executor : Executor
        Where the units of work run.
    **settings
        The keywords of `sdc.criteria`; and `release`, the section of a config.

    Returns
    -------
    Recodings
        Coarser levels, dropped variables or merged categories, with what to paste into a config; first what keeps most
        cells. Empty where nothing is releasable.

    Raises
    ------
    ConfigError
        For a limit on the posterior.

    Notes
    -----
    It costs one evaluation for each proposal, and a search for merged categories.

    Examples
    --------
    >>> len(sdc.redesign("czech_auto_workers.csv", ["A*B"], "A*B*C*D*F", min_width=6, merging=False)) > 0
    True
    """
    from sdc.stages.report import recodings

    table = table_of(table)
    section = settings.pop("release", BY_DEFAULT)
    own, others = asked(criteria, settings.pop("min_width", None), settings.pop("small_count", 2), settings)
    require_names(others, tuple(CriteriaKeywords.__annotations__), "criteria")
    require_together("redesign", *own.settings)
    known, searched = known_of(table, public), search_settings(table, own, executor, {}, section)
    before, refused = replace(known, release=NOTHING), st.subtable_of(sub_table, table.schema)
    return recodings(table, before, searched, known.release, refused, merging=merging)


def risk_utility_curve(
    table: TableLike,
    public: Public = (),
    *,
    min_widths: Sequence[int],
    small_counts: Sequence[int] = (2,),
    methods: Sequence[str] = ("ordered", "decomposable"),
    executor: Executor = IN_PROCESS,
    **settings: Any,
) -> Curve:
    """Compute what more risk would free: the utility of each method at each width and small count.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    public : list, Release, Knowledge or found release, default ()
        What is public already. An empty list means nothing.
    min_widths : list of int
        Records. The least widths to compare.
    small_counts : list of int, default (2,)
        The small counts to compare.
    methods : list of str, default ("ordered", "decomposable")
        The searches to compare.
    executor : Executor
        Where the units of work run.
    **settings
        As for `find_release`, but `at_least`; and `on_point`, which is called with each point.

    Returns
    -------
    Curve
        One row a point; `.plot(min_width=...)` draws it.

    Raises
    ------
    InputError
        For a width or small count below 1, and where none is given.
    ConfigError
        For an unknown method.

    Notes
    -----
    It costs one search for each point; critical widths are computed once for each small count.

    Examples
    --------
    >>> table = sdc.read_table("czech_auto_workers.csv")
    >>> curve = sdc.risk_utility_curve(table, min_widths=[6, 10], methods=["ordered"])
    >>> curve.to_arrow().column("sub_tables").to_pylist()
    [59, 56]
    """
    table = table_of(table)
    on_point = settings.pop("on_point", lambda point: None)
    rules = {name: settings.pop(name) for name in CRITERIA if name in settings}
    for name, values in (("min_widths", min_widths), ("small_counts", small_counts)):
        if not values or min(values) < 1:
            raise InputError(f"{name} = {list(values)}; give at least one, each at least 1")
    first = Criteria.of(small_counts[0], min(min_widths), **rules)
    searched, known = search_settings(table, first, executor, settings), known_of(table, public)
    for method in (name for name in METHODS if name in methods):
        require_together("curve", method, *of_search(known, searched))
    search = release_search(table, known, searched, searched.widths(table))
    return CurveSearch(search, tuple(min_widths), tuple(small_counts), tuple(methods), lambda p, _: on_point(p)).run()


def decide(
    table: TableLike,
    releases: Mapping[str, Public],
    *,
    intruders: Sequence[Mapping[str, Any]] = (),
    scientists: Sequence[Mapping[str, Any]] = (),
    within: float = 0.0,
    small_count: int = 2,
    executor: Executor = IN_PROCESS,
) -> ReleaseChoice:
    """Choose the release of least risk among those of most utility, for the users that an agency expects.

    Parameters
    ----------
    table : Table, data frame or path
        The confidential table, or its records.
    releases : dict
        What is public under each name: a list of sub-tables, a Release, Knowledge or found release. It is not
        assessed: give releases that may be published.
    intruders, scientists : list of dict
        The users, each with the settings of `curve.decision.intruders` and `curve.decision.scientists` of a config. By
        default one intruder who looks for an at-risk cell, and one scientist who estimates all cells.
    within : float, default 0
        Releases whose utility is at most this below the largest count as of most utility.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    executor : Executor
        Where the units of work run.

    Returns
    -------
    ReleaseChoice
        One row a release, with its risk and utility; `.chosen` is the row of the release to choose.

    Raises
    ------
    InputError
        For probabilities that do not add to 1, a target that is not a cell of the table, and an unknown setting or law.

    Notes
    -----
    It costs one posterior for each release, law and class of targets. A release whose posterior no engine gives is not
    chosen.

    References
    ----------
    [DFT] Dobra, Fienberg, Trottini: section 3, equations (1) and (2).

    Examples
    --------
    >>> releases = {"large": ["A*B*C", "C*D*E*F"], "small": ["A*B*C", "D*E*F"]}
    >>> sdc.decide("czech_auto_workers.csv", releases, intruders=[{"thresholds": {0.3: 0.5, 0.6: 0.5}}])
    large of 2 releases, risk 0.166667, utility -45.5156; small_count=2
    """
    from sdc.intruder.decision import ReleaseRating

    if not releases:
        raise InputError("releases is empty; give at least one release by a name, such as {'first': ['age*sex']}")
    table = table_of(table)
    users = {"intruders": list(intruders), "scientists": list(scientists), "within": within}
    try:
        decision = DecisionConfig.model_validate(users)
    except ValidationError as error:
        raise InputError(faults_of(error, DecisionConfig)) from error
    rating = ReleaseRating(table, decision, small_count, executor)
    for name, public in releases.items():
        rating.rate(name, known_of(table, public))
    return rating.choice.named_by(table.schema, small_count)


def publish(
    found: Found,
    folder: str | Path,
    formats: Sequence[str] = ("csv", "parquet"),
    *,
    title: str | None = None,
    labels: Mapping[str, Mapping[str, Any]] | None = None,
    table: TableLike | None = None,
    **about: Any,
) -> PublishedFolder:
    """Publish a release in a new folder, once the gate has cleared it.

    Parameters
    ----------
    found : FoundRelease
        What `find_release` gives, with its suppressed and rounded tables.
    folder : str or path
        A folder that does not exist yet. It appears whole or not at all.
    formats : list of str, default ("csv", "parquet")
        Of csv, parquet, csvw, json-stat, px, sdmx-csv, xml, xlsx, pxapi; csv or parquet is one of them.
    title : str, optional
        The title of what is published; default names the variables.
    labels : dict, optional
        For each variable label, note, unit and categories, as `labels.variables` in a config.
    table : Table, data frame or path, optional
        Refuse the release unless it was found for this table.
    **about
        The other keys of `publication` in a config, such as period, source, notes, zeros or totals.

    Returns
    -------
    PublishedFolder
        `folder`, `tables`, `formats` and `files`; it can be used wherever a path is.

    Raises
    ------
    ReleaseError
        Where the release is not proven safe, or is of another table.
    ConfigError
        Where the folder exists, or cannot be made.
    InputError
        For an unknown setting, and labels of what the table does not have.

    Notes
    -----
    The gate checks the proof again in integers, and every file is read back. The folder is in no ledger, and was judged
    beside nothing published before but what was given as `public`. Where more counts, build with `sdc.run`.

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> published = sdc.publish(found, "workers", formats=["csv"])
    >>> published.folder.name, len(published.tables)
    ('workers', 6)
    """
    more = dict(about.pop("about", None) or {})
    said = title or f"Tables by {', '.join(st.names(found.release.variables, found.names))}"
    texts = {"formats": tuple(formats), **more, **about, "title": said}
    return publish_found(found, folder, texts, labels, None if table is None else table_of(table))
