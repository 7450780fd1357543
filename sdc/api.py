"""The verbs for notebooks and for the command line: names in, values out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress as suppress_errors
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from sdc.bounds.in_units import bounds_in_units
from sdc.bounds.super_cells import FRACTIONAL
from sdc.config.analysis import WidthsConfig
from sdc.config.capabilities import CAPABILITIES, require_together, require_used
from sdc.config.features import (
    AT_LEAST,
    BEFORE,
    FORBID,
    IN_PARTS,
    METHODS,
    MINUTES,
    OBJECTIVE,
    ONLY,
    REQUIRE,
    ZEROS,
)
from sdc.config.given import with_given
from sdc.config.release import PatternLike, ReleaseConfig
from sdc.config.values import Objective
from sdc.deadline import Deadline
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.witnesses import Witnesses
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, NotReleasableError
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING
from sdc.model.sharpness import SHARP_SECONDS
from sdc.model.subtable import SubTable
from sdc.model.super_cell import SuperCellBounds, SuperCells
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.risk.asked import criteria_of, split
from sdc.risk.assessment import Assessment
from sdc.risk.attribute_disclosure import AttributeDisclosure
from sdc.risk.criteria import Criteria, CriteriaKeywords
from sdc.risk.effort import Budget, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Policy
from sdc.search.best import FoundRelease, require_method
from sdc.search.constraints import Constraints, named
from sdc.search.curve import Curve, CurvePoint, CurveSearch
from sdc.search.decomposable import DecomposableRelease
from sdc.search.ordered import OrderedRelease
from sdc.search.why import Reason
from sdc.search.why import why as reason_of
from sdc.stages.answers import chosen_cells, super_cells
from sdc.stages.assemble import (
    NOBODY,
    Listing,
    SearchSettings,
    Watch,
    edition_before,
    no_widths,
    release_search,
    require_utility,
)
from sdc.stages.resolved import Public, known_of

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration, EnumerationProgress
    from sdc.intruder.posterior import Posterior
    from sdc.protect.magnitude import MagnitudeTable
    from sdc.protect.one_table import Suppressed
    from sdc.protect.recoding import Redesigns
    from sdc.protect.rounding import Rounded
    from sdc.public.check import Checked
    from sdc.risk.sharp import SharpBounds
    from sdc.utility.ipf import Form
    from sdc.utility.loglinear import LogLinearFit
    from sdc.utility.model_search import ModelSearch
    from sdc.utility.uniques import Uniques

AskedSubTable: TypeAlias = str | Sequence[str] | SubTable
"""A sub-table written `age*sex`, or as the list of its variables."""
BY_DEFAULT, BY_WIDTH = ReleaseConfig(), WidthsConfig()


def cell_bounds(
    table: Table,
    public: Public,
    *,
    cells: str = "at-risk",
    small_count: int = 2,
    method: str = "auto",
    executor: Executor = IN_PROCESS,
) -> CellBounds:
    """Bounds given a release, of the at-risk cells, or with cells="all" of all cells, zeros included.

    InputError without an at-risk cell, or for more than a million cells; ReleaseError where the
    release or the method does not fit.
    """
    chosen = chosen_cells(table, cells, small_count)
    known = known_of(table, public)
    return bounds_in_units(table, known, chosen, method, executor).named_by(table.schema)


def super_cell_bounds(
    table: Table,
    public: Public,
    cells: SuperCells,
    *,
    small_count: int = 2,
    method: str = "auto",
    fractional: bool = False,
    executor: Executor = IN_PROCESS,
) -> SuperCellBounds:
    """Bounds of sums of cells given a release, each the cells with one of some categories of each variable.

    cells       each as "age in (young, old), sex = f" or {"age": ["young", "old"], "sex": "f"}, or the "at-risk" or
                "all" cells each by itself
    method      see `sdc.bounds.super_cells`
    fractional  over tables of fractions: what linear programs have of them ([DKS] table 1), as `Fraction`s

    InputError for what is no super-cell of the table; ReleaseError where the release or the method does not fit.
    """
    if fractional and method != "auto":
        raise InputError(f"method = {method!r} with fractional; they are by a linear program, leave the method out")
    by = FRACTIONAL if fractional else method
    return super_cells(table, known_of(table, public), cells, small_count, by, executor).named_by(table.schema)


def sharp_bounds(
    table: Table,
    public: Public,
    *,
    cells: str = "at-risk",
    small_count: int = 2,
    seconds: float = SHARP_SECONDS,
    executor: Executor = IN_PROCESS,
) -> SharpBounds:
    """Bounds given a release, of cells as of `cell_bounds`, sharp as far as a budget reaches ([DKS] 4.5).

    Outer and inner ends are brought together, cell by cell; where they meet the bounds are sharp, and of each end it is
    told which method gave it.

    seconds  of a reference core, counted in steps: the same result on every machine, with any number of workers

    Errors as of `cell_bounds`; InputError for a budget that is not above 0.
    """
    from sdc.risk.sharp import sharp_bounds as sharpest

    chosen, known = chosen_cells(table, cells, small_count), known_of(table, public)
    found = sharpest(table, known, chosen, seconds=seconds, executor=executor)
    return replace(found, bounds=found.bounds.named_by(table.schema)).named_by(table.schema)


def assess(
    table: Table,
    public: Public,
    criteria: Criteria | None = None,
    *,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    **keywords: Unpack[CriteriaKeywords],
) -> Assessment:
    """Is the release safe: does it satisfy all that `sdc.criteria` asks, here or by its keywords?

    ReleaseError where the release names what the table does not have, or where no exact engine gives the law of a limit
    on the posterior; InputError as of `criteria`.
    """
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    evaluator = RiskEvaluator(table, known_of(table, public), criteria_of(criteria, keywords), effort=effort)
    return evaluator.evaluate(NOTHING).assessment.named_by(table.schema)


def why(
    table: Table,
    public: Public,
    sub_table: AskedSubTable,
    criteria: Criteria | None = None,
    *,
    forbid: Sequence[PatternLike] = (),
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    **keywords: Unpack[CriteriaKeywords],
) -> Reason:
    """Why a sub-table `age*race` is in the release or not, and with which released ones it breaks the criteria.

    Errors as for `assess`; InputError for a sub-table that the table does not have.
    """
    given = {"forbid": forbid, "refute_cells": refute_cells, "budget": budget}
    settings = _settings(table, criteria_of(criteria, keywords), executor, given)
    asked = st.subtable_of(sub_table, table.schema)
    evaluator = settings.evaluator(table, known_of(table, public))
    width = settings.widths(table).by_sub_table().get(asked)
    forbidden = not Constraints(forbid=named("forbid", settings.release.forbid, table.schema)).allows(asked)
    reason = reason_of(evaluator, asked, width)
    return replace(reason, forbidden=forbidden and not reason.released).named_by(table.schema)


def redesign(
    table: Table,
    public: Public,
    sub_table: AskedSubTable,
    criteria: Criteria | None = None,
    *,
    release: ReleaseConfig = BY_DEFAULT,
    merging: bool = True,
    executor: Executor = IN_PROCESS,
    **keywords: Unpack[CriteriaKeywords],
) -> Redesigns:
    """What may go out with what is public instead of a sub-table `age*race`, what keeps most cells first.

    At coarser levels of the table's schema, see `read_table`, or without a variable; and with merged categories of one
    variable, as `by: recoding` in a config does it. Each says what to paste into the config. Empty where nothing may.

    release  how a release is searched there, as the section of the config
    merging  whether merged categories are looked for

    Errors as for `assess`; ConfigError for a limit on the posterior.
    """
    from sdc.stages.again import redesigns

    known, asked = known_of(table, public), criteria_of(criteria, keywords)
    require_together("redesign", *asked.settings)
    settings = _settings(table, asked, executor, {}, release)
    before, refused = replace(known, release=NOTHING), st.subtable_of(sub_table, table.schema)
    return redesigns(table, before, settings, known.release, refused, merging=merging)


def ordered_release(
    table: Table,
    public: Public,
    criteria: Criteria | None = None,
    *,
    accept_undecided: bool = False,
    refute_cells: int = 16,
    budget: Budget | None = None,
    objective: Objective = "sub_tables",
    executor: Executor = IN_PROCESS,
    watch: Watch | None = None,
    **keywords: Unpack[CriteriaKeywords],
) -> OrderedRelease:
    """All sub-tables where they may go out; else what can be added, first all pairs, then by critical width.

    With the objective "reconstruction" by critical width times what a sub-table alone brings that nearer, see
    `sdc.utility.halvings`. Critical widths below `min_width` are not listed where there are more than 20 variables.
    Errors as for `find_release`.
    """
    given: dict[str, Any] = {"accept_undecided": accept_undecided, "refute_cells": refute_cells, "budget": budget}
    given["objective"] = objective
    known, settings = _search(table, public, "ordered", criteria_of(criteria, keywords), given, executor)
    return release_search(table, known, settings, settings.widths(table), _heard(watch)).ordered.run()


def bisection_release(table: Table, public: Public, criteria: Criteria | None = None, **settings: Any) -> FoundRelease:
    """The longest prefix of the list ordered by critical width that may go out, by bisection ([KDSF] 5.2).

    Settings as for `find_release`. NothingReleasableError where not even the first of the list may go out.
    """
    return find_release(table, public, "bisection", criteria, **settings)


def decomposable_release(
    table: Table,
    public: Public,
    criteria: Criteria | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    objective: Objective = "sub_tables",
    executor: Executor = IN_PROCESS,
    watch: Watch = NOBODY,
    **annealing: Any,
) -> DecomposableRelease:
    """The best decomposable release that annealing chains find ([KDSF] 5.1), with its graph and the chains' trace.

    weights    what counts more than 1: a variable "age", whose sub-tables all count more, or a sub-table "age*sex"
    objective  "reconstruction": not the number of sub-tables, but by how many halvings IPF comes nearer to the table
    annealing  keywords of `criteria`; and how, by the keys of `release.annealing` in a config: `chains` of so many
               `steps`, whose seeds come from `seed`, from the graph `start` such as "[age,sex] [sex,race]"

    InputError for settings that make no search, ReleaseError where not even the one-way sub-tables reach the width, or
    where the start does not, or does not keep the limit on the posterior.
    """
    asked, chains = split(criteria, annealing)
    given = {"annealing": chains, "weights": weights, "objective": objective}
    known, settings = _search(table, public, "decomposable", asked, given, executor)
    return release_search(table, known, settings, no_widths(), watch).decomposable.run()


def best_release(table: Table, public: Public, criteria: Criteria | None = None, **settings: Any) -> FoundRelease:
    """The best of bisection, greedy search and annealing (extended greedily), all candidates, and the reason.

    Settings as for `find_release`.
    """
    return find_release(table, public, "best", criteria, **settings)


def simulatable_release(
    table: Table, public: Public, criteria: Criteria | None = None, **settings: Any
) -> FoundRelease:
    """A decomposable release that tells nothing by what it leaves out, with each decision and what that costs.

    Settings as for `find_release`. ReleaseError where the true table breaks the criterion in the end, ConfigError for
    structural zeros, InputError for more than 16 variables.
    """
    return find_release(table, public, "simulatable", criteria, **settings)


def find_release(
    table: Table,
    public: Public,
    method: str,
    criteria: Criteria | None = None,
    *,
    release: ReleaseConfig = BY_DEFAULT,
    executor: Executor = IN_PROCESS,
    watch: Watch | None = None,
    deadline: Deadline | None = None,
    **settings: Any,
) -> FoundRelease:
    """The release that a method finds, one of `METHODS`; errors as for its own verb.

    release   how it is searched, as the section of a config; its method is not asked for
    deadline  when the search is to end with what is proven; by default as the section says
    settings  keywords of `criteria`; and on top of the section, by its keys: `refute_cells`,
              `annealing={"rounds": 30}`, and these:

    seed, chains, steps, start  of annealing; the seed is that of "simulatable" too
    draws, share     of "simulatable": tables drawn for each decision, and how many of them may break the criterion
    objective        "sub_tables", or "reconstruction": a release is worth by how many halvings the mean squared error
                     of a reconstruction of the table by IPF is below that of the total alone
    weights, demand  by sub-table: what it counts instead of 1, and how often it is asked for, which is added to it
    require, forbid  sub-tables that the release must have, and must not have: `age*race`, `all:2` for every pair,
                     `age*sex*race:2` for every pair of these
    required_only    True: nothing but the required sub-tables is released
    on_conflict      "drop": where the required ones do not fit together, those that are worth most are released;
                     "refuse", the default: NothingReleasableError names the conflicts
    minutes          the search ends after so many minutes with what is proven then: how far it went is the release's
                     `ended_after`. "ordered" and "best" ask again what had no proof, for as long as all before took;
                     with minutes until these or the budget are over
    first_dimension, max_evaluations  sub-tables of up to so many variables come first; and how many releases are
                     evaluated at most
    at_least         what the release must be worth, by measures: {"sub_tables": 40}; else NotReleasableError
    budget, accept_undecided  what proofs may cost; and whether what nothing could decide may go out

    ConfigError for an unknown method, or one that does not work with what is given beside it or has no use for it;
    InputError for other settings, and for values that are not allowed.
    """
    require_method(method)
    asked, given = split(criteria, settings)
    require_used(method, (name for name, value in given.items() if value is not None))
    known, searched = _search(table, public, method, asked, given, executor, release)
    widths = no_widths() if method == "decomposable" else searched.widths(table)
    ends = deadline or Deadline.of(searched.release)
    found = release_search(table, known, searched, widths, _heard(watch), ends).run(method)
    require_utility(table, known, found.release, searched)
    return found


def risk_utility_curve(
    table: Table,
    public: Public,
    *,
    min_widths: Sequence[int],
    small_counts: Sequence[int] = (2,),
    methods: Sequence[str] = ("ordered", "decomposable"),
    min_frequency: int | None = None,
    attribute_disclosure: AttributeDisclosure | None = None,
    executor: Executor = IN_PROCESS,
    on_point: Callable[[CurvePoint], None] = lambda point: None,
    **settings: Any,
) -> Curve:
    """The utility of what each method can release at each small count and minimum width, by the same rules.

    Settings as of `find_release`, rules as of `criteria`; `at_least` is asked of no point.

    ConfigError for an unknown method, InputError for a width or small count below 1 and where none is given.
    """
    for name, values in (("min_widths", min_widths), ("small_counts", small_counts)):
        if not values or min(values) < 1:
            raise InputError(f"{name} = {list(values)}; give at least one, each at least 1")
    first = Criteria.of(
        small_counts[0], min(min_widths), min_frequency=min_frequency, attribute_disclosure=attribute_disclosure
    )
    searched, known = _settings(table, first, executor, settings), known_of(table, public)
    for method in (name for name in METHODS if name in methods):
        require_together("curve", method, *_given(known, searched))
    search = release_search(table, known, searched, searched.widths(table))
    return CurveSearch(search, tuple(min_widths), tuple(small_counts), tuple(methods), on_point).run()


def _heard(watch: Watch | None) -> Watch:
    """Where nobody else watches a search, what it has asked and what is left is told to the line of a notebook."""
    from sdc.stages.search import QuestionLines

    return watch or Watch(QuestionLines())


def _before(known: Knowledge) -> tuple[str, ...]:
    """What was published before, as a capability."""
    return BEFORE[:1] if known.release.variables or known.published else ()


def _given(known: Knowledge, settings: SearchSettings) -> Iterator[str]:
    """What is known, asked and wished, as capabilities."""
    yield from _before(known)
    yield from settings.criteria.settings
    section = settings.release
    given = {
        ZEROS: known.zeros,
        OBJECTIVE: CAPABILITIES[OBJECTIVE].is_asked(section.objective),
        REQUIRE: section.require,
        FORBID: section.forbid,
        ONLY: section.required_only,
        MINUTES: section.minutes,
        AT_LEAST: section.at_least,
        **{name: CAPABILITIES[name].is_asked(section.protect) for name in IN_PARTS},
    }
    yield from (name for name, value in given.items() if value)


def _search(
    table: Table,
    public: Public,
    method: str,
    criteria: Criteria,
    given: Mapping[str, Any],
    executor: Executor,
    release: ReleaseConfig = BY_DEFAULT,
) -> tuple[Knowledge, SearchSettings]:
    """What is known and how a method searches beside it; ConfigError for what does not work with it."""
    settings, known = _settings(table, criteria, executor, given, release), known_of(table, public)
    require_together(method, *_given(known, settings))
    return known, settings


def _settings(
    table: Table, criteria: Criteria, executor: Executor, given: Mapping[str, Any], release: ReleaseConfig = BY_DEFAULT
) -> SearchSettings:
    """What a search depends on, as `find_release` takes it, with the list that the table wants."""
    policy = Policy.OUTER if given.get("accept_undecided") else Policy.REFUSE
    section = with_given(release, {name: value for name, value in given.items() if name != "accept_undecided"})
    for warning in section.warnings:
        warnings.warn(warning, FutureWarning, stacklevel=4)
    if section.coarsens:
        raise ConfigError(
            "protect with by: recoding needs levels, which a build gives its table; use sdc run, or another way"
        )
    listing, before = Listing.of(BY_WIDTH, len(table.schema), criteria.floor), edition_before(section.previous_pattern)
    return SearchSettings(criteria, policy, listing, section, executor, like=before)


def controlled_rounding(table: Table, *, base: int) -> Rounded:
    """The table in multiples of a base, its margins rounded too; see `sdc.protect.rounding`.

    It is judged beside nothing and enters no ledger; what was `moved` is confidential. InputError for a base below 2 or
    too many cells or below a level of a hierarchy, ReleaseError where no such table is found.
    """
    from sdc.protect import rounding

    rounding.require_no_levels(st.full(len(table.schema)), table.schema)
    return rounding.controlled_rounding(table.dense, base).named_by(table.schema)


def suppress(
    table: Table,
    public: Public,
    sub_table: AskedSubTable,
    criteria: Criteria | None = None,
    *,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    whole: Public | None = None,
    witnesses: Witnesses | None = None,
    whole_table: bool = False,
    **keywords: Unpack[CriteriaKeywords],
) -> Suppressed:
    """Which cells of a sub-table to suppress, its margins public where they may be; see `sdc.protect.one_table`.

    whole        what of it is public whole, where something is suppressed: small cells that it tells nothing can help
    witnesses    feasible tables with which the search begins
    whole_table  whether every at-risk cell of the whole table is judged, as `assess` does, and not the small counts of
                 the sub-table alone

    It is judged for whoever has these, the cells that stay and the structural zeros, and enters no ledger. The whole
    table is judged too where sub-tables or facts are public, a limit is given, or the sub-table has more than 4,096
    cells; `judged_whole` of the result says so. InputError for what is released already, ReleaseError for an unknown
    variable or a table that is too large for walks, ConfigError for rules on what is published, NotReleasableError
    where suppression does not do.
    """
    from sdc.protect import one_table

    asked = criteria_of(criteria, keywords)
    require_together("suppress", *asked.settings)
    subtable, known = st.subtable_of(sub_table, table.schema), known_of(table, public)
    schema = table.schema.restrict(st.members(subtable))
    # the margins of one axis are the total alone, and then its labels say more
    whole_table |= asked.get(PosteriorLimit) is not None or len(schema.axes) < 2
    beside = whole_table or known.release != NOTHING or bool(known.facts)
    if not beside and st.cells(subtable, table.schema) <= one_table.MOST_CELLS:
        counts = table.marginal(subtable).dense
        zeros = known.zeros.excluded(subtable, table.schema)
        with suppress_errors(NotReleasableError):  # its margins are suppressed too then
            return one_table.suppress(counts, asked.small_count, asked.floor, zeros=zeros).named_by(schema)
    effort = Effort(budget or Budget(), executor=executor)
    before = None if whole is None else known_of(table, whole)
    return one_table.suppress_beside(table, known, subtable, asked, effort, before, witnesses).named_by(schema)


def magnitude_table(
    source: Any,
    value: str,
    variables: Sequence[str],
    *,
    contributors: int | None = None,
    dominance: tuple[int, Any] | None = None,
    percent: Any = None,
    also: Sequence[str | Sequence[str]] = (),
    contributor: str | None = None,
    unique: bool = False,
    hierarchies: Mapping[str, str | Sequence[str]] | None = None,
    negative: str = "refuse",
    alike: Any = "refuse",
    decimals: int | None = None,
    csv: Mapping[str, Any] | None = None,
    ignore: Sequence[str] = (),
) -> tuple[MagnitudeTable, ...]:
    """Sums of a column by variables, where every cell passes the rules; see `sdc.protect.magnitude` and `dominance`.

    source         records: what `read_table` takes, a file, folder, URL or data frame
    contributors, dominance, percent  the rules, at least one: 3, (1, 70), 10
    also           further groupings of the same records, judged together with the first
    contributor    the column that says whose a record is; without it each record is another contributor's
    unique         refuse a contributor that has several records
    hierarchies    of a variable its coarser columns, the finest first
    negative       refuse values below 0, or split them by sign
    alike          refuse, merge or keep names that differ by blanks, case, Unicode or decimal form alone
    decimals       to which values are rounded, half to even; default 6 for floats, and none are rounded of others
    csv, ignore    how text files are written, and patterns of names that are no parts, as for `read_table`

    The cells that failed are `failing` of each table, with figures, and `detail` of the error; both are confidential.
    The tables are judged beside nothing else, and enter no ledger: a difference to what was published of the same
    records by other groupings may fail the rules. InputError for what is missing, no number or below 0,
    NotReleasableError where no aggregation passes.
    """
    from sdc.data.columns import read_columns
    from sdc.data.reading import FRAME, settings_of
    from sdc.protect import magnitude
    from sdc.protect.dominance import Rules

    rules, text = Rules.of(contributors, dominance, percent), settings_of(FRAME, {"csv": csv or {}}).csv
    sums = magnitude.Sums.of(value, variables, also, hierarchies, contributor)
    records = read_columns(source, value, sums.columns, text, ignore)
    return magnitude.magnitude_table(
        records, sums, rules, unique=unique, negative=negative, alike=alike, decimals=decimals, decimal=text.decimal
    )


def check(
    *folders: str | Path,
    relations: str | Path | Sequence[Mapping[str, Any]] | None = None,
    cells: str = "at-risk",
    min_width: int | None = None,
    small_count: int = 2,
    min_frequency: int | None = None,
    executor: Executor = IN_PROCESS,
) -> Checked:
    """What published folders or files of tables tell together, with no confidential table, as `sdc check` says it.

    relations  how they relate: sections as `earlier` of a config has them, or a YAML file with a list of such
    cells      "at-risk": those that may have 1 up to `small_count` records; or "all" that may have any
    min_width  in records, that the cells which may be small are to keep; min_frequency  the smallest count but for 0

    What is broken is in the result. InputError where a table cannot be read, or cannot be expressed beside the others,
    ConfigError for relations that are none.
    """
    from sdc.public.check import Checked, few_counts
    from sdc.public.check import check as check_published
    from sdc.public.relation import relations_given

    if cells not in ("at-risk", "all"):
        raise InputError(f"cells = {cells!r}; choose at-risk or all")
    if not folders:
        raise InputError("no folder is named; name published folders, or files of tables of counts")
    known, asked = relations_given(relations), small_count if cells == "at-risk" else None
    found = check_published(folders, known, small_count=asked, executor=executor)
    few = () if min_frequency is None else few_counts(folders, min_frequency, known)
    return Checked.of(found, small_count, min_width, few)


def enumerate_tables(
    table: Table,
    public: Public,
    *,
    limit: int | None = None,
    max_steps: int | None = None,
    watch: Callable[[EnumerationProgress], bool] = lambda progress: True,
) -> Enumeration:
    """All feasible integer tables counted, or the first `limit` of them, with the range of every cell.

    Ends after `max_steps` steps, of which some 50 million take a second; `complete` says whether all tables were seen.
    ReleaseError beyond 2,048 cells, or for fewer than 1 of either.
    """
    from sdc.bounds.enumeration import enumerate_tables as enumerate_feasible

    return enumerate_feasible(table, known_of(table, public), limit, max_steps, watch).named_by(table.schema)


def fit(table: Table, public: Public, *, form: Form | None = None, max_sweeps: int = 10_000) -> LogLinearFit:
    """The log-linear model whose terms are the released sub-tables, fitted: what its readers would expect of each cell.

    With deviance, Pearson's chi-square, degrees of freedom and, term by term, how many parameters can be estimated,
    see `sdc.utility.loglinear`. Structural zeros are known; what is public otherwise than whole is not fitted.

    form  of IPF, "sparse" or "dense"; by default the closed form where it holds, else "sparse"

    InputError without records, where IPF does not converge, or where it needs more than 1 GiB; ReleaseError as of
    `assess`.
    """
    from sdc.utility.loglinear import fit_model

    return fit_model(table, known_of(table, public), form=form, max_sweeps=max_sweeps)


def decomposable_models(table: Table, public: Public = NOTHING, *, most: int = 10) -> ModelSearch:
    """The decomposable log-linear models of lowest BIC, so many of them, see `sdc.utility.model_search`.

    public  whose readers fit them, so that their cliques are released sub-tables; where nothing is public any model

    `fit(table, found.release(table.schema))` fits the best, and their names are laws of `posterior`, of an average too.
    InputError without records, with structural zeros, or where a variable is not released.
    """
    from sdc.utility.model_search import search_models

    known = known_of(table, public)
    if known.zeros:
        raise InputError(
            "models are searched by their closed form, which none has beside structural zeros; fit those that you name"
        )
    return search_models(table, None if known.release == NOTHING else known.release, most=most)


def posterior(
    table: Table,
    public: Public,
    *,
    law: str = "released",
    alpha: float = 0.5,
    priors: Mapping[str, float] | None = None,
    cells: str = "at-risk",
    small_count: int = 2,
    share: float = 1.0,
    executor: Executor = IN_PROCESS,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    error: float | None = 0.005,
    most: int = 64_000,
) -> Posterior:
    """What the released marginals make probable of the at-risk cells, or with cells="all" of all cells.

    law       `released`, any log-linear model whose generators are released; `uniform`; `saturated`; a model
              `[a,b][b,c]`; or `average`, of those in `priors` with their prior probabilities
    alpha     of the conjugate priors, for each cell of the full table
    draws     of each of so many `chains` where no exact engine gives the law, with seeds that come from `seed`; more of
              them, `most` at most, until no probability has a larger standard error than `error`, unless that is None
    share     of a released group that a cell must hold to disclose the categories of whoever is in it, above 0.5, up
              to 1

    InputError without an at-risk cell, for an unknown law, priors that are none, another share; ReleaseError where no
    engine gives the law.
    """
    from sdc.intruder import posterior as intruder
    from sdc.intruder.average import average
    from sdc.intruder.chains import Sampling
    from sdc.intruder.laws import law_of
    from sdc.intruder.measures import groups

    if law != intruder.AVERAGE and priors:
        raise InputError(
            f"priors are of the laws of an {intruder.AVERAGE}, and the law is {law}; choose {intruder.AVERAGE}"
        )
    known, asked = known_of(table, public), chosen_cells(table, cells, small_count)
    held, drawn = groups(CellMarginals(table, asked), known, share), Sampling(draws, chains, seed, error, most)
    if law == intruder.AVERAGE:
        found = average(table, known, priors or {}, asked, alpha, drawn, executor)
    else:
        found = intruder.posterior(table, known, law_of(law, table.schema, alpha), asked, drawn, executor)
    return replace(found, groups=held).named_by(table.schema)


def uniques(
    table: Table,
    public: Public = NOTHING,
    *,
    fraction: float | None = None,
    model: str | None = None,
    record_weights: RecordWeights | None = None,
) -> Uniques:
    """Of a sample the probability that whoever is alone in a cell is alone in it in the population, cell by cell.

    See `sdc.utility.uniques`: Skinner and Holmes (1998), Skinner and Shlomo (2008), Skinner and Elliot (2002).

    fraction        the share of the population that is in the sample, above 0 and at most 1
    model           `best`, the decomposable log-linear model of lowest BIC and the default; `released`, that of what is
                    public; or any hierarchical one `[a,b][b,c]`
    record_weights  of the table's records, see `read_weights`, by which it is found where no fraction is given; of a
                    build those of its config, `built.weights`

    InputError where nothing is said of the population, for another fraction or model, a model of weights, weights of
    another table or below 1, where no cell has one record, and as `fit`.
    """
    from sdc.utility.uniques import uniques_by

    if record_weights is not None:
        record_weights.check(table)
    return uniques_by(table, known_of(table, public), fraction, model, record_weights)
