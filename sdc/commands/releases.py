"""Commands about releases: assess one, explain a refusal, find one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sdc.commands.options import (
    BUILD,
    INSPECT,
    TABLE,
    CommandResult,
    InputPath,
    ReleaseOption,
    Settings,
    command,
    executor_of,
    file_option,
    named,
    read_input,
    report,
    say,
    status_of_release,
)
from sdc.refusal import NOT_RELEASABLE
from sdc.storage.scratch import own_scratch

if TYPE_CHECKING:
    from sdc.config.release import WeightsConfig
    from sdc.model.table import Table
    from sdc.risk.assessment import Assessment
    from sdc.search.best import FoundRelease
    from sdc.search.recodings import Recoding
    from sdc.search.step import Refused

VERDICTS = {True: "releasable", False: "not releasable", None: "undecided: treat as not releasable"}


@command(INSPECT, *TABLE, "risk.min_width")
def assess(
    path: InputPath,
    settings: Settings,
    release: ReleaseOption = None,
    law: Annotated[
        str, Option(help="Law for the limits of risk.posterior: released, uniform, saturated, or [a,b][b,c].")
    ] = "released",
) -> CommandResult:
    """Check whether a release is safe, and by which cells, for statisticians."""
    from sdc.model.sharpness import Sharpness
    from sdc.risk.assessment import assessment_facts
    from sdc.risk.posterior_limit import PosteriorLimit

    source = read_input(path, settings, "assess", named={"--release": release})
    criteria = source.criteria()
    if (limit := criteria.get(PosteriorLimit)) is not None:
        beside = criteria.without(PosteriorLimit)
        criteria = replace(beside, others=(*beside.others, replace(limit, law=law)))
    with executor_of(source) as executor:
        answer = source.assess(release, criteria, executor)
    if not release and (own := source.assessed(criteria.small_count)) is not None:
        answer = replace(answer, sharpness=Sharpness.of(*own))
    facts = assessment_facts(answer, source.table.schema)
    shown = partial(_print_assessment, answer, facts, criteria.floor)
    return CommandResult(facts, shown, 0 if answer.releasable else NOT_RELEASABLE)


def _print_assessment(answer: Assessment, facts: dict[str, Any], threshold: int) -> None:
    print(VERDICTS[answer.releasable])
    report(
        ("min width", f"{answer.min_width[0]} to {answer.min_width[1]}, required {threshold}"),
        ("at-risk cells", f"{answer.at_risk_cells}, undecided {answer.undecided_cells}"),
        ("broken", answer.broken and answer.broken.text),
        ("sharp bounds", answer.sharpness and f"of the run: {answer.sharpness.text}"),
        ("likely", answer.likely and answer.likely.text),
        *(("witness", f"count {w['count']} outer {list(w['outer'])} {named(w['cell'])}") for w in facts["witnesses"]),
    )


@command(INSPECT, *TABLE, "risk.min_width", name="why")
def why_command(
    path: InputPath,
    sub_table: Annotated[str, Argument(metavar="SUB_TABLE", help="Such as 'age*race'.")],
    settings: Settings,
    release: ReleaseOption = None,
    redesign: Annotated[
        bool, Option("--redesign", help="If it is not: find coarser levels or merged categories that may be released.")
    ] = False,
) -> CommandResult:
    """Explain why a sub-table is released or not, for statisticians and customers.

    For a table or config without --release, the command assumes that the one-way sub-tables are released.
    """
    from sdc import api
    from sdc.config.features import OF_WHOLE
    from sdc.model.release import Release
    from sdc.protect.summary import largest_facts
    from sdc.search.why import reason_facts

    verb = "redesign" if redesign else "why"
    source = read_input(path, settings, verb, named={"SUB_TABLE": [sub_table], "--release": release})
    criteria = source.criteria()
    is_searched = bool(release) or source.released is not None
    schema, section = source.table.schema, source.config.release
    if is_searched:
        held = source.public(release)
    else:
        held = source.known.plus(Release.of(1 << variable for variable in range(len(schema))))
        say("judged with the one-way sub-tables; no release was searched")
    with executor_of(source) as executor:
        found = api.why(source.table, held, sub_table, criteria, forbid=section.forbid, executor=executor)
        proposals: tuple[Recoding, ...] = ()
        if redesign and not found.released:
            how: dict[str, Any] = {"release": section, "executor": executor}
            merging = source.build is None or source.config.may_coarsen
            proposals = api.redesign(source.table, held, sub_table, criteria, merging=merging, **how)
    facts = reason_facts(found, schema, source.config.labels.labels)
    if not is_searched:
        facts["customer"] = None
    facts["largest"] = largest_facts(source.suppressed, found.sub_table, schema) if not release else []
    if redesign:
        facts["redesign"] = [one.facts for one in proposals]

    def show() -> None:
        _print_reason(facts, criteria.width.min_width)
        if (witness := found.witness) is not None:
            cell = named(schema.named(witness.cell))
            print(f"witness        count {witness.count} outer {list(witness.outer)} {cell}")
        # the settings of the config that forbid suppressed tables
        of_whole = [name for name in OF_WHOLE if source.build is not None and name in source.config.asked]
        _print_redesign(facts.get("redesign", ()), of_whole)
        if redesign and not found.released and not proposals:
            print("instead        nothing coarser is releasable; declare hierarchies under table, or merge categories")

    return CommandResult(facts, show)


def _print_reason(facts: dict[str, Any], min_width: int) -> None:
    print(facts["text"])
    judged = {what: facts[what] for what in ("alone", "one_way", "together")}
    report(
        *(("largest", f" {cell['text']}") for cell in facts["largest"]),
        ("to a customer", facts["customer"] and f" {facts['customer']}"),
        ("critical width", f" {facts['critical_width']}, required {min_width}"),
        *((of, f" {VERDICTS[a['releasable']]}, min width {list(a['min_width'])}") for of, a in judged.items()),
        ("proof", facts["proof"] and f" {facts['proof']}"),
    )


def _print_redesign(proposals: Sequence[dict[str, Any]], of_whole: Sequence[str]) -> None:
    for proposal in proposals:
        name, needs_whole = "*".join(proposal["sub_table"]), "protect" in proposal["config"]
        report(
            ("instead", f" {name}, {proposal['cells']} cells, {proposal['lost']} fewer"),
            ("to be pasted", f" {proposal['config']}"),
            ("leave out", needs_whole and of_whole and f" {', '.join(of_whole)}"),
        )


@command(BUILD, *TABLE, "release.method", "risk.min_width")
def release(
    path: InputPath,
    settings: Settings,
    out: Annotated[
        Path | None, file_option("Publish the release to this new folder.", "--out", metavar="FOLDER")
    ] = None,
) -> CommandResult:
    """Find a release of a table, and publish it if --out is given."""
    from sdc import api
    from sdc.stages.assemble import Watch
    from sdc.stages.release import require_new
    from sdc.stages.search import QuestionLines, describe_round, describe_simulated, interruptible
    from sdc.stages.table import check_names

    if out is not None:  # as publication checks after the search
        require_new(out.absolute(), "--out ")
    source = read_input(path, settings, "release" if out is None else "publish")
    method, criteria, section = source.method, source.criteria(), source.config.release
    undecided = source.config.risk.accept_undecided
    for warning in section.warnings:
        say(f"sdc: {warning}")
    data = source.table
    if out is not None and source.build is not None:
        check_names(source.build, source.known, data)
    with ExitStack() as stack:
        executor = stack.enter_context(executor_of(source))
        marker = Path(stack.enter_context(own_scratch()), "ending")
        deadline = stack.enter_context(interruptible(section, marker))
        found = api.find_release(
            data,
            method,
            source.known,
            criteria=criteria,
            release=section,
            accept_undecided=undecided,
            executor=executor,
            watch=Watch(
                QuestionLines(say),
                lambda state: say(describe_round(state)),
                lambda step: say(describe_simulated(step, data.schema)),
            ),
            deadline=deadline,
        )
    refused = found.refused(undecided)
    facts = _release_facts(data, found, section.weights, refused)
    if out is not None:
        about = {"title": out.absolute().name, **source.config.publication.model_dump(exclude_none=True)}
        labels = source.config.labels.model_dump(exclude_none=True)["variables"]
        facts["published"] = api.publish(found, out, table=data, labels=labels, **about).ledger

    def show() -> None:
        _print_found(found, facts, refused, criteria.floor)
        if out is not None:
            print(f"published     {out}, {facts['published']}")

    return CommandResult(facts, show, status_of_release(facts))


def _print_found(found: FoundRelease, facts: dict[str, Any], refused: Refused, threshold: int) -> None:
    from sdc.search.reasons import share_of_best

    print_release(facts)
    (least, most), likely = found.assessment.min_width, found.assessment.likely
    report(
        ("min width", f"{least} to {most}, required {threshold}"),
        ("likely", likely and likely.text),
        ("utility", ", ".join(f"{name} {value}" for name, value in facts["utility"].items())),
        *(("" if number else "candidates", one.text) for number, one in enumerate(found.candidates)),
        ("best", found.bound is not None and share_of_best(found.method, found.value, found.bound)),
        ("reason", found.reason),
        ("refused", refused.questions and refused.text),
    )
    if found.required is not None:
        _print_required(facts["required"])


def print_release(facts: dict[str, Any]) -> None:
    print(f"released      {facts['sub_tables']} sub-tables and the grand total, all within:")
    for names in facts["frontier"]:
        print(f"              {'*'.join(names) or '(total)'}")
    for part in facts.get("suppressed_tables", ()):
        name = "*".join(part["sub_table"])
        if part["by"] == "rounding":
            print(f"rounded       {name}: to multiples of {part['base']}")
            continue
        if part["by"] == "recoding":
            print(f"recoded       {name}: by {'*'.join(part['recoded'])}, {part['left']} cells of {part['cells']}")
            continue
        share = f"{part['records_suppressed']:.1%} of the records"
        print(f"suppressed    {name}: {part['suppressed']} of {part['cells']} cells, with {share}")
        for cell in part["largest"][:1]:
            print(f"largest       {cell['text']}")


def _print_required(facts: dict[str, Any]) -> None:
    required, refused = facts["required"], facts["refused"]
    best = "" if facts["is_best"] else "; a better subset may exist"
    report(
        ("required", f"{len(required) - len(refused)} of {len(required)} released{best}"),
        *(("refused", "*".join(names)) for names in refused),
        *(("conflict", conflict["text"]) for conflict in facts["conflicts"]),
    )


def _release_facts(table: Table, found: FoundRelease, weights: WeightsConfig, refused: Refused) -> dict[str, Any]:
    from sdc.model.decomposable_graph import named_cliques
    from sdc.model.release import release_facts
    from sdc.risk.assessment import assessment_facts
    from sdc.search.required import required_facts
    from sdc.stages.assemble import utility_of_release
    from sdc.utility.halvings import halvings_facts
    from sdc.utility.measures import Weights

    own = Weights.of(table.schema, weights.variables, weights.sub_tables)
    utility = utility_of_release(table, found.evaluation.knowledge, own, found.objective)
    graph = {} if found.graph is None else {"graph": named_cliques(found.graph, table.schema)}
    return {
        "method": found.method,
        **release_facts(found.release, table.schema),
        **({} if found.reason is None else {"reason": found.reason}),
        **({} if found.bound is None else {"bound": found.bound}),
        **({"candidates": [asdict(one) for one in found.candidates]} if found.candidates else {}),
        **({"ended_after": dict(found.ended_after)} if found.ended_after else {}),
        **({"refused": refused.facts} if found.steps else {}),
        **({} if found.required is None else {"required": required_facts(found.required, table.schema)}),
        **graph,
        "utility": {**utility.facts, **halvings_facts(found.halvings)},
        "assessment": assessment_facts(found.assessment, table.schema),
    }
