"""Canaries of a confidential table, looked for in every byte of a release in all formats, decoded where packed."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sdc.executor import IN_PROCESS
from sdc.publish import catalogue, publication
from sdc.publish.formats import FORMATS, Format
from sdc.publish.formats.rows import Pieces
from sdc.publish.formats.table import CountTable
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all

FORMATS_NAMED = ("csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx")
NAME, CATEGORY, PLACE, KEY, ASIDE = "kanarie", "zeisig", "stieglitz", "girlitz", "dompfaff"
COUNT, WIDTH = 7_744_119, 31_337
Leak = Callable[[pytest.MonkeyPatch, Path], None]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of a table with a variable, categories, records set aside and a count that nobody may learn of."""
    folder = tmp_path / PLACE
    folder.mkdir()
    rows = [(a, b, c) for a in "xy" for b in "pq" for c in ("u", "v")]
    counts = [40_000, 60_000, 50_000, COUNT, 70_000, 80_000, 90_000, 1]
    lines = [f"{a},{b},{c},{CATEGORY if c == 'v' else c},{n}" for (a, b, c), n in zip(rows, counts, strict=True)]
    lines.append(f"x,p,{ASIDE},u,5")
    (folder / "table.csv").write_text("\n".join([f"a,b,c,{NAME},count", *lines]) + "\n")
    private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / KEY).write_bytes(private)
    file = folder / "build.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "name": "release",
                "table": {"path": "table.csv", "categories": {"c": ["u", "v"]}, "bad_records": "set_aside"},
                "risk": {"small_count": 1, "min_width": WIDTH},
                "release": {"require": ["a*b"], "forbid": ["c", NAME]},
                "publication": {
                    "formats": list(FORMATS_NAMED),
                    "zeros": True,
                    "totals": True,
                    "children": ["a"],
                    "signing_key": KEY,
                    "title": "A title",
                    "notes": ["A note."],
                },
                "execution": {"cluster": "in-process"},
                "output": {"folder": str(folder / "runs")},
            }
        )
    )
    return file


def released(config: Path) -> Build:
    build = open_build(config)
    run_all(build, IN_PROCESS)
    return build


def canaries(build: Build) -> list[str]:
    """Names, categories, counts, places, keys, digests: whatever is not of the released marginals."""
    digests = [*build.digests.values(), build.made.table.digest]
    numbers = [form for n in (COUNT, WIDTH) for form in (str(n), f"{n:,}")]
    return [NAME, CATEGORY, PLACE, KEY, ASIDE, *numbers, *digests, *(d[:12] for d in digests), build.folder.path.name]


def texts(name: str, content: bytes) -> Iterator[str]:
    """What the bytes say, as they are and unpacked; what is unpacked may have packed parts again."""
    yield name
    yield content.decode("latin-1")
    yield content.decode("utf-8", "replace")
    if name.endswith(".parquet"):
        file = pq.ParquetFile(io.BytesIO(content))
        metadata = file.metadata
        yield json.dumps(metadata.to_dict(), default=str)
        yield str([metadata.metadata, file.schema_arrow, file.schema_arrow.metadata])
        yield json.dumps(file.read().to_pydict(), default=str)
        encoded = pq.read_table(io.BytesIO(content), read_dictionary=file.schema_arrow.names[:-1])
        for column in encoded.columns[:-1]:
            yield from (str(chunk.dictionary.to_pylist()) for chunk in column.chunks)
    if name.endswith(".jsonl"):
        yield from texts("a statement", base64.b64decode(json.loads(content)["payload"]))
    if name.endswith(".xlsx"):
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            yield packed.comment.decode("latin-1")
            for one in packed.infolist():
                yield f"{one.comment!r} {one.extra!r}"
                yield from texts(one.filename, packed.read(one))


def found_in(build: Build, secrets: Sequence[str]) -> list[tuple[str, str]]:
    """Which of them is in which file of the release."""
    folder = build.folder.stage("release")
    return [
        (path.name, secret)
        for path in sorted(folder.iterdir())
        for text in {*texts(path.name, path.read_bytes())}
        for secret in secrets
        if secret.lower() in text.lower()
    ]


def test_no_canary_is_in_any_byte_of_a_release(config: Path) -> None:
    build = released(config)
    folder = build.folder.stage("release")
    assert {FORMATS[name].label for name in FORMATS_NAMED} == {one.label for one in FORMATS.values()}
    beside = {"index.html", "SHA256SUMS.sig", "statement.intoto.jsonl", "tables.xlsx", "catalogue.json"}
    assert beside | {"croissant.json", "ro-crate-metadata.json"} <= {path.name for path in folder.iterdir()}
    assert found_in(build, canaries(build)) == []
    assert build.made.found.release.frontier != (0,)  # something is released
    # what is looked for is there, on the confidential side
    confidential = (build.folder.stage("confidential") / "report.html").read_text()
    assert all(word in confidential for word in (NAME, CATEGORY))
    assert ASIDE in (config.parent / "table.csv").read_text()


def in_pieces(format: str, suffix: str, secret: str) -> Leak:
    """A writer that adds a canary to what it writes."""

    def leak(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        own = FORMATS[format]
        write = own.of_table[suffix]

        def leaking(table: CountTable) -> Pieces:
            return write(replace(table, title=table.title + secret))

        changed = Format(own.label, {**own.of_table, suffix: leaking}, own.of_all)
        monkeypatch.setattr(publication, "FORMATS", {**FORMATS, format: changed})

    return leak


def in_metadata(secret: str) -> Leak:
    def leak(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        told = publication._metadata

        def leaking(*args: Any) -> dict[str, Any]:
            return {**told(*args), "description": secret}

        monkeypatch.setattr(publication, "_metadata", leaking)

    return leak


def in_page(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    page = catalogue._page
    monkeypatch.setattr(catalogue, "_page", lambda metadata: page(metadata) + f"<!-- {folder} -->")


def in_guide(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    guide = publication._guide
    monkeypatch.setattr(publication, "_guide", lambda *args: guide(*args) + f"{COUNT:,}\n")


def in_statement(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """In what is encoded."""
    checker = catalogue.checker
    monkeypatch.setattr(catalogue, "checker", lambda: {**checker(), "annotations": {"table": NAME}})


LEAKS: dict[str, Leak] = {
    "statement": in_statement,
    "json-stat": in_pieces("json-stat", ".json", NAME),
    "px": in_pieces("px", ".px", ASIDE),
    "csvw": in_pieces("csvw", ".csv-metadata.json", str(WIDTH)),
    "sdmx": in_pieces("sdmx-csv", ".sdmx.json", CATEGORY),
    "xml": in_pieces("xml", ".xml", f"{COUNT}"),
    "metadata": in_metadata(PLACE),
    "page": in_page,
    "guide": in_guide,
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_found(name: str, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LEAKS[name](monkeypatch, config.parent)
    build = released(config)
    assert found_in(build, canaries(build))
