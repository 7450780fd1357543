"""The table of capabilities: complete, and true of every pair, by judges that list all tables that agree."""

from collections import Counter
from collections.abc import Iterable, Iterator
from inspect import isclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.main import get_command

import sdc as product_of_python
from sdc.commands.cli import app
from sdc.config import capabilities
from sdc.config import features as table
from sdc.config.capabilities import CAPABILITIES, FEATURES, refusal
from sdc.config.features import VERBS, Kind
from sdc.config.file import read_config
from sdc.config.methods import METHODS
from sdc.config.reference import reference
from sdc.model.errors import ConfigError, NothingReleasableError, NotReleasableError
from sdc.record.chain import Chain
from tests.helpers.capability_cases import SMALL, WIDTH, Case, config, judge_run, judge_verbs, made, sdc
from tests.profiles import scaled
from tests.reference import TooManyTablesError

Pair = frozenset[str]
Asked = tuple[str, ...]

NO_FEATURES = {
    "how the table is read, which is the same table to all that follows": (
        *("table.path", "table.variables", "table.columns", "table.csv", "table.categories", "table.missing"),
        *("table.recodes", "table.invalid_records", "table.max_categories", "table.partitions", "table.expect"),
        *("table.not_totals", "table.alike", "table.ignore", "table.exclude_missing"),
    ),
    "what every build has": ("name", "risk.min_width", "risk.small_count", "widths", "execution", "output.folder"),
    "settings of a search that has them": (
        *("release.on_conflict", "release.demand", "release.first_dimension", "release.max_evaluations"),
        *("release.refute_cells", "release.seconds_per_cell", "release.seconds", "release.cells_per_slice"),
        *("release.annealing", "release.simulatable", "release.neighbourhood", "release.weights"),
    ),
    "words for people": (
        *("publication.title", "publication.population", "publication.period", "publication.published"),
        *("publication.source", "report"),
        *("publication.licence", "publication.contact", "publication.notes", "publication.formulas"),
    ),
    "settings of table.weight": ("weighted",),
    "settings of release.protect": ("release.previous_pattern",),
    "settings of earlier and ledger": ("release.reveal_suppressed",),
    "settings of assessment": ("sharp_seconds",),
    "read with a warning, and without effect": ("release.ended_after",),
}
NO_COMMANDS = {
    "synthesize",
    "status",
    "list",
    "keys",
    "clean",
    "init",
    "config",
    "capabilities",
    "docs",
    "doctor",
    "migrate",
}
NO_VERBS = {
    *("synthesize", "read_table", "read_weights", "read_incomplete", "knowledge", "criteria"),
}


# The table


def test_every_pair_works_or_is_refused_with_a_reason() -> None:
    """Whoever adds a capability says of every other what is so; nothing works by being forgotten."""
    works = [frozenset([one, other]) for one, others in capabilities.WORKS.items() for other in others]
    refused = {frozenset(pair) for ones, others, _ in capabilities.REFUSED for pair in product(ones, others)}
    every = {frozenset([one.name, other.name]) for one, other in capabilities.pairs()}
    assert len(works) == len(set(works))
    assert {*works} | refused == every
    assert not {*works} & refused
    print(f"{len(every)} pairs: {len(works)} work, {len(refused)} are refused, none is silent")


def test_a_pair_that_is_nowhere_in_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    new = table.Capability("new", Kind.FEATURE, ("new",))
    monkeypatch.setitem(CAPABILITIES, "new", new)
    for name in [*METHODS, *FEATURES, *VERBS]:
        assert "it is not proven that they work together; leave one out" in (refusal("new", name) or "")


def test_every_key_of_the_config_is_a_capability_or_none() -> None:
    known = [key for one in CAPABILITIES.values() for key in one.keys]
    apart = [key for keys in NO_FEATURES.values() for key in keys]
    sections = {key.rpartition(".")[0] for key in [*known, *apart]}
    keys = {key.key for key in reference()}
    lacking = {key for key in keys - sections if not any(f"{key}.".startswith(f"{one}.") for one in [*known, *apart])}
    assert lacking == set()
    assert {*known} <= {*keys, "curve.decision.laws"}  # of all users of a decision
    assert not [key for key in known if any(f"{key}.".startswith(f"{one}.") for one in apart)]


def test_every_command_and_verb_is_a_capability_or_none() -> None:
    known = {name for one in CAPABILITIES.values() for name in (one.name, *one.also)}
    commands = {*get_command(app).commands}  # type: ignore[attr-defined]
    assert commands - known == NO_COMMANDS
    functions = {name for name in product_of_python.__all__ if not isclass(getattr(product_of_python, name))}
    assert functions - known == NO_VERBS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["weight"], r"'weight' is not a capability; did you mean table\.weight\? sdc capabilities lists all"),
        (["best", "nothing"], "'nothing' is not a capability; "),
        (["best", "best"], "best, best: name two different capabilities"),
        (["best", "earlier", "server"], "name two different capabilities"),
    ],
)
def test_what_is_no_capability_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sdc("capabilities", *words)


def test_the_command_tells_the_table() -> None:
    pairs = sdc("capabilities")[1]
    assert len(pairs) == len([*capabilities.pairs()])
    (pair,) = sdc("capabilities", "serve", "earlier")[1]
    assert pair == {"one": "earlier", "other": "server", "refused": refusal("server", "earlier")}
    assert {pair["refused"] for pair in sdc("capabilities", "labels", "best")[1]} == {None}
    assert {"best"} <= {name for pair in sdc("capabilities", "best")[1] for name in (pair["one"], pair["other"])}
    assert sdc("capabilities", "best", "ordered")[1][0]["refused"].endswith("only one can be chosen; name one")


def test_the_page_of_the_handbook_tells_every_refusal() -> None:
    page = capabilities.page()
    for one, other in capabilities.pairs():
        row = next(line for line in page.splitlines() if line.startswith(f"| {one.said} |"))
        assert (f" {other.name} (" in row) == (refusal(one.name, other.name) is not None)
    assert all(f". {why[0].upper()}{why[1:]}." in page for _, _, why in capabilities.REFUSED)


# What is refused


def method_for(asked: Iterable[str]) -> Asked:
    """These with a method, one that works with all where there is one, and the sections that settings are of."""
    names = tuple(asked)
    needs = (
        (table.DRAWING, "server"),
        (table.MODEL, "posterior"),
        (table.ONLY, table.REQUIRE),
        (table.ROUND, table.IN_PART),
        (table.COARSEN, table.IN_PART),
    )
    for setting, section in needs:
        names = (section, *names) if setting in names and section not in names else names
    if set(names) & {*METHODS}:
        return names
    return (min(METHODS, key=lambda method: len([*capabilities.refusals([method, *names])])), *names)


def written(folder: Path, asked: Asked) -> Path:
    """A config that asks for these, of a table that is not there."""
    for name in ("zeros.yaml", "key.pem"):
        (folder / name).write_text("")
    file = folder / "refused.yaml"
    file.write_text(yaml.safe_dump(config(asked, output={"folder": str(folder / "runs")})))
    return file


REFUSED = [(one, other) for one, other in capabilities.pairs() if refusal(one.name, other.name) is not None]


def test_a_config_is_refused_before_its_table_is_read(tmp_path: Path) -> None:
    pairs = [(one.name, other.name) for one, other in REFUSED if Kind.VERB not in (one.kind, other.kind)]
    assert len(pairs) > 30
    for pair in pairs:
        asked = method_for(pair)
        file = written(tmp_path, asked)
        with pytest.raises(ConfigError) as refused:
            read_config(file)
        said = capabilities.refusals(sorted(asked, key=[*CAPABILITIES].index))
        assert str(refused.value) == f"{file}: {'; '.join(said)}"
        assert refusal(*pair) in [*capabilities.refusals(asked)]
    assert not (tmp_path / "runs").exists()


COMMANDS: dict[str, tuple[str, ...]] = {
    **{verb: (verb,) for verb in ("bounds", "assess", "enumerate", "fit", "release", "simulate")},
    "server": ("serve",),
    "why": ("why", "CONFIG", "a"),
    "redesign": ("why", "CONFIG", "a", "--redesign"),
    "publish": ("release", "CONFIG", "--out", "OUT"),
    "suppress": ("suppress", "CONFIG", "a*c"),
    "round": ("round", "CONFIG", "a*c"),
    "magnitude": ("magnitude", "CONFIG", "--value", "w", "--by", "a", "--contributors", "3"),
    "replay": ("replay", "HISTORY", "--rules", "myopic", "--table", "CONFIG"),
    "audit": ("audit", "HISTORY", "--table", "CONFIG"),
    "posterior": ("posterior", "CONFIG"),
}


def test_a_command_refuses_a_config_before_its_table_is_read(tmp_path: Path) -> None:
    """The server too, where the config has no section of its own."""
    places = {"HISTORY": str(tmp_path / "history.db"), "OUT": str(tmp_path / "out")}
    Chain.open(places["HISTORY"], {"table": "", "criterion": {"small_count": SMALL, "min_width": WIDTH}}).close()
    verbs = [(verb, *pair) for verb in COMMANDS for pair in REFUSED if verb in (pair[0].name, pair[1].name)]
    tried = Counter[str]()
    for verb, one, other in verbs:
        name = other.name if one.name == verb else one.name
        asked = method_for([name])
        # what is published one after the other is always tried: each such pair is refused before any search
        is_left_out = tried[verb] >= scaled(32, fewest=2) and not {verb, name} & {*table.BEFORE, *table.IN_PARTS}
        if [*capabilities.refusals(asked)] or name == verb or is_left_out:
            continue  # of which there is no config, or in CI no more of this command
        file = written(tmp_path, asked)
        words = [places.get(word, str(file) if word == "CONFIG" else word) for word in COMMANDS[verb]]
        with pytest.raises(ConfigError) as refused:
            sdc(*words, *([] if "CONFIG" in COMMANDS[verb] else [file]))
        assert (refusal(verb, name) or "") in str(refused.value)
        tried[verb] += 1
    assert tried.total() > scaled(60, fewest=20)
    assert tried.keys() == COMMANDS.keys()
    assert not [path for name in ("out", "runs") if (path := tmp_path / name).exists()]


def test_a_verb_of_python_refuses_a_pair_with_its_sentence(tmp_path: Path) -> None:
    made(tmp_path, (), [0])
    read = product_of_python.read_table(tmp_path / "table.csv")
    nothing, before = product_of_python.knowledge(read), product_of_python.knowledge(read, ["a"])
    informed = product_of_python.knowledge(read, structural_zeros=tmp_path / "zeros.yaml")
    limit = product_of_python.PosteriorLimit(max_probability=0.5)
    for method, known, given, name in (
        ("simulatable", informed, None, table.ZEROS),
        ("best", nothing, limit, "risk.posterior"),
        ("decomposable", before, None, "earlier"),
    ):
        with pytest.raises(ConfigError) as refused:
            product_of_python.find_release(read, method, known, min_width=WIDTH, posterior_limit=given)
        assert str(refused.value) == refusal(method, name)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"minutes": 1}, table.MINUTES),
        ({"required_only": True}, table.ONLY),
    ],
)
def test_a_curve_of_python_refuses_what_a_config_refuses(tmp_path: Path, given: dict[str, Any], name: str) -> None:
    made(tmp_path, (), [0])
    read = product_of_python.read_table(tmp_path / "table.csv")
    with pytest.raises(ConfigError) as refused:
        product_of_python.risk_utility_curve(
            read, product_of_python.knowledge(read), min_widths=[WIDTH], require=["a"], **given
        )
    assert str(refused.value) == refusal("curve", name)


def test_a_server_does_not_begin_with_what_it_would_not_know(tmp_path: Path) -> None:
    """A run has published totals of weights beside its release, or was judged with what was there before."""
    for name in (table.WEIGHT, "ledger"):
        case = made(tmp_path / name, method_for([name]), [0])
        judge_run(case)
        asked = config(["ordered", "server"], server={"start": str(case.run)}, output={"folder": str(tmp_path)})
        (case.folder / "served.yaml").write_text(yaml.safe_dump(asked))
        with pytest.raises(ConfigError) as refused:
            sdc("serve", case.folder / "served.yaml")
        assert str(refused.value) == f"server.start = {str(case.run)!r}: {refusal(name, 'server')}"


# What works


def verbs_of(asked: Asked) -> set[str]:
    """The verbs that a case of these is tried by."""
    of_servers = {"simulate", "replay", "audit"}
    verbs = {*VERBS, "posterior", *table.ESTIMATED} - {"magnitude"} - (of_servers if "server" not in asked else set())
    return {verb for verb in verbs if verb not in asked and not any(refusal(verb, name) for name in asked)}


def met(asked: Asked) -> set[Pair]:
    """The pairs that a case of these meets."""
    return {frozenset(pair) for pair in [*combinations(asked, 2), *product(verbs_of(asked), asked)]}


def covering(pairs: set[Pair]) -> Iterator[Asked]:
    """Cases that meet every one of these pairs, each greedily as many as it can."""
    left = set(pairs)
    order = [*METHODS, *FEATURES]
    while left:
        first = min(
            (sorted(pair & {*order}, key=order.index) for pair in left), key=lambda p: [order.index(n) for n in p]
        )
        asked = min(
            (method_for(first), *((m, *first) for m in METHODS if not {*first} & {*METHODS})),
            key=lambda a: (len([*capabilities.refusals(a)]), -len(met(a) & left)),
        )
        while True:
            more = [name for name in FEATURES if name not in asked and not any(refusal(name, one) for one in asked)]
            best = max(more, key=lambda name: len(met((*asked, name)) & left), default=None)
            if best is None or len(met((*asked, best)) & left) <= len(met(asked) & left):
                break
            asked = method_for((*asked, best))
        assert met(asked) & left
        left -= met(asked)
        yield asked


WORKING = {frozenset([o.name, p.name]) for o, p in capabilities.pairs() if refusal(o.name, p.name) is None}


def judged(folder: Path, asked: Asked, seed: list[int]) -> Case:
    """A case that was built and judged, of the first seed whose table may be published at all."""
    refused = NotReleasableError if {*table.IN_PARTS, table.AT_LEAST} & {*asked} else NothingReleasableError
    for number in range(12):
        case = made(folder / str(number), asked, [*seed, number])
        try:
            judge_run(case)
            verbs = {"run", *judge_verbs(case)}
        except (refused, TooManyTablesError):
            # of simulatable, whose decisions do not look at the table, or where no prefix is safe; what goes out in no
            # part either; or a release that more tables agree with than a judge can list
            continue
        assert verbs == verbs_of(asked)
        return case
    raise AssertionError(f"{asked}: no table of this seed can be published and judged")


@pytest.mark.slow
def test_every_pair_that_works_is_met_by_a_case_that_is_judged(tmp_path: Path, night: list[int]) -> None:
    cases = [*covering(WORKING)]
    assert {pair for asked in cases for pair in met(asked)} == WORKING
    for number, asked in enumerate(cases):
        judged(tmp_path / str(number), asked, [number, *night])
    print(f"{len(WORKING)} pairs work, met by {len(cases)} cases")


ORDER = [*METHODS, *FEATURES]
PAIRS = [pair for pair in combinations(ORDER, 2) if frozenset(pair) in WORKING]
DRAWN = scaled(200)
"""How many of these are tried: about 2 s each; the `long` profile takes all."""


@pytest.mark.slow
@pytest.mark.parametrize("first", ORDER[:-1])
def test_each_pair_that_works_by_itself(first: str, tmp_path: Path, night: list[int]) -> None:
    """Of a random sample, which is the same for every parameter."""
    drawn = np.random.default_rng([200, *night]).permutation(len(PAIRS))[:DRAWN]
    for one, other in (PAIRS[number] for number in drawn):
        if one == first:
            judged(tmp_path / other, method_for((one, other)), [ORDER.index(one), ORDER.index(other), *night])
