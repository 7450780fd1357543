"""Capabilities tried together on small tables; what goes out is judged by listing all tables that agree with it."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product
from math import lgamma, prod
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from sdc.commands.cli import app
from sdc.config import capabilities
from sdc.config import features as table
from sdc.config.methods import METHODS, SETTINGS_OF
from sdc.config.release import ReleaseConfig
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NotReleasableError, SdcError
from sdc.record.ledger import new_ledger
from sdc.run_format import TOTAL
from sdc.server.service.prepare import folder_of, prepare
from sdc.server.service.service import open_service
from sdc.server.simulation.run import ServerSimulation, tried
from sdc.stages.build import Build, open_build
from sdc.stages.finished import space_of_run
from sdc.stages.release import upload
from sdc.stages.stages import ALONE, run_all, run_stage, stages_of
from sdc.stages.table import sweep_facts
from tests.helpers.folders import contents
from tests.helpers.services import swept
from tests.reference import Fact, exact, feasible, impossible

VARIABLES = {"a": ("a0", "a1"), "d": ("d0", "d1", "d2"), "c": ("c0", "c1")}
NAMES, SIZES = tuple(VARIABLES), tuple(map(len, VARIABLES.values()))
COARSER = (0, 0, 1)  # the a of each d
LOW = (True, True, False)  # which d are in the lower band of what was published before
EMPTY = (2, 1)  # the d and c that nobody has, and so nobody of its a
WIDTH, SMALL, PROBABILITY, ROUND, BASE, N, GROUP, FEW, VALUES = 2, 2, 0.95, 40, 3, 4, 4, 2, 3
FRACTION = 0.25
LOSSES, LOSS = {"intruder": {"none": 0.5}, "agency": {"right": 1.0, "wrong": 0.25}}, 0.9
RICH = ["csv", *table.RICH]
CELLS = 2
CONFIG: dict[str, Any] = {
    "name": "case",
    "table": {"path": "table.csv", "variables": [*NAMES]},
    "risk": {"min_width": WIDTH, "small_count": SMALL},
    "release": {
        "annealing": {"chains": 1, "steps": 200, "rounds": 2},
        "simulatable": {"draws": 20, "share": 0.1},
        "neighbourhood": {"rounds": 2},
    },
    "assessment": "proven",
    "execution": {"cluster": "in-process"},
    "output": {"folder": "runs"},
}
ASKED: dict[str, dict[str, Any]] = {
    table.ZEROS: {"table": {"structural_zeros": "zeros.yaml"}},
    table.HIERARCHIES: {"table": {"hierarchies": {"place": ["a", "d"]}}},
    table.MISSING: {"table": {"path": "missing.csv", "missing_counts": True}},
    table.WEIGHT: {"table": {"weight": "w"}, "weighted": {"round": ROUND}},
    "earlier": {
        "earlier": [
            {"folder": "before.csv", "variables": {"band": {"of": "d", "groups": {"low": ["d0", "d1"], "high": "*"}}}}
        ]
    },
    "ledger": {"ledger": "ledger"},
    table.OBJECTIVE: {"release": {"objective": "reconstruction"}},
    table.REQUIRE: {"release": {"require": ["c"]}},
    table.FORBID: {"release": {"forbid": ["d*c"]}},
    table.ONLY: {"release": {"required_only": True}},
    table.MINUTES: {"release": {"minutes": 60.0}},
    table.AT_LEAST: {"release": {"at_least": {"cells": CELLS}}},
    table.IN_PART: {"release": {"protect": [{"of": "d*c"}]}},  # which has all that the table has of a too
    table.ROUND: {"release": {"protect": [{"of": "d*c", "by": "rounding", "base": BASE}]}},
    table.COARSEN: {"release": {"protect": [{"of": "d*c", "by": "recoding"}]}},
    "risk.min_frequency": {"risk": {"min_frequency": N}},
    "risk.attribute_disclosure": {"risk": {"attribute_disclosure": {"sensitive": ["c"], "most": GROUP}}},
    "risk.posterior": {"risk": {"posterior": {"max_probability": PROBABILITY, "losses": LOSSES, "max_loss": LOSS}}},
    "risk.min_values": {"risk": {"min_values": {"least": VALUES, "include_zero": True}}},
    table.OUTER: {"risk": {"accept_undecided": True}},
    table.SHARP: {"assessment": "sharp"},
    "labels": {"labels": {"variables": {"a": {"label": "Region"}}}},
    table.FORMATS: {"publication": {"formats": RICH}},
    table.CHILDREN: {"publication": {"children": ["c"]}},
    table.LISTED: {"publication": {"zeros": True}},
    table.TOTALS: {"publication": {"totals": True}},
    table.KEY: {"publication": {"signing_key": "key.pem"}},
    table.UPLOAD: {"output": {"upload": "memory://case"}},
    "curve": {"curve": {"min_width": [1, WIDTH]}},
    "remedies": {"remedies": {"variables": 1}},
    "posterior": {"posterior": {}},
    table.MODEL: {"posterior": {"laws": ["released", "[a,d][c]"]}},
    table.UNIQUES: {"uniques": {"fraction": FRACTION, "model": "released"}},
    table.ATTACK: {"attack": {"seeds": 0}},
    "server": {"server": {"slot": 0}},
    table.DRAWING: {"server": {"rules": [{"rule": "simulatable", "draws": 8, "share": 0.1}]}},
    **{method: {"release": {"method": method}} for method in METHODS},
}
"""What a config that asks for each has."""


def config(asked: Sequence[str], **more: Any) -> dict[str, Any]:
    """The config that asks for all of these."""
    found = CONFIG | more
    # how is said where in_part is
    for name in sorted(asked, key=lambda name: name in (table.ROUND, table.COARSEN)):
        for section, value in ASKED[name].items():
            joined = isinstance(value, dict) and isinstance(found.get(section), dict)
            found = found | {section: found[section] | value if joined else value}
    if table.MISSING in asked:
        kept = {key: own for key, own in found["table"].items() if key != "variables"}  # the file is read as it is
        found = found | {"table": kept}
    if {table.ROUND, table.COARSEN} <= {*asked}:
        ways = {"of": "d*c", "by": ["recoding", "rounding"], "base": BASE}
        found = found | {"release": found["release"] | {"protect": [ways]}}
    if "risk.attribute_disclosure" in asked and {*table.IN_PARTS} & {*asked}:
        # with a group of 3 or 4 that lacks a category it would not go out in part either
        few = {
            "attribute_disclosure": ASKED["risk.attribute_disclosure"]["risk"]["attribute_disclosure"] | {"most": FEW}
        }
        found = found | {"risk": found["risk"] | few}
    below = {table.HIERARCHIES, table.ROUND} <= {*asked}  # whose sums by a would not be held
    if below or (table.FORBID in asked and {*table.IN_PARTS} & {*asked}):
        (part,) = found["release"]["protect"]
        found = found | {"release": found["release"] | {"protect": [part | {"of": "a*c"}]}}
    if {table.UNIQUES, table.WEIGHT} <= {*asked}:
        found = found | {"uniques": {}}  # by weights
    if table.CHILDREN in asked and {*table.IN_PARTS} & {*asked}:
        # beside what goes out in part it does not come by itself
        found = found | {"release": found["release"] | {"require": ["c"]}}
    if "curve" in asked and {*table.BEFORE} & {*asked}:
        # of these alone it is asked what they find beside what was published before
        found = found | {"curve": found["curve"] | {"methods": ["ordered", "best"]}}
    method = found["release"].get("method", ReleaseConfig().method)
    searches = {method, *found.get("curve", {"methods": ()}).get("methods", ["decomposable"])}
    used = {k: value for k, value in found["release"].items() if {*SETTINGS_OF.get(k, searches)} & searches}
    return found | {"release": used}


_NESTED = [*impossible((a, d, c) for a, d, c in product(*map(range, SIZES)) if a != COARSER[d])]


@dataclass(frozen=True)
class Case:
    """Microdata, a method and features, in a folder of their own.

    counts   (2, 3, 2) dense; weights of the records, in the order of `records`
    """

    folder: Path
    asked: tuple[str, ...]
    counts: np.ndarray
    weights: tuple[int, ...]

    @property
    def records(self) -> np.ndarray:
        """(records, 3) codes."""
        return np.repeat(np.argwhere(self.counts), self.counts[self.counts > 0], axis=0)

    @property
    def at_risk(self) -> np.ndarray:
        """Places of small cells, in C order."""
        return np.flatnonzero((self.counts > 0) & (self.counts <= SMALL))

    @property
    def known(self) -> list[Fact]:
        """What everybody knows before anything is released now."""
        found = list(exact(self.counts, ()))
        if table.ZEROS in self.asked:
            found += impossible((1, d, 1) for d in range(3))
        if table.HIERARCHIES in self.asked:
            found += _NESTED
        if "earlier" in self.asked:
            for low, c in product((True, False), range(2)):
                inside = [(a, d, c) for a in range(2) for d in range(3) if LOW[d] is low]
                total = sum(int(self.counts[cell]) for cell in inside)
                found.append(Fact(frozenset(inside), total, total))
        if "ledger" in self.asked:
            found += [fact for axis in range(3) for fact in exact(self.counts, (axis,))]
        return found

    @property
    def whole(self) -> tuple[str, ...]:
        """The names of the whole table: of levels of one axis the finest."""
        return ("d", "c") if table.HIERARCHIES in self.asked else NAMES

    @cached_property
    def build(self) -> Build:
        """Its build, once it was run, as `run` does."""
        return open_build(self.folder / "case.yaml")

    @property
    def run(self) -> Path:
        return self.build.folder.path

    @property
    def is_run(self) -> bool:
        """Whether its build has released something; where it has levels other ways to say so are asked."""
        return table.HIERARCHIES not in self.asked and self.is_released

    @property
    def is_released(self) -> bool:
        return (self.folder / "runs").is_dir() and (self.run / "release").is_dir()

    @property
    def levels(self) -> dict[str, tuple[str, dict[str, tuple[str, ...]]]]:
        """Of each published level with merged categories its axis, and which categories of that are in each."""
        found = dict[str, tuple[str, dict[str, tuple[str, ...]]]]()
        with (self.run / "release" / "data_dictionary.csv").open() as file:
            for row in csv.DictReader(file):
                if row["variable"].endswith("_merged"):
                    _, sets = found.setdefault(row["variable"], (row["variable"].removesuffix("_merged"), {}))
                    sets[row["category"]] = tuple(row["category"].split(" or "))
                elif row["variable"] not in NAMES:  # of the bands of what was published before
                    bands = {True: "low", False: "high"}
                    found[row["variable"]] = (
                        "d",
                        {
                            name: tuple(d for d, low in zip(VARIABLES["d"], LOW, strict=True) if low is is_low)
                            for is_low, name in bands.items()
                        },
                    )
        return found

    def near(
        self, names: Sequence[str], counts: Mapping[tuple[str, ...], int], margins: Iterable[str]
    ) -> Iterator[Fact]:
        """That each cell of a rounded sub-table and of its margins is less than the base from what is listed."""
        for kept in ([*names], *(text.split("*") for text in margins)):
            sums = Counter[tuple[str, ...]]()
            for cell, count in counts.items():
                sums[tuple(c for v, c in zip(names, cell, strict=True) if v in kept)] += count
            for cell in product(*(VARIABLES[name] for name in names if name in kept)):
                low, high = max(sums[cell] - BASE + 1, 0), sums[cell] + BASE - 1
                yield Fact(self.inside([name for name in names if name in kept], cell), low, high)

    def inside(self, names: Sequence[str], cell: Sequence[str]) -> frozenset[tuple[int, ...]]:
        """The cells that are in one of a sub-table, on whatever levels."""
        levels = self.levels if {*names} - {*NAMES} else {}
        told = [(v, c) for v, c in zip(names, cell, strict=True) if c != TOTAL]
        kept = [(levels[v][0], levels[v][1][c]) if v in levels else (v, (c,)) for v, c in told]
        every = product(*map(range, SIZES))
        return frozenset(codes for codes in every if all(VARIABLES[v][codes[NAMES.index(v)]] in c for v, c in kept))

    def labels(self, names: Sequence[str]) -> Iterator[Fact]:
        """That each category that the files name has a record: those of variables, and those in a merged one."""
        total = int(self.counts.sum())
        for name in (name.removesuffix("_merged") for name in names):
            for category in VARIABLES[name] if name in VARIABLES else self.levels[name][1]:
                own = self.inside([name], [category])
                if any(self.counts[cell] for cell in own):
                    yield Fact(own, 1, total)

    @property
    def told(self) -> list[Fact]:
        """What the files say of sub-tables that went out in part, rounded or with merged categories."""
        found = list[Fact]()
        if not {*table.IN_PARTS} & {*self.asked} or not self.is_released:
            return found
        for one in metadata_of(self.run / "release")["resources"]:
            names, how = one.get("sub_table", ()), one.get("in_part", {})
            if one["format"] != "csv" or not (how or {*names} - {*NAMES}):
                continue
            with (self.run / "release" / one["path"]).open() as file:
                header, *rows = csv.reader(file)
            names = header[: len(names)]
            found += self.labels(names)
            listed = {tuple(row[: len(names)]): row[len(names)] for row in rows}
            if "rounded_to" in how:
                counts = {cell: int(count) for cell, count in listed.items() if TOTAL not in cell}
                found += self.near(names, counts, map("*".join, how["margins"]))
                continue
            fields = [field["constraints"]["enum"] for field in one["schema"]["fields"][: len(names)]]
            totals = [TOTAL] if any(TOTAL in cell for cell in listed) else []
            for cell in product(*([*categories, *totals] for categories in fields)):
                if count := listed.get(cell, "0"):
                    found.append(Fact(self.inside(names, cell), int(count), int(count)))
        return found

    def tables(self, facts: Sequence[Fact]) -> np.ndarray:
        """(tables, cells) that agree with these and with what is known."""
        return feasible(SIZES, [*self.known, *facts, *self.told])

    def agree(self, released: Sequence[Sequence[str]]) -> np.ndarray:
        """The same for sub-tables by names."""
        return self.tables(self.exactly(released))

    def exactly(self, released: Iterable[Sequence[str]]) -> list[Fact]:
        """All counts of sub-tables by names."""
        return [fact for names in released for fact in exact(self.counts, [*map(NAMES.index, names)])]

    def narrow(self, facts: Sequence[Fact], has_run: bool = False) -> bool:
        """Whether some small cell has not the width for whoever has these and what is known, and what a run told."""
        told = self.told if has_run else []
        found = feasible(SIZES, [*self.known, *facts, *told])[:, self.at_risk]
        return bool((found.max(axis=0) - found.min(axis=0) < WIDTH).any())

    def require_safe(self, released: Sequence[Sequence[str]]) -> None:
        """Every small cell keeps the width for whoever has all that is public, and a doubtful truth where asked."""
        found = self.agree(released)[:, self.at_risk]
        assert (found.max(axis=0) - found.min(axis=0) >= WIDTH).all()
        if "risk.min_frequency" in self.asked:
            assert all(map(self.keeps_rule, released))
        if "risk.posterior" in self.asked:
            likely = self.probabilities(released)[np.arange(len(self.at_risk)), self.counts.reshape(-1)[self.at_risk]]
            assert (likely <= PROBABILITY + 1e-9).all()
        assert self.has_values(found)

    def has_values(self, tables: np.ndarray) -> bool:
        """Whether each small cell has enough values in these, 0 among them, where that is asked."""
        values = [{*column.tolist()} for column in tables.T] if "risk.min_values" in self.asked else []
        return all(len(own) >= VALUES and 0 in own for own in values)

    def keeps_rule(self, names: Sequence[str]) -> bool:
        """Whether neither the counts of a sub-table nor any of their sums is from 1 to n - 1."""
        own = [NAMES.index(name) for name in names]
        kept = (set(some) for size in range(len(own) + 1) for some in combinations(own, size))
        sums = (self.counts.sum(axis=tuple(axis for axis in range(3) if axis not in some)) for some in kept)
        return not any(((counts > 0) & (counts < N)).any() for counts in sums)

    def probabilities(self, released: Sequence[Sequence[str]]) -> np.ndarray:
        """(small cells, counts) under the law `released`: a table is as likely as it has arrangements of records."""
        tables = self.agree(released)
        log = -np.array([sum(lgamma(n + 1) for n in one) for one in tables.tolist()])
        likely = np.exp(log - log.max())
        counts = np.arange(self.counts.sum() + 1)
        hit = tables[:, self.at_risk, None] == counts
        return np.asarray((hit * likely[:, None, None]).sum(axis=0) / likely.sum())


def made(folder: Path, asked: Sequence[str], seed: Sequence[int]) -> Case:
    """A random case of which the one-way sub-tables may go out beside all that is known, with its files."""
    rng = np.random.default_rng(seed)
    while True:
        counts = np.zeros(SIZES, np.int64)
        for d, c in product(range(3), range(2)):
            if (d, c) != EMPTY:
                counts[COARSER[d], d, c] = rng.choice([1, 1, 2, 3, 4] if d < 2 else [3, 4])
        weights = tuple(rng.integers(1, 40, counts.sum()).tolist())
        case = Case(folder, tuple(asked), counts, weights)
        if "risk.min_frequency" in asked and not all(case.keeps_rule([name]) for name in NAMES):
            continue
        found = case.agree([["a"], ["d"], ["c"]])[:, case.at_risk]
        if len(case.at_risk) and (found.max(axis=0) - found.min(axis=0) >= WIDTH).all() and case.has_values(found):
            break
    folder.mkdir(parents=True, exist_ok=True)
    _write(case)
    return case


def _write(case: Case) -> None:
    rows = [[VARIABLES[name][code] for name, code in zip(NAMES, record, strict=True)] for record in case.records]
    lines = [",".join([*row, str(w)]) for row, w in zip(rows, case.weights, strict=True)]
    (case.folder / "table.csv").write_text("\n".join([",".join([*NAMES, "w"]), *lines]) + "\n")
    _write_missing(case)
    (case.folder / "zeros.yaml").write_text("[{a: a1, c: c1}]\n")
    low = {
        (band, c): int(case.counts[:, [i for i in range(3) if LOW[i] is band], c].sum())
        for band in (True, False)
        for c in (0, 1)
    }
    told = [f"{'low' if band else 'high'},c{c},{n}" for (band, c), n in low.items()]
    (case.folder / "before.csv").write_text("\n".join(["band,c,count", *told]) + "\n")
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    (case.folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    content = config(case.asked, output={"folder": str(case.folder / "runs")})
    (case.folder / "case.yaml").write_text(yaml.safe_dump(content))
    if "ledger" in case.asked:
        new_ledger(case.folder / "ledger")
        one_way = {"require": ["a", "d", "c"], "forbid": [{"all": 2}]}
        first = {"name": "first", "release": one_way, "output": content["output"]}
        kept = [name for name in ("ledger", table.ZEROS, table.HIERARCHIES) if name in case.asked]
        (case.folder / "first.yaml").write_text(yaml.safe_dump(config(kept, **first)))
        run_all(open_build(case.folder / "first.yaml"), IN_PROCESS)


def _write_missing(case: Case) -> None:
    """Every cell and the one-way totals, but nothing of the four cells of a0 with d0 or d1."""
    lines = [",".join([*NAMES, "count"])]
    for codes in product(*map(range, SIZES)):
        count = "" if codes[0] == 0 and codes[1] < 2 else int(case.counts[codes])
        lines.append(",".join([*(VARIABLES[name][code] for name, code in zip(NAMES, codes, strict=True)), str(count)]))
    for axis, name in enumerate(NAMES):
        sums = case.counts.sum(axis=tuple(other for other in range(3) if other != axis)).tolist()
        for category, total in zip(VARIABLES[name], sums, strict=True):
            lines.append(",".join([*(category if own == name else TOTAL for own in NAMES), str(total)]))
    (case.folder / "missing.csv").write_text("\n".join(lines) + "\n")


def sdc(*words: Any) -> tuple[int, Any]:
    """The status of a command in this process, and the document that it prints; its refusal is raised."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    if isinstance(done.exception, SdcError):
        raise done.exception
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


def metadata_of(folder: Path) -> Any:
    return json.loads((folder / "datapackage.json").read_text())


def published(folder: Path) -> list[list[str]]:
    """The sub-tables whose counts a folder has, by names."""
    metadata = metadata_of(folder)
    fields = {
        one["path"]: [f["name"] for f in one.get("schema", {}).get("fields", ())] for one in metadata["resources"]
    }
    resources = [one for one in metadata["resources"] if "in_part" not in one]
    found = [one["sub_table"] for one in resources if "count" in fields[one["path"]]]
    # those with merged categories are read by the case
    found = [names for names in found if {*names} <= {*NAMES}]
    return [names for place, names in enumerate(found) if names not in found[:place]]


def judge_run(case: Case) -> None:
    """The build of a case: what it publishes is safe, and has all that was asked for."""
    run_all(case.build, IN_PROCESS)
    judge_publication(case, case.run / "release")
    judge_upload(case)
    for name in ("curve", "remedies", "posterior", "uniques", "attack"):
        assert (case.run / name).exists() == (name in case.asked)
    found = json.loads((case.run / "search" / "search.json").read_text())
    # what everything is worth is told as well, and what is empty is not
    assert ("halvings" in found) == (table.OBJECTIVE in case.asked)


def judge_upload(case: Case) -> None:
    """What was published and nothing else is where it is to go, or nowhere."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    upload(case.build, print)
    there = {path.removeprefix("/case/"): files.cat_file(path) for path in files.find("/")}
    assert there == (contents(case.run / "release") if table.UPLOAD in case.asked else {})


def judge_publication(case: Case, folder: Path) -> None:
    """A published folder."""
    released, asked = published(folder), case.asked
    metadata = metadata_of(folder)
    case.require_safe(released)
    if table.REQUIRE in asked:
        assert any("c" in names for names in released)
    if table.ONLY in asked:
        # and what was public before: of a hierarchy the level that the bands are too
        public = {"ledger": [("a",), ("d",)], "earlier": [("a", "c")]}
        # what is wished for in part may fit whole
        public |= {part: [("d", "c"), ("a", "c")] for part in table.IN_PARTS}
        assert {*map(tuple, released)} <= {("c",), (), *(names for name in asked for names in public.get(name, ()))}
    if table.FORBID in asked:
        assert not any({"d", "c"} <= set(names) for names in released)
    if table.AT_LEAST in asked:
        within = {own for names in released for size in range(1, 4) for own in combinations(sorted(names), size)}
        assert sum(prod(len(VARIABLES[name]) for name in own) for own in within) >= CELLS
    named = "labels" in asked and any("a" in names for names in released)
    assert ("Region" in (folder / "data_dictionary.csv").read_text()) == named
    formats = {one["format"] for one in metadata["resources"] if "sub_table" in one}
    assert (formats == set(RICH) - {"xlsx", "pxapi"}) == (table.FORMATS in asked)
    assert (["c"] in released) or table.CHILDREN not in asked
    assert metadata.get("zeros", False) == (table.LISTED in asked)
    assert metadata.get("totals", False) == (table.TOTALS in asked)
    assert (folder / "SHA256SUMS.sig").exists() == (table.KEY in asked)


def judge_verbs(case: Case) -> set[str]:
    """All verbs that work with all that the case asks for, each on its config or its finished run; their names."""
    found = {verb for verb in JUDGES if not any(capabilities.refusal(verb, name) for name in case.asked)}
    for verb in sorted(found):
        JUDGES[verb](case)
    return {"run", *found} | (judge_server(case) if "server" in case.asked else set())


def _file(case: Case) -> Path:
    return case.folder / "case.yaml"


def _judge_plan(case: Case) -> None:
    status, told = sdc("plan", _file(case), "--quick")
    assert (status, told["records"]) == (0, case.counts.sum())


def _judge_verify(case: Case) -> None:
    status, told = sdc("verify", case.run)
    assert told["verified"]
    assert status in ((0, 3) if table.OUTER in case.asked else (0,))


def _judge_compare(case: Case) -> None:
    status, told = sdc("compare", case.run, case.run)
    assert (status, told["config"], told["came"], told["went"]) == (0, {}, [], [])


def _judge_explore(case: Case) -> None:
    """Whoever has the sub-tables of a conflict has a small cell too narrow; what is public completes none."""
    space = space_of_run(case.run)
    named = [[st.names(t, space.schema) for t in one.of] for one in space.conflicts]
    for names in (one for one in named if {*chain.from_iterable(one)} <= {*NAMES}):
        assert case.narrow(case.exactly(names))
    assert {st.full(len(space.schema)) in space.released} == {[*case.whole] in _released(case)}
    assert not [t for t in space.state.unreleasable if t in space.released]


def _judge_widths(case: Case) -> None:
    status, told = sdc("widths", _file(case))
    named = {tuple(one["sub_table"]) for one in told["widths"]}
    assert status == 0
    whole = set[tuple[str, ...]]() if table.MISSING in case.asked else {case.whole}
    assert {names for names in named if set(names) <= {*NAMES}} >= {("a",), ("d",), ("c",), *whole}


def _judge_sweep(case: Case) -> None:
    """It takes over what the build has made."""
    build, planned = case.build, [stage.name for stage in stages_of(case.build.config)]
    with build.started(planned):
        made = [run_stage(stage, build, IN_PROCESS, lambda text: None).status for stage in ALONE]
    assert made == ["reused", "reused"]
    facts = sweep_facts(build)
    at_risk = len(case.at_risk)
    assert facts["records"] == case.counts.sum()
    # of missing counts some may be small
    assert facts["at_risk_cells"] >= at_risk if table.MISSING in case.asked else facts["at_risk_cells"] == at_risk


def _places(case: Case, cells: list[dict[str, Any]]) -> list[int]:
    """Of cells by names, in C order; of a level what its axis tells."""
    found = []
    for one in cells:
        code = {name: own.index(one["cell"][name]) for name, own in VARIABLES.items() if name in one["cell"]}
        assert ("a" in code) == (table.HIERARCHIES not in case.asked)
        found.append(int(np.ravel_multi_index([code.get("a", COARSER[code["d"]]), code["d"], code["c"]], SIZES)))
    return found


def _released(case: Case) -> list[list[str]]:
    return published(case.run / "release")


def _judge_bounds(case: Case) -> None:
    status, told = sdc("bounds", case.run)
    tables, places = case.agree(_released(case)), _places(case, told["cells"])
    low, high = tables.min(axis=0)[places], tables.max(axis=0)[places]
    outer, inner = (np.array([one[kind] for one in told["cells"]]) for kind in ("outer", "inner"))
    assert status == 0
    assert sorted(places) == case.at_risk.tolist()
    assert ("sharpness" in told) == (table.SHARP in case.asked)
    assert ((outer[:, 0] <= low) & (low <= inner[:, 0]) & (inner[:, 1] <= high) & (high <= outer[:, 1])).all()


def _judge_assess(case: Case) -> None:
    assert sdc("assess", case.run)[0] == 0
    status, told = sdc("assess", case.run, "--min-width", case.counts.sum() + 1)
    assert (status, told["releasable"]) == (3, False)


def _judge_enumerate(case: Case) -> None:
    status, told = sdc("enumerate", case.run, "--limit", 10_000_000)
    assert (status, told["complete"]) == (0, True)
    assert told["feasible_tables"] == len(case.agree(_released(case)))


def _judge_fit(case: Case) -> None:
    """The fitted table has every count that is public whole."""
    status, told = sdc("fit", case.run, "--cells", "all")
    fitted = np.zeros(case.counts.size)
    fitted[_places(case, told["cells"])] = [one["fitted"] for one in told["cells"]]
    assert status == 0
    for fact in case.exactly(_released(case)):
        assert sum(fitted[np.ravel_multi_index(cell, SIZES)] for cell in fact.cells) == pytest.approx(
            fact.low, abs=0.01
        )


def _judge_uniques(case: Case) -> None:
    """The command says of the records that are alone what the build has found, where it was asked."""
    words = [] if table.WEIGHT in case.asked else ["--model", "released", "--fraction", FRACTION]
    kept = case.run / table.UNIQUES
    if not (case.counts == 1).any():
        with pytest.raises(InputError, match="no sample unique"):
            sdc("uniques", case.run, *words)
        return
    status, told = sdc("uniques", case.run, *words)
    assert status == 0
    assert sorted(_places(case, told["cells"])) == np.flatnonzero(case.counts == 1).tolist()
    if table.UNIQUES in case.asked:
        found = pq.read_table(kept / "cells.parquet").column("population_unique").to_pylist()
        assert sorted(found) == pytest.approx(sorted(one["population_unique"] for one in told["cells"]))


def _judge_why(case: Case) -> None:
    status, told = sdc("why", case.run, "a*d*c")
    assert (status, told["released"]) == (0, [*case.whole] in _released(case))


def _judge_redesign(case: Case) -> None:
    status, told = sdc("why", case.run, "a*d*c", "--redesign")
    assert status == 0
    assert "redesign" in told


def _judge_posterior(case: Case) -> None:
    status, told = sdc("posterior", case.run)
    expected = dict(zip(case.at_risk.tolist(), case.probabilities(_released(case)), strict=True))
    assert (status, told["exact"]) == (0, True)
    for place, one in zip(_places(case, told["cells"]), told["cells"], strict=True):
        found = np.zeros(case.counts.sum() + 1)
        found[one["from"] : one["from"] + len(one["probabilities"])] = one["probabilities"]
        assert np.allclose(found, expected[place], atol=1e-6)


def _judge_release(case: Case) -> None:
    status, told = sdc("release", _file(case))
    assert status == 0
    case.require_safe(told["frontier"])


def _judge_publish(case: Case) -> None:
    out = case.folder / "public"
    assert sdc("release", _file(case), "--out", out)[0] == 0
    judge_publication(case, out)


def _is_forbidden(case: Case, *words: Any) -> bool:
    """Whether the config forbids the sub-table of a command, which then says so."""
    if table.FORBID in case.asked:
        with pytest.raises(ConfigError, match=r"d\*c is forbidden by release\.forbid"):
            sdc(*words)
    return table.FORBID in case.asked


def _judge_round(case: Case) -> None:
    """Beside what was published before, and beside what a run releases."""
    if _is_forbidden(case, "round", _file(case), "d*c", "--base", BASE):
        return
    for subject, asked in ((_file(case), "d*c"), *([(case.run, "a*d")] if case.is_run else ())):
        try:
            _, told = sdc("round", subject, asked, "--base", BASE)
        except (InputError, NotReleasableError):
            continue  # it is not proven, or whole already
        names = told["sub_table"]
        counts = {tuple(one["cell"][name] for name in names): one["rounded"] for one in told["cells"]}
        assert not any(count % BASE for count in counts.values())
        facts = [*case.near(names, counts, (text for text in told["margins"] if text != "(total)"))]
        assert all(fact.low <= sum(case.counts[cell] for cell in fact.cells) <= fact.high for fact in facts)
        run = subject == case.run
        assert not case.narrow([*case.exactly(_released(case) if run else []), *facts], has_run=run)


def _judge_suppress(case: Case) -> None:
    """Beside what was published before with the margins, and beside what a run releases."""
    if _is_forbidden(case, "suppress", _file(case), "d*c"):
        return
    for subject, asked in ((_file(case), "d*c"), *([(case.run, "a*d")] if case.is_run else ())):
        run = subject == case.run
        public = case.exactly(_released(case) if run else [["d"], ["c"]])
        try:
            _, told = sdc("suppress", subject, asked)
        except (InputError, NotReleasableError):
            # whole already; or beside what was published before its margins alone tell too much
            assert run or ("earlier" in case.asked and case.narrow(public))
            continue
        names, rows = told["sub_table"], told["cells"]
        public += [
            Fact(case.inside(names, [one[name] for name in names]), one["count"], one["count"])
            for one in rows
            if one["count"] is not None
        ]
        assert not case.narrow(public, has_run=run)


def _relations(case: Case) -> Path:
    """Which published levels are of which axis, for who has nothing but the folder."""
    relations = case.folder / "relations.yaml"
    levels = {
        name: {"of": axis, "groups": {group: [*own] for group, own in sets.items()}}
        for name, (axis, sets) in case.levels.items()
    }
    relations.write_text(yaml.safe_dump([{"folder": str(case.run / "release"), "variables": levels}]))
    return relations


def _judge_check(case: Case) -> None:
    """What a folder tells by itself, to whoever knows nothing else."""
    status, told = sdc("check", case.run / "release", "--cells", "all", "--relations", _relations(case))
    known = list[Fact]()
    if any(one["variable"] == "a" for one in metadata_of(case.run / "release").get("levels", ())):
        known += _NESTED
    tables = feasible(SIZES, [*case.exactly(_released(case)), *case.told, *known])
    assert (status, told["consistent"]) == (0, True)
    for one in told["cells"]:
        inside = [
            all(VARIABLES[name][cell[NAMES.index(name)]] == value for name, value in one["cell"].items())
            for cell in product(*map(range, SIZES))
        ]
        sums = tables[:, inside].sum(axis=1)
        assert one["outer"][0] <= sums.min() <= one["inner"][0]
        assert one["inner"][1] <= sums.max() <= one["outer"][1]


def _judge_attack(case: Case) -> None:
    """By independence alone; what is certain of it. Refused where too little is published."""
    words = "attack", case.run / "release", "--truth", case.run, "--relations", _relations(case), "--seeds", 0
    tables = [one for one in metadata_of(case.run / "release")["resources"] if one.get("sub_table")]
    axes = {case.levels.get(name, (name,))[0] for one in tables for name in one["sub_table"]}
    if all({"withheld", "rounded_to"} & {*one.get("in_part", ())} for one in tables) or not {*case.whole} <= axes:
        with pytest.raises(InputError, match=r"no table of counts|has exact counts of all records|is not published"):
            sdc(*words)
        return
    status, told = sdc(*words)
    found, agreeing_tables = told["truth"], case.agree(_released(case))
    places = _places(case, found["cells"])
    right = [round(one["guessed"]["independence"]) == one["count"] for one in found["cells"]]
    assert (status, found["at_risk_cells"], sorted(places)) == (0, len(case.at_risk), case.at_risk.tolist())
    for place, one in zip(places, found["cells"], strict=True):
        assert one["count"] == case.counts.reshape(-1)[place]
        assert one["outer"][0] <= agreeing_tables[:, place].min()
    assert found["right"]["independence"]["at_risk"] == sum(right)


def judge_server(case: Case) -> set[str]:
    """A server that is asked for everything, and the verbs about servers; their names."""
    build = case.build
    assert build.config.server is not None
    swept(build)
    prepare(build)
    with open_service(build) as service:
        for sub_table in st.subsets(st.full(len(NAMES)), build.made.table.schema):
            if sub_table:
                service.ask(sub_table, "somebody").result(600)
        released = [st.names(element, build.made.table.schema) for element in service.state.released.frontier]
        assert ("labels" in case.asked) == bool(service.texts.labels.variables)
    case.require_safe(released)
    assert {name for names in released for name in names} >= {*case.whole}
    folder = folder_of(build).path
    status, told = sdc("audit", folder, "--table", _file(case))
    assert (status, told["verified"], told["failures"]) == (0, True, [])
    status, told = sdc("replay", folder, "--rules", "config", "--table", _file(case), "--out", case.folder / "replay")
    course = told["replay"]["as_it_would_have_been"]["config"]
    assert (status, course["released"][-1]) == (0, told["replay"]["as_it_was"]["released"][-1])
    facts = tried(build, ServerSimulation.of(build.config.server, "config", "uniform", streams=2), IN_PROCESS)
    assert facts["first_release"] == len(NAMES)
    return {"audit", "replay", "simulate"}


JUDGES = {name.removeprefix("_judge_"): judge for name, judge in globals().items() if name.startswith("_judge_")}
