"""Canaries of a confidential table, looked for in every byte of a release in all formats, decoded where packed."""

import base64
import io
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.publish.formats import FORMATS
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from tests.helpers.folders import contents
from tests.integration.verify.signing import new_key

NAME, CATEGORY, PLACE, KEY, ASIDE = "kanarie", "zeisig", "stieglitz", "girlitz", "dompfaff"
COUNT, WIDTH = 7_744_119, 31_337


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Of a table with a variable, categories, records set aside and a count that nobody may learn of."""
    folder = tmp_path_factory.mktemp("canary") / PLACE
    folder.mkdir()
    rows = [(a, b, c) for a in "xy" for b in "pq" for c in ("u", "v")]
    counts = [40_000, 60_000, 50_000, COUNT, 70_000, 80_000, 90_000, 1]
    lines = [f"{a},{b},{c},{CATEGORY if c == 'v' else c},{n}" for (a, b, c), n in zip(rows, counts, strict=True)]
    lines.append(f"x,p,{ASIDE},u,5")
    (folder / "table.csv").write_text("\n".join([f"a,b,c,{NAME},count", *lines]) + "\n")
    new_key(folder / KEY)
    file = folder / "build.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "name": "release",
                "table": {"path": "table.csv", "categories": {"c": ["u", "v"]}, "invalid_records": "exclude"},
                "risk": {"small_count": 1, "min_width": WIDTH},
                "release": {"require": ["a*b"], "forbid": ["c", NAME]},
                "publication": {
                    "formats": list(FORMATS),
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
    build = open_build(file)
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


def found_in(folder: Path, secrets: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (name, secret)
        for name, content in sorted(contents(folder).items())
        for secret in secrets
        if any(secret.lower() in text.lower() for text in texts(name, content))
    ]


def test_no_canary_is_in_any_byte_of_a_release(build: Build) -> None:
    folder = build.folder.stage("release")
    beside = {"index.html", "SHA256SUMS.sig", "statement.intoto.jsonl", "tables.xlsx", "catalogue.json"}
    assert beside | {"croissant.json", "ro-crate-metadata.json"} <= {path.name for path in folder.iterdir()}
    assert found_in(folder, canaries(build)) == []
    assert build.made.found.release.frontier != (0,)  # something is released
    # what is looked for is there, on the confidential side
    confidential = (build.folder.stage("confidential") / "report.html").read_text()
    assert all(word in confidential for word in (NAME, CATEGORY))


def in_encoded(path: Path) -> None:
    content = json.loads(path.read_text())
    payload = base64.b64decode(content["payload"]).decode().replace("{", f'{{"{NAME}": 1, ', 1)
    path.write_text(json.dumps(content | {"payload": base64.b64encode(payload.encode()).decode()}))


def in_columns(path: Path) -> None:
    table = pq.read_table(path)
    first = pa.array([NAME, *table.column(0).to_pylist()[1:]])
    pq.write_table(table.set_column(0, table.column_names[0], first), path, compression="zstd")


def in_metadata(path: Path) -> None:
    pq.write_table(pq.read_table(path).replace_schema_metadata({"a": NAME}), path, compression="zstd")


def in_a_sheet(path: Path) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/more.xml", f"<a>{NAME.upper()}</a>")


LEAKS = {
    "a statement": ("statement.intoto.jsonl", in_encoded),
    "values": ("*.parquet", in_columns),
    "metadata": ("*.parquet", in_metadata),
    "a workbook": ("tables.xlsx", in_a_sheet),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_found(name: str, build: Build, tmp_path: Path) -> None:
    pattern, leak = LEAKS[name]
    folder = Path(shutil.copytree(build.folder.stage("release"), tmp_path / "release"))
    leak(next(folder.glob(pattern)))
    assert [secret for _, secret in found_in(folder, canaries(build))] == [NAME]
