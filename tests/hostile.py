"""Hostile input, drawn from a seed: configs, command lines, run folders and tables that are wrong in many ways."""

import copy
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import yaml

CONFIGS = Path(__file__).parents[1] / "configs"
TABLE = "t.csv"
WORDS = (
    "",
    " ",
    "a",
    "A",
    "A*B",
    "A*",
    "*",
    "é",
    "\ufffe",
    "\u202e",
    "a" * 3000,
    "x/y",
    "no.yaml",
    "1" * 500,
    "'",
    "=1+1",
)
NUMBERS = (0, 1, -1, 2, 3, 1 << 53, (1 << 53) + 1, 1 << 63, 1 << 64, 0.5, -0.0, 1e308, float("nan"), float("inf"))
VALUES = (*WORDS, *NUMBERS, None, True, False, [], {}, [None], {"a": None}, [[["a"]]], {"a": {"b": {"c": 1}}}, [0, "a"])
TEXTS = (
    "!!timestamp x", "!!int x", "!!float ''", "!!binary x", "!!set [a]", "!!omap [a]", "!!python/name:os.system", "*x",
    "&x {a: *x}", '"\\0"', '"\\ud800"', "9" * 5000, "0x" + "f" * 5000, "2026-99-99", "[" * 5000, "{a: " * 5000,
    "- " * 500,
    "? [a]\n: b", "%TAG ! x", "--- ", "...", "|\n", ">", "<<: 3", "~", "0o9", "1_000", "1:60:61", ".inf", "@", "`",
    "\t",
)  # fmt: skip


def small_table(folder: Path) -> None:
    """36 records of four variables, beside the case's config."""
    rows = [f"{'xy'[n % 2]},{'pqr'[n % 3]},{n * n % 4},{'no' if n % 5 else 'yes'}" for n in range(36)]
    (folder / TABLE).write_text("A,B,C,D\n" + "\n".join(rows) + "\n")


# Configs

EXECUTION = {"cluster": "in-process", "workers": 1}
LAST = {"execution": EXECUTION, "output": {"folder": "runs"}}


def config(rng: random.Random, folder: Path) -> list[str]:
    """A config file that is wrong somewhere, and what is asked of it."""
    base = _base(rng.choice([path for path in sorted(CONFIGS.glob("*.yaml")) if "\nrisk:" in path.read_text()]))
    if rng.random() < 0.6:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change(base, rng)
        text = yaml.safe_dump(base, allow_unicode=True).encode("utf-8", "surrogatepass")
    else:
        text = _bytes_changed(yaml.safe_dump(base).encode(), rng, [value.encode() for value in TEXTS])
    # nothing is written but below the folder of the case, and no workers are started
    execution = EXECUTION if rng.random() < 0.9 else {"cluster": rng.choice(VALUES), "workers": rng.choice(VALUES)}
    last = yaml.safe_dump({**LAST, "execution": execution})
    (folder / "c.yaml").write_bytes(text.rstrip(b"\n") + b"\n" + last.encode("utf-8", "surrogatepass"))
    return [rng.choice(("plan", "plan", "build")), "c.yaml"]


def _base(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    content["table"] = {"path": TABLE, "partitions": 1, "recodes": {"C": {"top": 2}}, "missing": {"A": "none"}}
    content["risk"]["min_width"] = 2
    content["release"] = {**content.get("release", {}), "seconds": 0.2, "seconds_per_cell": 0.1}
    if content["release"].get("method") in ("decomposable", "best"):
        content["release"]["annealing"] = {"steps": 200, "chains": 2, "rounds": 2}
    for section in ("execution", "output"):
        content.pop(section, None)
    if "curve" in content:
        content["curve"] = {"min_width": [1, 3], "methods": ["ordered"]}
    return content


def _change(content: Any, rng: random.Random) -> None:
    """One place of a document: another value, another key, gone, twice, or one level deeper."""
    places = list(_places(content))
    parent, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0 and isinstance(parent, dict):
        parent[rng.choice((*WORDS, "path", "risk", 1, None, True))] = parent.pop(key)
    elif kind == 1:
        del parent[key]
    elif kind == 2:
        other, place = rng.choice(places)
        parent[key] = copy.deepcopy(other[place])
    elif kind == 3:
        parent[key] = [parent[key]] * rng.choice((1, 2, 300))
    else:
        parent[key] = rng.choice(VALUES)


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Each value in a document by what it is in, and its key or index there."""
    if not isinstance(content, dict | list):
        return []
    keys = content if isinstance(content, dict) else range(len(content))
    return [place for key in keys for place in ((content, key), *_places(content[key]))]


def _bytes_changed(content: bytes, rng: random.Random, pieces: list[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, to = sorted(rng.randrange(len(changed) + 1) for _ in range(2))
        kind = rng.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 3, 30))))
        elif kind == 2:
            del changed[at : min(to, at + 40)]
        elif kind == 3:
            changed[at:at] = changed[at : min(to, at + 200)]
        elif kind == 4:
            end = changed.find(b"\n", at)
            changed[at : end if end >= 0 else at] = rng.choice(pieces)
        else:
            changed[at : at + 1] = rng.choice(
                (b"\0", b"\xff", b"\xc3", b"\r", b":", b"- ", b"'", b'"', b"#", b"{", b"]")
            )
    return bytes(changed)


# Command lines

LINES = (
    "widths t.csv --floor 2 --out w.csv", "widths t.csv --variables A,B --json", "widths t.csv --small-count 3",
    "bounds t.csv --release A*B --release C --cells all", "bounds t.csv --release A*B*C --method shuttle --json",
    "assess t.csv --release A*B --min-width 2 --json", "assess t.csv --release A --release B --min-width 3",
    "release t.csv --method ordered --min-width 2 --out published --title T",
    "release t.csv --method best --min-width 3",
    "release t.csv --method decomposable --min-width 2 --seed 3 --weight A=2 --start [A,B] --json",
    "enumerate t.csv --release A*B --limit 100", "enumerate t.csv --release A*B*C --json",
    "widths t.csv --structural-zeros z.yaml", "plan c.yaml --data t.csv --workers 1", "build c.yaml",
    "list runs --json", "status runs/fuzz/1", "verify runs/fuzz/1 --json", "clean runs --keep 1 --unfinished --yes",
)  # fmt: skip
HOSTILE = (
    *WORDS, "-1", "0", "9" * 30, "nan", "1e9", "--", "-", "--json", "--release", "--nonsense", "--help", "a\0b",
    "\udcff",
    "A,,B", ",", "A*A", "Z", "A=", "=2", "A=nan", "A=-1", "A=1e999", "[A,B] [B", "[]", "t.csv", "z.yaml", "c.yaml",
    "runs",
    "t*.csv", "[t].csv", "http://127.0.0.1:1/t.csv", "nowhere://x", "memory://t.csv", "best", "shuttle", "all",
    "a/" * 2000,
)  # fmt: skip
DEAR = {"--workers": "1", "--steps": "200", "--chains": "2"}
"""Options with which a right command line may take long, or the whole machine; what is drawn for them is not right."""


def command(rng: random.Random, folder: Path, finished: Path) -> list[str]:
    """A command line that is wrong somewhere; or a right one, beside a run folder that is."""
    (folder / "z.yaml").write_text("- {A: x, B: [p, q], C: '0'}\n")
    base = yaml.safe_dump({**_base(CONFIGS / "czech_auto_workers.yaml"), "name": "fuzz", **LAST})
    (folder / "c.yaml").write_text(base)
    words = rng.choice(LINES).split()
    if any(word.startswith("runs") for word in words):
        _copy(finished, folder / "runs" / "fuzz" / "1")
    if words[0] in ("list", "status", "verify", "clean") and rng.random() < 0.7:
        _damage(rng, folder / "runs" / "fuzz" / "1")
        return words
    if rng.random() < 0.6:  # the value of an option, or what a command is about
        words[rng.choice([at for at in range(1, len(words)) if not words[at].startswith("--")])] = rng.choice(HOSTILE)
        return _tamed(words)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(words) + 1)
        words[at : at + rng.randrange(2)] = [rng.choice((*HOSTILE, *words, *rng.choice(LINES).split()))] * rng.choice(
            (0, 1, 1, 1, 2)
        )
    return _tamed(words)


def _tamed(words: list[str]) -> list[str]:
    for at, word in enumerate(words[1:], start=1):
        before = words[at - 1]
        if before in DEAR and word.isdecimal() and 1 < int(word) <= 1 << 53:
            words[at] = DEAR[before]
    if words and words[0] == "release":
        return [*words, "--steps", "200", "--chains", "2"]
    return words


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    for path in (source, *source.rglob("*")):
        to = target / path.relative_to(source)
        to.mkdir() if path.is_dir() else to.write_bytes(path.read_bytes())


def _damage(rng: random.Random, folder: Path) -> None:
    """One file of a run folder, most often its manifest: as a document, or as bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = folder / "manifest.json" if rng.random() < 0.5 else rng.choice(files)
    if path.suffix == ".json" and rng.random() < 0.7:
        content = json.loads(path.read_text())
        for _ in range(rng.choice((1, 1, 2))):
            _change(content, rng)
        path.write_text(json.dumps(content))
    elif path.suffix == ".parquet":
        path.write_bytes(_parquet_damaged(rng, path.read_bytes(), [path.read_bytes()]))
    else:
        path.write_bytes(_bytes_changed(path.read_bytes(), rng, [b"[" * 100_000, b"9" * 5000, b"null", b'"', b"NaN"]))


# Tables


def table(rng: random.Random, folder: Path) -> list[str]:
    """A table that is damaged, or of types that are none of categories, and what is asked of it."""
    kind = rng.choice(("parquet", "parquet", "csv", "csv", "csv.gz", "types"))
    path = folder / f"u.{'parquet' if kind == 'types' else kind}"
    if kind == "types":
        pq.write_table(_of_odd_types(rng), path)
    elif kind == "parquet":
        path.write_bytes(_parquet_damaged(rng, rng.choice(PARQUETS), PARQUETS))
    else:
        text = _bytes_changed((folder / TABLE).read_bytes(), rng, [b'"', b"\xff\xfe", b"a" * 5000, b"," * 300, b'""x"'])
        text = gzip.compress(text, mtime=0) if kind == "csv.gz" else text
        path.write_bytes(_bytes_changed(text, rng, [b""]) if kind == "csv.gz" and rng.random() < 0.5 else text)
    return ["widths", path.name, *rng.choice(((), ("--variables", "A,B"), ("--json",)))]


def _parquet_damaged(rng: random.Random, whole: bytes, others: list[bytes]) -> bytes:
    """Bits and bytes of the pages or of the footer changed, cut, moved, or with the footer of another file."""
    content, length = bytearray(whole), int.from_bytes(whole[-8:-4], "little")
    footer = len(content) - 8 - length
    low, high = (4, footer) if rng.random() < 0.5 else (footer, len(content) - 8)
    kind = rng.randrange(6)
    if kind <= 2:
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            at = rng.randrange(low, high)
            content[at] = rng.choice((content[at] ^ 1 << rng.randrange(8), 0, 1, 127, 128, 255, rng.randrange(256)))
    elif kind == 3:
        del content[rng.randrange(len(content)) :]
    elif kind == 4:
        at, size = rng.randrange(low, high), rng.randrange(1, 200)
        content[at : at + size] = content[rng.randrange(low, high) :][:size]
    else:
        other = rng.choice(others)
        content[footer:] = other[-8 - int.from_bytes(other[-8:-4], "little") :]
    return bytes(content)


def _parquets() -> list[bytes]:
    """The same few columns stored in many ways."""
    values = {
        "A": ["x", "y", "zz"] * 20,
        "B": ["p", None, "q"] * 20,
        "C": [1, 2, 30] * 20,
        "D": [True, False, None] * 20,
    }
    table, found = pa.table({**values, "E": pa.array([1, 2, 3] * 20, pa.int32()).cast(pa.date32())}), []
    deltas = {"A": "DELTA_BYTE_ARRAY", "B": "DELTA_LENGTH_BYTE_ARRAY", "C": "DELTA_BINARY_PACKED"}
    ways: tuple[dict[str, Any], ...] = (
        {}, {"compression": "none"}, {"compression": "none", "use_dictionary": False}, {"compression": "zstd"},
        {"compression": "none", "data_page_version": "2.0", "row_group_size": 7}, {"compression": "gzip"},
        {"compression": "none", "use_dictionary": False, "column_encoding": deltas}, {"store_schema": False},
    )  # fmt: skip
    counted = pa.table({"A": pa.array(["x", "y"]).dictionary_encode(), "count": [3, 1 << 53]})
    for content, way in (*((table, way) for way in ways), (counted, {})):
        file = io.BytesIO()
        pq.write_table(content, file, **way)
        found.append(file.getvalue())
    return found


PARQUETS = _parquets()


def _of_odd_types(rng: random.Random) -> pa.Table:
    """Columns of types and values at the ends of what Arrow has."""
    columns = {f"V{n}": rng.choice(ODD)() for n in range(rng.choice((1, 2, 3)))}
    if rng.random() < 0.3:
        columns["count"] = rng.choice(ODD)()
    return pa.table(columns)


def _not_utf8() -> pa.Array:
    ends = pa.py_buffer(np.array([0, 1, 2, 3, 4], np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 4, [None, ends, pa.py_buffer(b"x\xff\xfe\xc3")])


def _dates(days: int, kind: pa.DataType = pa.date32()) -> pa.Array:  # noqa: B008, types are values
    return pa.array([0, days, 1, None], pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind)


ODD: tuple[Callable[[], pa.Array], ...] = (
    lambda: pa.array(["x", "y", "x", None]), lambda: pa.array([1, 2, 1, 3]), lambda: pa.nulls(4), _not_utf8,
    lambda: _dates((1 << 31) - 1), lambda: _dates(-(1 << 31)), lambda: _dates(1 << 60, pa.date64()),
    lambda: _dates((1 << 62), pa.timestamp("ns")), lambda: _dates(3, pa.time32("s")), lambda: _dates(3,
    pa.duration("s")),
    lambda: pa.array([[1], [2], None, []]), lambda: pa.array([{"a": 1}, None, {"a": 2}, {}]),
    lambda: pa.array([b"\xff"] * 4),
    lambda: pa.array([0.5, float("nan"), float("inf"), -0.0]), lambda: pa.array([1e308, -1e308, 5e-324, 1.0]),
    lambda: pa.array([1, 2, 3, 1 << 63], pa.uint64()), lambda: pa.array([10**37, 1, 2, None], pa.decimal128(38, 0)),
    lambda: pa.array([1.0, 2.0, 65504.0, None], pa.float16()), lambda: pa.array(["\0", "\u202e", "a\nb", "=1+1"]),
    lambda: pa.array(["x" * 100_000, "", " ", "\ufeff"]), lambda: pa.array([True, False, None, True]),
    lambda: pa.array(["x", "y", None, "x"]).dictionary_encode(), lambda: pa.array([-1, 1 << 53, (1 << 53) + 1, 0]),
    lambda: pa.array(["x"] * 4, pa.large_string()), lambda: pa.array([b"abcd"] * 4, pa.binary(4)),
    lambda: pa.array([[("k", 1)], None, [], [("k", 2)]], pa.map_(pa.string(), pa.int64())),
)  # fmt: skip
