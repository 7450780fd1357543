"""Commands that ask of releases: whether one is safe, why a sub-table is not, and which to publish."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.commands.options import (
    Json,
    LossOption,
    MaxAbove,
    MaxLoss,
    MaxProbability,
    MinWidth,
    NRule,
    ReleaseOption,
    SmallCount,
    StructuralZeros,
    SubjectPath,
    Threshold,
    Variables,
    Workers,
    posterior_limit,
    print_json,
    print_release,
    print_required,
    status_of_release,
)
from sdc.commands.panels import BUILD, INSPECT
from sdc.config.capabilities import CAPABILITIES, FORBID, LIMIT, MINUTES, N_RULE, OBJECTIVE, ONLY, REQUIRE
from sdc.model.errors import ConfigError
from sdc.paths import checked_path
from sdc.refusal import NOT_RELEASABLE

if TYPE_CHECKING:
    from sdc.config.release import WeightsConfig
    from sdc.model.table import Table
    from sdc.search.best import FoundRelease
    from sdc.search.redesign import Redesign
    from sdc.search.step import Refused

from sdc.commands.asked import executor_of, losses_of, numbers_by_name, read_subject

releases = typer.Typer()
VERDICTS = {True: "releasable", False: "not releasable", None: "undecided: treat as not releasable"}


@releases.command(rich_help_panel=INSPECT)
def assess(
    subject: SubjectPath,
    release: ReleaseOption = None,
    min_width: MinWidth = None,
    n_rule: NRule = None,
    law: Annotated[str, typer.Option(help="Of the limits: released, uniform, saturated, or [a,b][b,c].")] = "released",
    threshold: Threshold = 0.5,
    max_above: MaxAbove = None,
    max_probability: MaxProbability = None,
    loss: LossOption = None,
    max_loss: MaxLoss = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Decide whether a release is safe, and show the deciding cells."""
    from sdc.model.sharpness import Sharpness
    from sdc.risk.assessment import assessment_facts

    limit = posterior_limit(law, threshold, max_above, max_probability, losses_of(loss), max_loss)
    asked = [name for name, value in ((LIMIT, limit), (N_RULE, n_rule)) if value]
    named = {"--release": release}
    about = read_subject(subject, variables, structural_zeros, "assess", *asked, named=named)
    data, criteria = about.table, about.criteria(min_width, small_count, n_rule, limit)
    with executor_of(subject, workers) as executor:
        answer = about.assess(release, criteria, executor)
    if not release and (own := about.assessed(criteria.small_count)) is not None:
        answer = replace(answer, sharpness=Sharpness.of(*own))
    facts = assessment_facts(answer, data.schema)
    if as_json:
        print_json(facts)
        raise typer.Exit(0 if answer.releasable else NOT_RELEASABLE)
    print(VERDICTS[answer.releasable])
    print(f"min width     {answer.min_width[0]} to {answer.min_width[1]}, required {criteria.floor}")
    print(f"at-risk cells {answer.at_risk_cells}, undecided {answer.undecided_cells}")
    if answer.broken is not None:
        print(f"broken        {answer.broken.text}")
    if answer.sharpness is not None:
        print(f"sharp bounds  of the run: {answer.sharpness.text}")
    if answer.likely is not None:
        print(f"likely        {answer.likely.text}")
    for witness in facts["witnesses"]:
        cell = " ".join(f"{name}={value}" for name, value in witness["cell"].items())
        print(f"witness       count {witness['count']} outer {list(witness['outer'])} {cell}")
    raise typer.Exit(0 if answer.releasable else NOT_RELEASABLE)


@releases.command("why", rich_help_panel=INSPECT)
def why_command(
    subject: SubjectPath,
    sub_table: Annotated[str, typer.Argument(metavar="SUB_TABLE", help="Such as 'age*race'.")],
    release: ReleaseOption = None,
    min_width: MinWidth = None,
    n_rule: NRule = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    redesign: Annotated[
        bool,
        typer.Option(
            "--redesign", help="Where it is not: at which coarser levels it may be, or with merged categories."
        ),
    ] = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Explain why a sub-table is released or not.

    For a table or config without --release, the command assumes that the one-way sub-tables are released.
    """
    from sdc import api
    from sdc.search.suppressed import largest_facts
    from sdc.search.why import reason_facts

    verb = "redesign" if redesign else "why"
    named, asked = {"SUB_TABLE": [sub_table], "--release": release}, [N_RULE] * bool(n_rule)
    about = read_subject(subject, variables, structural_zeros, verb, *asked, named=named)
    criteria = about.criteria(min_width, small_count, n_rule)
    is_searched = bool(release) or about.released is not None
    held = about.public(release) if is_searched else about.one_way
    if not is_searched:
        print("judged beside the one-way sub-tables; no release was searched", file=sys.stderr)
    with executor_of(subject, workers) as executor:
        found = api.why(about.table, held, sub_table, criteria, forbid=about.forbid, executor=executor)
        proposals: tuple[Redesign, ...] = ()
        if redesign and not found.released:
            proposals = api.redesign(
                about.table,
                held,
                sub_table,
                criteria,
                release=about.section,
                merging=about.may_coarsen,
                executor=executor,
            )
    facts = reason_facts(found, about.table.schema, about.labels)
    if not is_searched:
        facts["customer"] = None
    facts["largest"] = largest_facts(about.suppressed, found.sub_table, about.table.schema) if not release else []
    if redesign:
        facts["redesign"] = [one.facts for one in proposals]
    if as_json:
        print_json(facts)
        return
    print(facts["text"])
    for cell in facts["largest"]:
        print(f"largest        {cell['text']}")
    if facts["customer"] is not None:
        print(f"to a customer  {facts['customer']}")
    print(f"critical width {facts['critical_width']}, required {criteria.width.min_width}")
    for what in ("alone", "one_way", "together"):
        answer = facts[what]
        print(f"{what:14} {VERDICTS[answer['releasable']]}, min width {list(answer['min_width'])}")
    if facts["proof"] is not None:
        print(f"proof          {facts['proof']}")
    if (witness := found.witness) is not None:
        cell = " ".join(f"{name}={value}" for name, value in about.table.schema.named(witness.cell).items())
        print(f"witness        count {witness.count} outer {list(witness.outer)} {cell}")
    for told in facts.get("redesign", ()):
        print(f"instead        {'*'.join(told['sub_table'])}, {told['cells']} cells, {told['lost']} fewer")
        print(f"to be pasted   {told['config']}")
        if "in_part" in told["config"] and about.of_whole:
            print(f"leave out      {', '.join(about.of_whole)}")
    if redesign and not found.released and not proposals:
        print("instead        nothing coarser may go out either; declare hierarchies under table, or merge categories")


@releases.command(rich_help_panel=BUILD)
def release(
    subject: SubjectPath,
    method: Annotated[
        str | None,
        typer.Option(help="ordered, bisection, decomposable, best of two, or simulatable: refusals tell nothing"),
    ] = None,
    min_width: MinWidth = None,
    n_rule: NRule = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of annealing and draws.")] = None,
    chains: Annotated[int | None, typer.Option(min=1, max=1024, help="Annealing chains.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Proposals of each annealing chain.")] = None,
    start: Annotated[str | None, typer.Option(metavar="GRAPH", help="Anneal from this graph: '[a,b] [b,c]'.")] = None,
    draws: Annotated[int | None, typer.Option(min=1, help="Tables drawn for each decision of simulatable.")] = None,
    share: Annotated[float | None, typer.Option(help="Of these draws, how many may break the criterion.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="sub_tables: as many as may go out; or reconstruction: those by which IPF comes nearest."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=W", help="What a variable, or a sub-table a*b, counts instead of 1; once for each."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="SUB_TABLE", help="What the release must have: a*b, all:2, or a*b*c:2; once for each."),
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="SUB_TABLE", help="What it must not have, nor what contains it.")
    ] = None,
    best_subset: Annotated[
        bool, typer.Option("--best-subset", help="Where the required do not fit together, those worth most.")
    ] = False,
    only_required: Annotated[
        bool, typer.Option("--only-required", help="Release what is required, and nothing else.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="End the search after so many minutes, with what is proven then.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(parser=checked_path, metavar="FOLDER", help="Publish the release in this new folder.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of what is published; the folder's name by default.")] = None,
    threshold: Threshold = 0.5,
    max_above: MaxAbove = None,
    max_probability: MaxProbability = None,
    loss: LossOption = None,
    max_loss: MaxLoss = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Find a release of a table, and publish it if --out is given."""
    from sdc import api
    from sdc.search.best import require_method
    from sdc.stages.assemble import Watch
    from sdc.stages.release import publish_release
    from sdc.stages.search import QuestionLines, describe_round, describe_simulated, interruptible
    from sdc.stages.table import check_names

    if method is not None:
        require_method(method)
    _require_new(out)
    weights = numbers_by_name(weight or [], "--weight", "age=2")
    limit = posterior_limit("released", threshold, max_above, max_probability, losses_of(loss), max_loss)
    wished = {LIMIT: limit, N_RULE: n_rule, REQUIRE: require, FORBID: forbid, ONLY: only_required, MINUTES: minutes}
    wished[OBJECTIVE] = CAPABILITIES[OBJECTIVE].is_asked(objective)
    asked = [*([] if method is None else [method]), *(name for name, value in wished.items() if value)]
    verb, named = "release" if out is None else "publish", {"--require": require, "--forbid": forbid}
    about = read_subject(subject, variables, structural_zeros, verb, *asked, named=named)
    method, criteria = about.method(method), about.criteria(min_width, small_count, n_rule, limit)
    given: dict[str, Any] = {"seed": seed, "chains": chains, "steps": steps, "start": start, "weights": weights}
    given |= {"draws": draws, "share": share, "objective": objective}
    given |= {"require": require, "forbid": forbid, "best_subset": best_subset or None}
    given |= {"only": "required" if only_required else None, "minutes": minutes}
    settings = about.search(method, given)
    for warning in settings.warnings:
        print(f"sdc: {warning}", file=sys.stderr)
    data = about.table
    if out is not None and about.build is not None:
        check_names(about.build, about.known, data)
    method_of = settings.model_copy(update={"method": method})
    with ExitStack() as stack:
        executor = stack.enter_context(executor_of(subject, workers))
        marker = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sdc-")), "ending")
        deadline = stack.enter_context(interruptible(method_of, marker))
        found = api.find_release(
            data,
            about.known,
            method,
            criteria,
            release=settings,
            accept_undecided=about.accepts_undecided,
            executor=executor,
            watch=Watch(
                QuestionLines(lambda line: print(line, file=sys.stderr)),
                lambda state: print(describe_round(state), file=sys.stderr),
                lambda step: print(describe_simulated(step, data.schema), file=sys.stderr),
            ),
            deadline=deadline,
        )
    refused = found.refused(about.accepts_undecided)
    facts = _release_facts(data, found, settings.weights, refused)
    if out is not None:
        own = {"title": out.absolute().name, **about.publication, **({"title": title} if title else {})}
        facts["published"] = publish_release(data, found, out, **own)
    if as_json:
        print_json(facts)
        raise typer.Exit(status_of_release(facts))
    print_release(facts)
    least, most = found.assessment.min_width
    print(f"min width     {least} to {most}, required {criteria.floor}")
    if found.assessment.likely is not None:
        print(f"likely        {found.assessment.likely.text}")
    print("utility       " + ", ".join(f"{name} {value}" for name, value in facts["utility"].items()))
    for number, one in enumerate(found.candidates):
        print(f"{'' if number else 'candidates':14}{one.text}")
    if found.reason is not None:
        print(f"reason        {found.reason}")
    if refused.questions:
        print(f"refused       {refused.text}")
    if found.required is not None:
        print_required(facts["required"])
    if out is not None:
        print(f"published     {out}, {facts['published']}")
    raise typer.Exit(status_of_release(facts))


def _require_new(out: Path | None) -> None:
    """Before the work, what publication will ask after it."""
    from sdc.stages.release import require_new

    if out is not None:
        try:
            require_new(out.absolute())
        except ConfigError as error:
            raise ConfigError(f"--out {error}") from error


def _release_facts(table: Table, found: FoundRelease, weights: WeightsConfig, refused: Refused) -> dict[str, Any]:
    from sdc.model.decomposable_graph import named_cliques
    from sdc.model.release import release_facts
    from sdc.risk.assessment import assessment_facts
    from sdc.search.required import required_facts
    from sdc.stages.assemble import utility_of_release
    from sdc.utility.halvings import halvings_facts
    from sdc.utility.measures import Weights

    own = Weights.of(table.schema, weights.variables, weights.sub_tables)
    utility = utility_of_release(table, found.judgement.knowledge, own)
    graph = {} if found.graph is None else {"graph": named_cliques(found.graph, table.schema)}
    return {
        "method": found.method,
        **release_facts(found.release, table.schema),
        **({} if found.reason is None else {"reason": found.reason}),
        **({"candidates": [asdict(one) for one in found.candidates]} if found.candidates else {}),
        **({"ended_after": dict(found.ended_after)} if found.ended_after else {}),
        **({"refused": refused.facts} if found.steps else {}),
        **({} if found.required is None else {"required": required_facts(found.required, table.schema)}),
        **graph,
        "utility": {**utility.facts, **halvings_facts(found.halvings)},
        "assessment": assessment_facts(found.assessment, table.schema),
    }
