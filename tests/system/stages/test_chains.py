"""Chains of publications of one small table, of every kind: what is public is judged from the published files alone.

    python -m tests.system.stages.test_chains CHAINS [SEED] [FIRST]

A chain is its seed and number. A reader who shares no code with the product turns each file into facts, labels and
totals among them, and `tests.reference` lists all tables that agree. The axes are A, B, C; R is coarser than A.
"""

import csv
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NotReleasableError, SdcError
from sdc.public.earlier import OUTER_CATEGORY
from sdc.record.ledger import new_ledger
from sdc.run_format import TOTAL
from sdc.server.service.prepare import prepare
from sdc.server.service.service import open_service
from sdc.server.web.answers import FORMATS, Answer
from sdc.stages.build import open_build
from tests import reference
from tests.helpers.builds import built, written
from tests.helpers.capability_cases import sdc
from tests.helpers.services import swept
from tests.reference import Cell, Fact, TooManyTablesError, every_cell

MOST, SIZES = 60_000, ([4], [4, 2], [3, 2], [3, 3], [2, 2, 2], [3, 2, 2], [4, 2, 2])
BASE, WAYS = 3, {"suppressed": "suppression", "rounded": "rounding", "recoded": "recoding"}
KINDS = (*["whole"] * 4, "all that fits", *[*WAYS] * 2, "suppressed or rounded", "recoded or suppressed")
VERBS, SERVER = ("sdc suppress", "sdc round") * 2, ("server",) * 5
SUFFIXES = {"csv": ".csv", "parquet": ".parquet", "json-stat": ".json", "px": ".px"}
# what is refused unjudged
SAID = ("cannot be expressed", "in the release unchanged", "is not rounded, for its sums", "and the config has none")


@dataclass(frozen=True)
class World:
    """A table, the R of each A where it has that level, an A and B that nobody has together, and what is promised."""

    folder: Path
    counts: np.ndarray
    groups: tuple[int, ...]
    zeros: tuple[int, ...]
    small: int
    width: int

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip("ABC", self.counts.shape, strict=False))

    def sets(self, name: str) -> dict[str, frozenset[int]]:
        """The categories of a variable, and which codes of its axis each has."""
        if name == "R":
            return {f"r{g}": frozenset(np.flatnonzero(np.array(self.groups) == g).tolist()) for g in {*self.groups}}
        return {f"{name.lower()}{code}": frozenset([code]) for code in range(self.sizes[name])}

    def inside(self, chosen: Collection[tuple[str, frozenset[int]]]) -> frozenset[Cell]:
        """The cells that have one of these codes in each of these variables."""
        pattern = [("ABC".index(axis_of(name)), codes) for name, codes in chosen]
        return frozenset(cell for cell in every_cell(self.counts.shape) if reference.matches(cell, pattern))

    def labels(self, name: str, categories: Collection[str]) -> list[Fact]:
        """That each of these has a record."""
        own, total = self.sets(name), int(self.counts.sum())
        return [Fact(self.inside([(name, own[category])]), 1, total) for category in categories]

    def agreeing(self, told: Sequence["Told"]) -> np.ndarray:
        """All tables that agree; TooManyTablesError where they are too many."""
        none = self.inside([("A", frozenset(self.zeros[:1])), ("B", frozenset(self.zeros[1:]))] if self.zeros else [])
        known = [*reference.exact(self.counts, ()), *reference.impossible(none if self.zeros else ())]
        return reference.feasible(self.counts.shape, [*known, *(fact for one in told for fact in one.facts)], MOST)

    def is_narrow(self, tables: np.ndarray, inside: frozenset[Cell]) -> bool:
        places = [place for place, cell in enumerate(every_cell(self.counts.shape)) if cell in inside]
        return bool(np.ptp(tables[:, places].sum(axis=1)) < self.width)

    def narrow(self, told: Sequence["Told"]) -> list[str]:
        """Whose width is less than promised to who has all that was told: cells of the table, and of what is in part.

        But what was told before a table in part, or beside it whole. What was rounded may be published whole later.
        """
        tables, found = self.agreeing(told), list[str]()
        assert (tables == self.counts.reshape(-1)).all(axis=1).any(), "the files contradict the table"
        at_risk = [frozenset([cell]) for cell in every_cell(self.counts.shape)]
        for number, one in [(-1, Told(own=dict.fromkeys(at_risk, frozenset()))), *enumerate(told)]:
            for inside, rounded in one.own.items():
                is_small = 0 < sum(self.counts[cell] for cell in inside) <= self.small
                is_whole = any(rounded <= whole for later in told[number:] for whole in later.exactly) and rounded
                if is_small and not is_whole and self.is_narrow(tables, inside):
                    before = [*told[: max(number, 0)], Told(one.whole)]
                    if number < 0 or not self.is_narrow(self.agreeing(before), inside):
                        found.append(f"{sorted(inside)} of publication {number}")
        return found


def axis_of(name: str) -> str:
    return name.split("_")[0].replace("R", "A")


@dataclass
class Told:
    """What one publication says."""

    facts: list[Fact] = field(default_factory=list)
    whole: list[Fact] = field(default_factory=list)  # of tables that are told exactly
    exactly: list[frozenset[str]] = field(default_factory=list)  # the variables of these
    own: dict[frozenset[Cell], frozenset[str]] = field(default_factory=dict)  # cells of others; if rounded, their names


class Reader:
    """Reads CSV files, and the metadata beside them, with the csv and json modules."""

    def __init__(self, world: World, folder: Path, code_lists: frozenset[str]) -> None:
        self.world, self.told, self.relations = world, Told(), dict[str, Any]()
        about = folder / "datapackage.json"
        metadata = json.loads(about.read_text()) if about.exists() else {}
        self.code_lists = list[str]()
        tables = {one["path"]: one for one in metadata.get("resources", ()) if one.get("sub_table")}
        # of files alone nothing says it, and their agency tells it elsewhere
        self.lists = {*metadata.get("code_lists", ())} if metadata else code_lists
        for path in sorted(folder.glob("*.csv")):
            if not metadata or path.name in tables:
                self._read(path, tables.get(path.name, {}))

    def _sets(self, name: str, texts: Sequence[str]) -> dict[str, frozenset[int]]:
        """Of a merged category that it is one or another of its axis."""
        if "_merged" not in name:
            return self.world.sets(name)
        own, axis = self.world.sets(name.partition("_merged")[0]), self.world.sets(axis_of(name))
        outer = [text for text in texts if text.startswith(OUTER_CATEGORY)]
        named = [part for text in texts if text not in outer for part in text.split(" or ")]
        rest = sorted(frozenset().union(*axis.values()).difference(*(own[c] for c in named)))
        own |= {text: frozenset([rest[k]] if text != outer[-1] else rest[k:]) for k, text in enumerate(outer)}
        found = {t: frozenset().union(*(own[part] for part in t.split(" or "))) for t in texts}
        groups = {text: [c for c, codes in axis.items() if codes <= inside] for text, inside in found.items()}
        self.relations[name] = {"of": axis_of(name), "groups": groups}
        self.told.facts += self.world.labels(name.partition("_merged")[0], () if name in self.lists else named)
        return found

    def _read(self, path: Path, about: dict[str, Any]) -> None:
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        (measure,) = (name for name in header if name.startswith("count") and name != "count_status")
        names, base = header[: header.index(measure)], int(measure.removeprefix("count").rpartition("_")[2] or 0)
        listed = {tuple(row[: len(names)]): row[len(names)] for row in rows}
        fields = {one["name"]: one for one in about.get("schema", {}).get("fields", ())}
        self.code_lists += [v for v in names if v in self.lists and v not in self.code_lists]
        listed_of = {name: [c for c in fields[name]["constraints"]["enum"] if c != TOTAL] for name in fields and names}
        sets = [self._sets(name, listed_of.get(name, ())) for name in names]
        totals = {tuple(v for v, c in zip(names, cell, strict=True) if c != TOTAL) for cell in listed}
        # sums of rounded counts are near the true ones too where the metadata, or rows of totals, say so
        margins = {*map(tuple, about.get("in_part", {}).get("margins", totals))} if base else totals
        found = Told()
        for cell in product(*([*one, TOTAL] for one in sets)):
            kept = [(v, one[c]) for v, one, c in zip(names, sets, cell, strict=True) if c != TOTAL]
            inside, text = self.world.inside(kept), listed.get(cell, "0")
            if not inside or (len(kept) < len(names) and tuple(v for v, _ in kept) not in margins):
                continue
            if base:
                both = ((own, zip(cell, own, strict=True)) for own in listed if TOTAL not in own)
                count = sum(int(listed[own]) for own, pairs in both if all(c in (TOTAL, d) for c, d in pairs))
                found.facts.append(Fact(inside, max(count - base + 1, 0), count + base - 1))
            elif text:
                found.facts.append(Fact(inside, int(text), int(text)))
            if (base or not text) and TOTAL not in cell:
                found.own[inside] = frozenset(names if base else ())
        if found.own:
            labelled = [v for v in names if v not in self.lists and "_merged" not in v]
            found.facts += [fact for v in labelled for fact in self.world.labels(v, self.world.sets(v))]
            self.told.own |= found.own
            # its sums may be whole tables
            hidden = {
                tuple(v for v, c in zip(names, cell, strict=True) if c != TOTAL) for cell in listed if not listed[cell]
            }
            exactly = [] if base else [margin for margin in totals - hidden if margin != tuple(names)]
        else:
            self.told.whole += found.facts
            exactly = [tuple(names)]
        self.told.exactly += [frozenset([*own, *("R" for name in own if name == "A")]) for own in exactly]
        self.told.facts += found.facts


def world_of(rng: np.random.Generator, folder: Path) -> World:
    """With an at-risk cell that is wide enough before anything is published, and few enough tables to be listed."""
    while True:
        sizes = SIZES[rng.integers(len(SIZES))]
        counts = rng.choice([0, 1, 1, 2, 3, 4, 5], sizes) * (rng.random(sizes) < 0.9)
        has_levels = sizes[0] > 2 and rng.random() < 0.4 and (counts.reshape(sizes[0], -1) > 0).any(axis=1).all()
        groups = tuple(rng.permutation([0, 1, *rng.integers(0, 2, sizes[0] - 2)]).tolist()) if has_levels else ()
        zeros = tuple(rng.integers(sizes[:2]).tolist()) if len(sizes) > 1 and rng.random() < 0.2 else ()
        zeros = () if zeros and counts[zeros].any() else zeros
        world = World(folder, counts, groups, zeros, int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 2, 3])))
        with suppress(TooManyTablesError):
            if 4 <= counts.sum() <= 16 and ((counts > 0) & (counts <= world.small)).any() and not world.narrow([]):
                return world


class Chain:
    """One table, and its publications one after the other; by a ledger, by their folders, or by bare files."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        self.rng, self.world = rng, (world := world_of(rng, folder))
        self.by = str(rng.choice(["ledger", "folder", "files"]))
        self.earlier, self.told, self.said = list[dict[str, Any]](), list[Told](), list[str]()
        self.outcomes, self.names = Counter[str](), list[list[str]]()
        self.run: Path | None = None  # with which a server may begin: one that published alone, and whole
        # files alone do not say whose categories a code list names: all configs do, and alike
        self.has_files = self.by == "files" or rng.random() < 0.5
        codes = dict(zip(world.sizes, np.argwhere(world.counts).T.tolist(), strict=True))
        # a category without a record is one where a code list says so
        self.more = frozenset(v for v, own in codes.items() if len({*own}) < world.sizes[v])
        self.lists = frozenset(v for v in codes if rng.random() < 0.3) | self.more
        texts = [[f"{v.lower()}{code}" for code in own] for v, own in codes.items()]
        texts += [[f"r{world.groups[code]}" for code in codes["A"]]] if world.groups else []
        header = [*codes, *(["R"] if world.groups else []), "count"]
        rows = [header, *zip(*texts, map(str, world.counts[world.counts > 0]), strict=True)]
        (folder / "t.csv").write_text("\n".join(map(",".join, rows)) + "\n")
        if world.zeros:
            (folder / "zeros.yaml").write_text("- {{A: a{}, B: b{}}}\n".format(*world.zeros))
        if self.by == "ledger":
            new_ledger(folder / "led")

    def go(self) -> None:
        """Two to four publications; AssertionError with all of them where what is public is too narrow."""
        for number in range(int(self.rng.integers(2, 5))):
            may_begin = (self.has_files and number == 0) or self.run is not None
            verbs = VERBS if self.has_files and self.by != "ledger" else ()
            kind = str(self.rng.choice([*KINDS, *verbs, *(SERVER if may_begin else ())]))
            names = self._names("recoded" in kind)
            self.said.append(f"{kind} {'*'.join(names)}")
            try:
                told = self._published(number, kind, names)
            except (NotReleasableError, InputError, ConfigError) as error:
                is_judged = isinstance(error, NotReleasableError)
                if not is_judged and not any(text in str(error) for text in SAID):
                    raise
                safe = " though safe" if is_judged and self._is_safe(kind, names) else ""
                self.outcomes[f"{kind}: refused{safe}"] += 1
                continue
            if told.facts or told.own:
                self.told.append(told)
                self.outcomes[kind] += 1
                assert not (found := self.world.narrow(self.told)), (found, self.said, self.world)

    def _names(self, are_axes: bool) -> list[str]:
        """Of some axes, often those of a table before, the categories or a coarser level."""
        axes = [v for v in self.world.sizes if self.rng.random() < 0.6] or ["A"]
        if self.names and self.rng.random() < 0.4:
            axes = list(map(axis_of, self.names[self.rng.integers(len(self.names))]))
        has_level = self.world.groups and not are_axes
        self.names.append(["R" if v == "A" and has_level and self.rng.random() < 0.4 else v for v in axes])
        return self.names[-1]

    def _is_safe(self, kind: str, names: Sequence[str]) -> bool:
        """Whether what was refused, or the same with all cells suppressed, would have been safe."""
        told = Told()
        for cell in product(*(self.world.sets(name).values() for name in names)):
            inside = self.world.inside([*zip(names, cell, strict=True)])
            told.whole.append(Fact(inside, *[sum(int(self.world.counts[one]) for one in inside)] * 2))
        told.facts = told.whole
        if kind in ("suppressed", "sdc suppress"):
            own = [v for v in names if axis_of(v) not in self.lists]
            cells = dict.fromkeys((fact.cells for fact in told.whole), frozenset[str]())
            told = Told([fact for v in own for fact in self.world.labels(v, self.world.sets(v))], own=cells)
        elif kind != "whole":
            return False
        return not self.world.narrow([*self.told, told])

    def _config(self, number: int, kind: str, names: Sequence[str]) -> Path:
        rng, label, ways = self.rng, "*".join(names), [WAYS[one] for one in kind.split(" or ") if one in WAYS]
        method = str(rng.choice(["ordered", "best"]))
        release: dict[str, Any] | None = {"require": [label], "required_only": True, "method": method}
        if kind == "all that fits":
            release = {"method": str(rng.choice([method, "bisection"]))}
        if ways:
            cost = {"cost": "records"} if "suppression" in ways and rng.random() < 0.3 else {}
            release |= {
                "protect": [{"of": label, "by": ways, **cost, **({"base": BASE} if "rounding" in ways else {})}]
            }
        if release["method"] == "best":
            release["annealing"] = {"chains": 1, "steps": 100, "rounds": 1}
        levels = {"hierarchies": {"place": ["R", "A"]}} if self.world.groups else {}
        table = {"path": "t.csv", "variables": [*(["R"] if levels else []), *self.world.sizes], **levels}
        if not self.has_files:
            self.lists = frozenset(v for v in self.world.sizes if v in self.more or rng.random() < 0.3)
        table["categories"] = {v: [*self.world.sets(v)] for v in self.lists}
        # of a variable in a hierarchy the records say which categories there are
        self.lists = self.lists - {"A"} if levels else self.lists
        table |= {"structural_zeros": "zeros.yaml"} if self.world.zeros else {}
        formats = ["csv", str(rng.choice([*SUFFIXES]))]
        about = {"totals": self.by == "files" or rng.random() < 0.3, "formats": [*dict.fromkeys(formats)]}
        sections: dict[str, Any] = {"earlier": self.earlier or None, "publication": about, "release": release}
        if kind == "server":
            start = str(rng.choice(["one-way", "total"])) if self.run is None else str(self.run)
            sections = {"server": {"slot": 0, "start": start}}
        elif self.by == "ledger":
            sections["ledger"] = "led"
        sections["assessment"] = str(rng.choice(["proven", "proven", "sharp"]))
        risk = {"min_width": self.world.width, "small_count": self.world.small}
        return written(self.world.folder, f"p{number}", table=table, risk=risk, **sections)

    def _published(self, number: int, kind: str, names: Sequence[str]) -> Told:
        """What readers have of it, as the next build is told."""
        file, run, self.run = self._config(number, kind, names), None, None
        folder = self.world.folder / f"bare{number}"
        folder.mkdir()
        if kind == "server":
            self._serve(file, folder)
        elif kind in VERBS:
            base = ["--base", BASE] if kind == "sdc round" else []
            sdc(*kind.split()[1:], file, "*".join(names), "--out", folder / "out.csv", *base)
        else:
            run = built(file)
        published = folder if run is None else run.folder.stage("release")
        reader = Reader(self.world, published, self.lists)
        if run is not None and self.by == "files":
            for path in published.glob(f"0*{SUFFIXES[run.config.publication.formats[-1]]}"):
                shutil.copy(path, folder)
            published = folder
        if kind == "whole" and self.has_files and self.by != "ledger" and not self.told and run is not None:
            self.run = run.folder.path
        if (reader.told.facts or reader.told.own) and (run is None or self.by != "ledger"):
            code_lists = reader.code_lists if published == folder else []  # of files alone its agency knows them
            self.earlier.append({"folder": str(published), "variables": reader.relations, "code_lists": code_lists})
        return reader.told

    def _serve(self, file: Path, folder: Path) -> None:
        """Everything is asked for in any order, some of it in part; what is public then is downloaded."""
        build = open_build(file)
        swept(build)
        prepare(build)
        with open_service(build) as service:
            schema = service.schema
            for number in self.rng.permutation(np.arange(1, 1 << len(schema))).tolist():
                service.ask(number, "ann", in_part=bool(self.rng.random() < 0.5)).result(600)
            for view in filter(None, (*service.state.released.frontier, *service.state.suppressed_tables.views)):
                public = service.marginal(view) or service.in_part(view)
                assert public is not None
                path = folder / f"{st.label(view, schema).replace('*', '-')}.csv"
                path.write_bytes(b"".join(FORMATS["csv"].write(Answer("Tables", public))))


def tried(chains: int, seed: Sequence[int], folder: Path, first: int = 0) -> tuple[Counter[str], list[str]]:
    """What became of the publications, and what is wrong."""
    found, wrong = Counter[str](), list[str]()
    for number in range(first, first + chains):
        (own := folder / str(number)).mkdir()
        try:
            (chain := Chain(np.random.default_rng([number, *seed]), own)).go()
            found += chain.outcomes
        except TooManyTablesError:
            found["not judged: too many tables"] += 1
        except (AssertionError, SdcError) as error:
            wrong.append(f"chain {number} of seed {seed}: {type(error).__name__}: {error}")
            print(wrong[-1], flush=True)
        shutil.rmtree(own)
    return found, wrong


@pytest.mark.parametrize("chains", [60, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])])
def test_no_chain_of_publications_tells_a_small_count(chains: int, tmp_path: Path, night: list[int]) -> None:
    found, wrong = tried(chains, night if chains > 60 else [75], tmp_path)
    print(dict(found))
    assert not wrong


if __name__ == "__main__":
    chains, seed, first = (int(word) for word in [*sys.argv[1:], *["75", "0"][len(sys.argv) - 2 :]])
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        found, wrong = tried(chains, [seed], Path(place), first)
    print(json.dumps(found, indent=1))
    print(
        f"{chains} chains of seed {seed} from {first}, {len(wrong)} wrong, {time.process_time() - begun:.0f} s of CPU"
    )
    sys.exit(bool(wrong))
