"""The verbs for notebooks and for the command line: names in, values out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sdc.bounds.in_units import bounds_in_units
from sdc.config.capabilities import BEFORE, FORBID, LIMIT, METHODS, REQUIRE, ZEROS, require_together, require_used
from sdc.executor import IN_PROCESS, Executor
from sdc.ingest.reading import read_table, zeros_of
from sdc.intruder.limit import PosteriorLimit
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.fact import NO_FACTS, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING, Release
from sdc.model.sharpness import SHARP_SECONDS
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.risk.criterion import Assessment, Budget, Effort
from sdc.risk.critical_width import critical_widths
from sdc.risk.inquiry import Inquiry
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Policy
from sdc.search.annealing import CoolingSchedule
from sdc.search.best import FoundRelease, require_method
from sdc.search.curve import CurvePoint, CurveSearch
from sdc.search.decomposable import Annealing, DecomposableRelease, SearchState
from sdc.search.found import Found
from sdc.search.ordered import OrderedRelease, SearchStep
from sdc.search.simulatable import SimulatedStep, Simulation
from sdc.search.why import Reason
from sdc.search.why import why as reason_of
from sdc.search.wishes import Pattern, Wishes
from sdc.stages.assemble import SearchSettings, floor_of, no_widths, release_search
from sdc.stages.bounded import chosen_cells
from sdc.utility.measures import Weights

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration, EnumerationProgress
    from sdc.intruder.posterior import Posterior
    from sdc.publish.formats import CountTable
    from sdc.publish.publication import Texts
    from sdc.risk.sharp import SharpBounds
    from sdc.search.redesign import Redesign
    from sdc.treat.dominance import Share
    from sdc.treat.magnitude import MagnitudeTable
    from sdc.treat.rounding import Rounded
    from sdc.treat.suppression import Suppressed

__all__ = [
    "PosteriorLimit",
    "assess",
    "best_release",
    "bisection_release",
    "cell_bounds",
    "controlled_rounding",
    "critical_widths",
    "decomposable_release",
    "enumerate_tables",
    "find_release",
    "knowledge",
    "magnitude_table",
    "ordered_release",
    "posterior",
    "publish_release",
    "read_table",
    "redesign",
    "release_of",
    "risk_utility_curve",
    "sharp_bounds",
    "simulatable_release",
    "suppress",
    "why",
]

Public: TypeAlias = Knowledge | Release | Sequence[str]
"""What is public of a table: what is known of it, or sub-tables, beside which nothing is known."""
IN_NO_LEDGER = "in no ledger; judged beside nothing published before but what was named"


def release_of(table: Table, sub_tables: Release | Sequence[str]) -> Release:
    """The downward closure of sub-tables written `age*sex`; ReleaseError for an unknown variable or no sub-table."""
    if isinstance(sub_tables, Release):
        return sub_tables
    if isinstance(sub_tables, str) or not sub_tables:
        raise ReleaseError(f"release {sub_tables!r} is not a list of sub-tables; give one such as ['age*sex', 'race']")
    return Release.of(st.parse(text, table.schema) for text in sub_tables)


def knowledge(
    table: Table,
    release: Release | Sequence[str] = NOTHING,
    *,
    structural_zeros: str | Path | StructuralZeros | None = None,
    facts: Iterable[Fact] = NO_FACTS,
) -> Knowledge:
    """What everybody knows of a table: sub-tables that are public, cells that are impossible, and other facts.

    structural_zeros  these, or a YAML file of patterns, see `sdc.ingest.structural_zeros`
    facts             counts of some cells, or numbers that they lie between, see `sdc.model.fact`

    In which group of a level each category is is a part of the table's schema, see `read_table`, and known too.
    ReleaseError as `release_of`, InputError where a record is in an impossible cell, or a fact is not so.
    """
    given = structural_zeros
    zeros = given if isinstance(given, StructuralZeros) else zeros_of(table, given)
    return Knowledge.of(table, release_of(table, release), zeros, facts)


def known_of(table: Table, public: Public) -> Knowledge:
    """What is known; ReleaseError where it is of another table, and as `release_of`, InputError as `knowledge`."""
    if not isinstance(public, Knowledge):
        return Knowledge.of(table, release_of(table, public), NO_ZEROS, NO_FACTS)
    public.check_is_of(table)
    public.zeros.check(table.schema, table.codes, table.counts)
    for fact in public.facts:
        fact.check_true(table)
    return public


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
    return sharpest(table, known, chosen, seconds=seconds, executor=executor)


def assess(
    table: Table,
    public: Public,
    *,
    min_width: int,
    small_count: int = 2,
    posterior_limit: PosteriorLimit | None = None,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
) -> Assessment:
    """Is the release safe: does every at-risk cell keep a width of at least `min_width` records ([KDSF] eq. 6)?

    With a limit on the posterior that must hold too. ReleaseError where the release names what the table does not have,
    or where no exact engine gives the limit's law.
    """
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    criterion = MinWidth(small_count, min_width, posterior_limit)
    answer = Inquiry(table, known_of(table, public), criterion, effort=effort).ask(NOTHING)
    return answer.assessment.named_by(table.schema)


def why(
    table: Table,
    public: Public,
    sub_table: str,
    *,
    min_width: int,
    small_count: int = 2,
    posterior_limit: PosteriorLimit | None = None,
    forbid: Sequence[Pattern] = (),
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
) -> Reason:
    """Why a sub-table `age*race` is in the release or not, and with which released ones it breaks the criterion.

    Errors as for `assess`; InputError for a sub-table that the table does not have.
    """
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    settings = _settings(table, MinWidth(small_count, min_width, posterior_limit), effort)
    asked, known = st.parse(sub_table, table.schema), known_of(table, public)
    width = settings.widths(table).by_sub_table().get(asked)
    forbidden = not Wishes.of(table.schema, forbid=forbid).allows(asked)
    reason = reason_of(Inquiry(table, known, settings.criterion, effort=effort), asked, width)
    return replace(reason, forbidden=forbidden and not reason.released)


def redesign(
    table: Table,
    public: Public,
    sub_table: str,
    *,
    min_width: int,
    small_count: int = 2,
    executor: Executor = IN_PROCESS,
) -> Redesign | None:
    """What may go out with a release instead of a sub-table `age*race`: coarser levels of it, with the least loss.

    Levels are those of the table's schema, see `read_table`. None where nothing may. Errors as for `assess`.
    """
    from sdc.search.redesign import redesign as redesigned

    known, effort = known_of(table, public), Effort(Budget(), executor=executor)
    inquiry = Inquiry(table, known, MinWidth(small_count, min_width), effort=effort)
    return redesigned(inquiry, known.release, st.parse(sub_table, table.schema))


def ordered_release(
    table: Table,
    public: Public,
    *,
    min_width: int,
    small_count: int = 2,
    accept_undecided: bool = False,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    on_step: Callable[[SearchStep], None] = lambda step: None,
) -> OrderedRelease:
    """All sub-tables where they may go out; else what can be added, first all pairs, then by critical width.

    Critical widths below `min_width` are not listed where there are more than 20 variables.
    """
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    policy = Policy.OUTER if accept_undecided else Policy.REFUSE
    settings = replace(_settings(table, MinWidth(small_count, min_width), effort), policy=policy)
    return release_search(table, known_of(table, public), settings, settings.widths(table), on_step).ordered.run()


def bisection_release(table: Table, public: Public, *, min_width: int, **settings: Any) -> FoundRelease:
    """The longest prefix of the list ordered by critical width that may go out, by bisection ([KDSF] 5.2).

    Settings as for `find_release`. NothingReleasableError where not even the first of the list may go out.
    """
    return find_release(table, public, "bisection", min_width=min_width, **settings)


def decomposable_release(
    table: Table,
    public: Public,
    *,
    min_width: int,
    small_count: int = 2,
    seed: int = 0,
    chains: int = 4,
    steps: int = 200_000,
    start: str | None = None,
    weights: Mapping[str, float] | None = None,
    posterior_limit: PosteriorLimit | None = None,
    executor: Executor = IN_PROCESS,
    on_round: Callable[[SearchState], None] = lambda state: None,
) -> DecomposableRelease:
    """The best decomposable release that annealing chains find ([KDSF] 5.1), with its graph and the chains' trace.

    steps    proposals of each chain, of which there are `chains`; their seeds come from `seed`
    start    the graph to start from, such as "[age,sex] [sex,race]"; no edges by default
    weights  what counts more than 1: a variable "age", whose sub-tables all count more, or a sub-table "age*sex"

    InputError for settings that make no search, ReleaseError where not even the one-way sub-tables reach the width, or
    where the start does not, or does not keep the limit on the posterior.
    """
    criterion = MinWidth(small_count, min_width, posterior_limit)
    annealing = Annealing(CoolingSchedule(steps), chains, seed)
    settings = _settings(table, criterion, Effort(executor=executor), annealing, start, weights)
    known = known_of(table, public)
    require_together("decomposable", *_before(known))
    return release_search(table, known, settings, no_widths(), on_round=on_round).decomposable.run()


def best_release(table: Table, public: Public, *, min_width: int, **settings: Any) -> FoundRelease:
    """The better of the ordered and the decomposable release, each with what can be added to it, and the reason.

    Settings as for `find_release`.
    """
    return find_release(table, public, "best", min_width=min_width, **settings)


def simulatable_release(table: Table, public: Public, *, min_width: int, **settings: Any) -> FoundRelease:
    """A decomposable release that tells nothing by what it leaves out, with each decision and what that costs.

    Settings as for `find_release`. ReleaseError where the true table breaks the criterion in the end, ConfigError for
    structural zeros, InputError for more than 16 variables.
    """
    return find_release(table, public, "simulatable", min_width=min_width, **settings)


def find_release(
    table: Table,
    public: Public,
    method: str,
    *,
    min_width: int,
    small_count: int = 2,
    seed: int = 0,
    chains: int = 4,
    steps: int = 200_000,
    annealing: Annealing | None = None,
    start: str | None = None,
    accept_undecided: bool = False,
    weights: Mapping[str, float] | None = None,
    demand: Mapping[str, float] | None = None,
    require: Sequence[Pattern] = (),
    forbid: Sequence[Pattern] = (),
    best_subset: bool = False,
    breadth: int | None = None,
    questions: int | None = None,
    posterior_limit: PosteriorLimit | None = None,
    draws: int = 100,
    share: float = 0.05,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    on_step: Callable[[SearchStep], None] = lambda step: None,
    on_round: Callable[[SearchState], None] = lambda state: None,
    on_simulated: Callable[[SimulatedStep], None] = lambda step: None,
) -> FoundRelease:
    """The release that a method finds, one of `METHODS`; errors as for its own verb.

    demand           how often each sub-table is asked for, which is added to its weight
    require, forbid  sub-tables that the release must have, and must not have: `age*race`, `all:2` for every pair,
                     `age*sex*race:2` for every pair of these; best_subset: where the required ones do not fit together,
                     those that are worth most, else NothingReleasableError says which conflict
    breadth, questions  sub-tables of up to so many variables come first; and how many releases are asked about at most

    annealing        all settings of the chains, instead of seed, chains and steps
    accept_undecided  whether what nothing could decide may go out
    draws, share  of "simulatable": tables drawn for each decision, and how many of them may break the criterion; `seed`
                  is theirs too

    ConfigError for an unknown method, or one that does not work with what is given beside it or has no use for it.
    """
    require_method(method)
    known = known_of(table, public)
    given = {ZEROS: known.zeros, LIMIT: posterior_limit, REQUIRE: require, FORBID: forbid}
    require_together(method, *_before(known), *(name for name, value in given.items() if value))
    searching: dict[str, Any] = {"seed": seed, "chains": chains, "steps": steps, "draws": draws, "share": share}
    searching |= {"annealing": annealing, "start": start, "breadth": breadth, "questions": questions}
    require_used(method, (name for name, value in searching.items() if value != _DEFAULTS.get(name)))
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    annealing = annealing or Annealing(CoolingSchedule(steps), chains, seed)
    criterion = MinWidth(small_count, min_width, posterior_limit)
    settings = replace(
        _settings(table, criterion, effort, annealing, start, weights),
        policy=Policy.OUTER if accept_undecided else Policy.REFUSE,
        simulation=Simulation(draws, share, seed),
        demand=demand or {},
        require=require,
        forbid=forbid,
        wishes=Wishes(best_subset=best_subset, breadth=breadth, questions=questions),
    )
    widths = no_widths() if method == "decomposable" else settings.widths(table)
    return release_search(table, known, settings, widths, on_step, on_round, on_simulated).run(method)


_DEFAULTS = find_release.__kwdefaults__ or {}


def risk_utility_curve(
    table: Table,
    public: Public,
    *,
    min_widths: Sequence[int],
    small_counts: Sequence[int] = (2,),
    methods: Sequence[str] = ("ordered", "decomposable"),
    seed: int = 0,
    chains: int = 4,
    steps: int = 200_000,
    weights: Mapping[str, float] | None = None,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    on_point: Callable[[CurvePoint], None] = lambda point: None,
) -> tuple[CurvePoint, ...]:
    """The utility of what each method can release at each small count and minimum width; settings as above.

    ConfigError for an unknown method, InputError for a width or small count below 1 and where none is given.
    """
    for name, values in (("min_widths", min_widths), ("small_counts", small_counts)):
        if not values or min(values) < 1:
            raise InputError(f"{name} = {list(values)}; give at least one, each at least 1")
    effort = Effort(budget or Budget(), refute_cells, executor=executor)
    annealing = Annealing(CoolingSchedule(steps), chains, seed)
    least = MinWidth(small_counts[0], min(min_widths))
    settings = _settings(table, least, effort, annealing, weights=weights)
    known = known_of(table, public)
    for method in (name for name in METHODS if name in methods):
        require_together("curve", method, *_before(known))
    search = release_search(table, known, settings, settings.widths(table))
    return CurveSearch(search, tuple(min_widths), tuple(small_counts), tuple(methods), on_point).run()


def _before(known: Knowledge) -> tuple[str, ...]:
    """What was published before, as a capability."""
    return BEFORE[:1] if known.release.variables or known.facts else ()


def _settings(
    table: Table,
    criterion: MinWidth,
    effort: Effort,
    annealing: Annealing | None = None,
    start: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> SearchSettings:
    """What the verbs leave to be set, with the floor that the table wants."""
    floor = floor_of(None, len(table.schema), criterion.min_width)
    chains, named = annealing or Annealing(), _by_kind(weights or {})
    return SearchSettings(criterion, Policy.REFUSE, effort, floor, chains, start, *named)


def _by_kind(weights: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Weights of variables, and of sub-tables `a*b`."""
    of_sub_tables = {name: weight for name, weight in weights.items() if "*" in name}
    return {name: weight for name, weight in weights.items() if name not in of_sub_tables}, of_sub_tables


def weights_of(table: Table, by_name: Mapping[str, float]) -> Weights:
    """Weights of variables and of sub-tables `a*b`; InputError for what the table does not have, or not above 0."""
    return Weights.of(table.schema, *_by_kind(by_name))


def publish_release(
    table: Table,
    found: Found,
    folder: str | Path,
    *,
    title: str,
    formulas: str = "quote",
    about: Mapping[str, Any] | None = None,
    labels: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Publishes a release that was found for the table in a new folder, once the gate has cleared it.

    It is in no ledger, and was judged beside nothing published before but what was named to the search as public. That
    is what is returned, in words; where more counts, build by a config with `sdc run`.

    about   all else that `publication` in a config has, such as period, notes, formats and children
    labels  by variable label, note, unit and categories, as `labels.variables` in a config has them

    The folder appears whole or not at all. ReleaseError where the release is not proven safe, or is of another table;
    ConfigError where the folder exists or cannot be made; InputError for labels of what the table does not have.
    """
    from sdc.publish.gate import Subject, clear
    from sdc.publish.publication import check_publication, write_publication
    from sdc.storage.certificate import Certificate
    from sdc.storage.run_folder import RunFolder

    judgement, out = found.judgement, Path(folder).absolute()
    criterion, known = judgement.criterion, judgement.known
    # before the gate, whose checks may take longer
    require_new(out)
    texts = _texts(table, {**(about or {}), "title": title, "formulas": formulas}, labels or {})
    # the table that was judged, not the one given: the gate compares the two
    digest = judgement.bank.table.digest
    small_count, min_width = criterion.small_count, criterion.min_width
    certificate = Certificate(digest, known, judgement.asked, small_count, min_width, judgement.proof)
    cleared = clear(table, known, certificate, criterion, Policy.REFUSE)
    with RunFolder(out.parent).writing(out.name, public=True) as into:
        write_publication(cleared, Subject(table.digest, criterion, Policy.REFUSE), title, into, texts=texts)
        check_publication(cleared, into, title, texts)
    return IN_NO_LEDGER


def _texts(table: Table, about: Mapping[str, Any], labels: Mapping[str, Any]) -> Texts:
    """The texts of a publication; InputError where one is not allowed, or labels what the table does not have."""
    from pydantic import ValidationError

    from sdc.config.build import BuildConfig
    from sdc.config.file import faults_of
    from sdc.config.publication import LabelsConfig, PublicationConfig
    from sdc.publish.publication import Texts

    section = "publication"
    try:
        said = PublicationConfig.model_validate(about)
        section = "labels"
        named = LabelsConfig.model_validate({"variables": labels}).labels
    except ValidationError as error:
        raise InputError(faults_of(error, BuildConfig, section)) from error
    named.require(table.schema)
    return Texts(said, named)


def controlled_rounding(table: Table, *, base: int) -> Rounded:
    """The table in multiples of a base, its margins rounded too; see `sdc.treat.rounding`.

    It is judged beside nothing and enters no ledger; what was `moved` is confidential. InputError for a base below 2 or
    too many cells, ReleaseError where no such table is found.
    """
    from sdc.treat import rounding

    return rounding.controlled_rounding(table.dense, base)


def rounded_table(table: Table, rounded: Rounded, title: str) -> CountTable:
    """The rounded table as the writers of formats take it, called rounded wherever it is listed."""
    from sdc.model.labels import Labels
    from sdc.publish.formats import CountTable

    cells = np.argwhere(rounded.counts > 0)
    found = Table.of(table.schema, cells, rounded.counts[rounded.counts > 0])
    listed = CountTable.of("rounded", title, found, Labels())
    return listed.rounded(found.counts, rounded.base)


def suppress(
    table: Table,
    public: Public,
    sub_table: str,
    *,
    small_count: int,
    min_width: int,
    posterior_limit: PosteriorLimit | None = None,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
) -> Suppressed:
    """Which cells of a sub-table to withhold, its margins staying public; see `sdc.treat.suppression`.

    It is judged for whoever has these, the cells that stay and the structural zeros, and enters no ledger. Where
    sub-tables or facts are public, every at-risk cell of the whole table is judged beside them too as `assess` does,
    with a limit and a budget where they are given; by itself the sub-table has neither. InputError for too many cells
    or what is released already, ReleaseError for an unknown variable, NotReleasableError where withholding does not do.
    """
    from sdc.treat import suppression

    subtable, known = st.parse(sub_table, table.schema), known_of(table, public)
    if known.release == NOTHING and not known.facts:
        counts = table.marginal(subtable).dense
        zeros = known.zeros.excluded(subtable, table.schema)
        return suppression.suppress(counts, small_count, min_width, zeros=zeros)
    criterion = MinWidth(small_count, min_width, posterior_limit)
    effort = Effort(budget or Budget(), executor=executor)
    return suppression.suppress_beside(table, known, subtable, criterion, effort)


def magnitude_table(
    path: str | Path,
    value: str,
    variables: Sequence[str],
    *,
    also: Sequence[Sequence[str]] = (),
    contributors: int | None = None,
    dominance: tuple[int, Share] | None = None,
    percent: Share | None = None,
    contributor: str | None = None,
    unique: bool = False,
    hierarchies: Mapping[str, Sequence[str]] | None = None,
    negative: str = "refuse",
) -> tuple[MagnitudeTable, ...]:
    """Sums of a column by variables, where every cell passes the rules; see `sdc.treat.magnitude` and `dominance`.

    also  further groupings of the same records, judged together with the first

    They are judged beside nothing else, and enter no ledger: a difference to what was published of the same records
    by other groupings may fail the rules. InputError for what is missing, no number or below 0, NotReleasableError
    where no aggregation passes.
    """
    from sdc.treat import magnitude
    from sdc.treat.dominance import Rules

    rules = Rules.of(contributors, dominance, percent)
    split: Any = negative
    return magnitude.magnitude_table(
        path,
        value,
        variables,
        rules,
        also=also,
        contributor=contributor,
        unique=unique,
        hierarchies=hierarchies,
        negative=split,
    )


def require_new(folder: Path) -> None:
    """ConfigError where a folder to publish in is there, or where it would be is none."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; name a folder that does not")
    if not folder.parent.is_dir():
        raise ConfigError(f"{folder}: {folder.parent} is not a folder; name one in a folder that exists")


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

    return enumerate_feasible(table, known_of(table, public), limit, max_steps, watch)


def posterior(
    table: Table,
    public: Public,
    *,
    law: str = "released",
    alpha: float = 0.5,
    priors: Mapping[str, float] | None = None,
    cells: str = "at-risk",
    small_count: int = 2,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    share: float = 1.0,
    executor: Executor = IN_PROCESS,
) -> Posterior:
    """What the released marginals make probable of the at-risk cells, or with cells="all" of all cells.

    law     `released`, any log-linear model whose generators are released; `uniform`; `saturated`; a model
            `[a,b][b,c]`; or `average`, of those in `priors` with their prior probabilities
    alpha   of the conjugate priors, for each cell of the full table
    draws   of each of so many chains, with seeds that come from `seed`, where no exact engine gives the law
    share   of a released group that a cell must hold to disclose the categories of whoever is in it, above 0.5 up to 1

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
    held, sampling = groups(CellMarginals(table, asked), known, share), Sampling(draws, chains, seed)
    if law == intruder.AVERAGE:
        found = average(table, known, priors or {}, asked, alpha, sampling, executor)
    else:
        found = intruder.posterior(table, known, law_of(law, table.schema, alpha), asked, sampling, executor)
    return replace(found, groups=held).named_by(table.schema)
