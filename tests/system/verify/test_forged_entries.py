"""A forger of ledgers and certificates, who makes every plain digest anew but has neither ledger key nor signing key.

No random edit passes, be it of bytes or of values, unless it changes nothing that is read.
"""

import json
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.model.errors import InputError, SdcError
from sdc.record.entry import FIRST, Entry
from sdc.record.ledger import new_ledger, read_ledger
from sdc.stages.verified import verify_run
from tests.helpers.builds import built, written
from tests.integration.verify.forging import record

COUNTS = ((1, 3), (5, 2), (4, 1), (6, 4))
TABLE = "A,B,count\n" + "".join(f"a{a},b{b},{count}\n" for a, row in enumerate(COUNTS) for b, count in enumerate(row))
RISK = {"min_width": 2, "small_count": 1}
FORGERS = [10, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])]


def config(folder: Path, name: str, *require: str, **more: Any) -> Path:
    release = {"require": [*require], "required_only": True, "protect": "suppression"}
    sections = {"table": {"path": "t.csv"}, "risk": RISK, "release": release, "assessment": "proven"}
    return written(folder, name, **sections, ledger="led", **more)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two builds on one ledger, the second of which suppresses a table."""
    folder = tmp_path_factory.mktemp("forged")
    (folder / "t.csv").write_text(TABLE)
    new_ledger(folder / "led")
    for name, sub_table in ("first", "B"), ("second", "A*B"):
        built(config(folder, name, sub_table))
    return folder


# Ledgers


def other(value: Any, rng: random.Random) -> Any:
    """A value of JSON one part of which is another, is gone or is there twice."""
    if isinstance(value, dict) and value:
        key = rng.choice([*value])
        kept = {name: one for name, one in value.items() if name != key}
        return kept if rng.random() < 0.1 else {**value, key: other(value[key], rng)}
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        between = rng.choice([[], [value[place]] * 2, *[[other(value[place], rng)]] * 4])
        return [*value[:place], *between, *value[place + 1 :]]
    if isinstance(value, str):
        place = rng.randrange(len(value) + 1)
        return value[:place] + rng.choice("0123456789abcdef") + value[place + 1 :]
    return value + rng.choice([-1, 1]) if isinstance(value, int) else rng.choice([None, "", 0, []])


def entries_forged(path: Path, rng: random.Random) -> None:
    """An entry is another, is gone, there twice or in another place; then the plain hashes are those of a chain."""
    names = ("seq", "kind", "at", "who", "subject", "body", "previous", "hash")
    with closing(sqlite3.connect(path)) as database, database:
        rows = [dict(zip(names, row, strict=True)) for row in database.execute("SELECT * FROM entries ORDER BY seq")]
        place, how = rng.randrange(len(rows)), rng.random()
        if how < 0.7:
            name = rng.choice(["body"] * 8 + [*names[1:]])
            row = rows[place]
            row[name] = json.dumps(other(json.loads(row[name]), rng)) if name == "body" else other(row[name], rng)
        elif how < 0.8:
            del rows[place]
        else:
            rows.insert(rng.randrange(len(rows) + 1), dict(rng.choice(rows)))
        is_remade, previous = rng.random() < 0.8, FIRST
        for seq, row in enumerate(rows, start=1):
            row["seq"] = seq
            if is_remade:
                row["previous"] = previous
                row["hash"] = previous = Entry(**{**row, "body": json.loads(row["body"]), "hash": ""}).digest
        for (trigger,) in [*database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("DELETE FROM entries")
        marks = ", ".join("?" * len(names))
        database.executemany(f"INSERT INTO entries VALUES ({marks})", [tuple(row.values()) for row in rows])


def bytes_forged(path: Path, rng: random.Random) -> None:
    """Some bytes are others, are gone, or are those of another place."""
    content = bytearray(path.read_bytes())
    at, size = rng.randrange(len(content)), rng.choice([1, 1, 4, 64])
    kind = rng.randrange(4)
    if kind < 2:
        content[at : at + size] = rng.randbytes(len(content[at : at + size]))
    elif kind == 2:
        start = rng.randrange(len(content))
        content[at : at + size] = content[start : start + size]
    else:
        del content[at : at + size]
    path.write_bytes(content)


def what_accepts(folder: Path) -> list[str]:
    """Of `sdc ledger`, the next build, and `sdc verify` of the runs those that take the ledger for one."""

    def passes(one: Callable[[], object]) -> bool:
        try:
            return bool(one())
        except (SdcError, OSError):
            return False

    runs = [path.parent for path in folder.glob("runs/*/*/manifest.json")]
    return [
        *(["sdc ledger"] if passes(lambda: read_ledger(folder / "led")) else []),
        *(["sdc run"] if passes(lambda: built(config(folder, "next", "A"))) else []),
        *(["sdc verify"] if all(passes(lambda run=run: verify_run(run).verified) for run in runs) else []),
    ]


@pytest.mark.parametrize("number", FORGERS)
def test_no_forged_ledger_passes(number: int, honest: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Entries that are gone at the end are missed by `sdc verify` of what they published, and by nothing else."""
    rng, folder, outcomes = random.Random(request.config.option.hypothesis_seed), tmp_path / "own", Counter[str]()
    shutil.copytree(honest, folder)
    for manifest in folder.glob("runs/*/*/manifest.json"):
        manifest.write_text(manifest.read_text().replace(str(honest), str(folder)))
    true = read_ledger(folder / "led").entries
    for _ in range(number):
        shutil.copy(honest / "led", folder / "led")
        rng.choice([entries_forged, entries_forged, bytes_forged])(folder / "led", rng)
        try:
            read: tuple[Any, ...] | None = read_ledger(folder / "led").entries
        except InputError:
            read = None
        if read == true:
            outcomes["nothing that is read"] += 1
            continue
        is_cut, accepted = read is not None and read == true[: len(read)], what_accepts(folder)
        shutil.rmtree(folder / "runs" / "next", ignore_errors=True)
        outcomes["cut" if is_cut else "refused"] += 1
        assert accepted == [] or (is_cut and "sdc verify" not in accepted), (accepted, read, true)
    print(dict(outcomes))


# Certificates


def read_of(run: Path) -> tuple[dict[str, Any], list[Any]]:
    """What a certificate claims; and its proof, with the words by which it calls what is in part."""
    about = json.loads((run / "assessment" / "certificate.json").read_text())
    files = sorted((run / "assessment").glob("differences_*.parquet"))
    proof = [about.pop("components"), about.pop("separators"), [pq.read_table(file).to_pydict() for file in files]]
    for part, key in ((about["known"], "listed"), *((part, "rounded") for part in about["parts"])):
        part.setdefault(key, [])  # older versions name none
    words = [fact.pop("source") for part in about["parts"] for fact in part["facts"]]
    # of sub-tables, in whatever order
    told = about.pop("asked"), about["known"].pop("release"), *(part.pop("beside") for part in about["parts"])
    return {**about, "sub_tables": [{*map(frozenset, one)} for one in told]}, [proof, words]


def certificate_forged(folder: Path, rng: random.Random) -> None:
    """A value of the certificate or of a difference is another, or some of the bytes are."""
    path = rng.choice([folder / "certificate.json"] * 2 + sorted(folder.glob("differences_*.parquet")))
    if rng.random() < 0.2:
        bytes_forged(path, rng)
    elif path.suffix == ".json":
        path.write_text(json.dumps(other(json.loads(path.read_text()), rng)))
    else:
        table = pq.read_table(path)
        place, row = rng.randrange(table.num_columns), rng.randrange(max(1, table.num_rows))
        values = table.column(place).to_pylist()
        values[row : row + 1] = [value + rng.choice([-1, 1]) for value in values[row : row + 1]]
        column = pa.array(np.array(values).astype(table.schema.field(place).type.to_pandas_dtype()))
        pq.write_table(table.set_column(place, table.schema.field(place), column), path)


@pytest.mark.parametrize("number", FORGERS)
def test_no_forged_certificate_passes(
    number: int, honest: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A certificate that passes makes the same claims, and proves as many cells: its proof may be another."""
    rng, outcomes = random.Random(request.config.option.hypothesis_seed), Counter[str]()
    runs = [path.parent for path in sorted(honest.glob("runs/*/*/manifest.json"))]
    true = {run: (*read_of(run), verify_run(run)) for run in runs}
    for _ in range(number):
        run, own = rng.choice(runs), tmp_path / "own"
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(run, own)
        certificate_forged(own / "assessment", rng)
        record(own)
        if not (found := verify_run(own)).verified:
            outcomes["refused"] += 1
            continue
        claims, proof, before = true[run]
        assert read_of(own)[0] == claims
        assert found.certified_cells == before.certified_cells
        outcomes["nothing that is read" if read_of(own)[1] == proof else "another proof that holds"] += 1
    print(dict(outcomes))
