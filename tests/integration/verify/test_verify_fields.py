"""Every field of every file of a run folder is changed, and what has its digests is made anew: `verify` finds it.

What it does not find is in `CLAIM_NOTHING`, each with its reason; and whatever is there is in some folder.
"""

import copy
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from sdc.storage.run_folder import folder_digest, write_json
from sdc.verify.run_folder import UnreadableError, verify
from tests.integration.verify.signing import built, new_key
from tests.strategies import CZECH_CSV

NOT_OURS = ("confidential", ".lock", "log.jsonl")

CLAIM_NOTHING = {
    "manifest.json config.table.*": "how records became the table; they are not in the folder",
    "manifest.json config.risk.undecided": "what is proven of every cell is so under either policy",
    "manifest.json config.risk.n_rule": "what is public is looked at: another n that it keeps is no false claim",
    "manifest.json config.widths.*": "which widths are listed",
    "manifest.json config.sharp_seconds": "how long sharp bounds were looked for",
    "manifest.json config.release.*": "how the release was looked for; it is judged by its certificate",
    "manifest.json config.curve*": "what else was asked, for the report",
    "manifest.json config.remedies*": "what else was asked, for the report",
    "manifest.json config.posterior*": "what else was asked, for the report",
    "manifest.json config.uniques*": "what else was asked, for the report",
    "manifest.json config.attack*": "what else was asked, for the report",
    "manifest.json config.weighted*": "how totals were chosen; those that go out are judged one by one",
    "manifest.json config.labels.*": "what variables are called",
    "manifest.json config.publication.*": "what the agency says of its publication, and in which files",
    "manifest.json config.report.*": "what the report says of itself",
    "manifest.json config.earlier*": "where earlier publications lay; what they tell is in table/known.json",
    "manifest.json config.ledger": "where the ledger lay",
    "manifest.json config.server*": "what a server does",
    "manifest.json config.execution.*": "where it was computed",
    "manifest.json config.output.*": "where the folder was made",
    "manifest.json digests.*": "the name of the build; the table and every stage have digests of their own",
    "manifest.json stages.*.key": "what another build takes a stage over by, which checks it anew",
    "manifest.json stages.*.status": "whether it was computed or taken over",
    "manifest.json stages.*.seconds": "what it took",
    "manifest.json stages.*_mib": "what it took",
    "manifest.json stages.*.by.*": "with which versions files are made again, to compare their bytes",
    "table/bad_records.json sums*": "which categories look like totals, for people",
    "table/bad_records.json unmet*": "what was named and no record has; the records are not in the folder",
    "table/known.json sources*": "where what is known is from, for people",
    "table/known.json declared*": "what the config says of earlier publications, for the ledger",
    "table/known.json foreign*": "what no ledger has, for the ledger",
    "table/known.json merged*": "which levels were added last; what is judged on them is in the certificate",
    "table/known.json left": "for what no levels were made, which search/search.json says as how far it went",
    "table/known.json planned": "how far what makes levels went, which search/search.json says too",
    "table/known.json table": "the digest of the table without hidden levels, for the ledger",
    "table/weights.parquet *": "evidence like the counts; a change that moves no rounded total is no claim about one",
    "widths/*": "what the search went by",
    "search/certificate.json *": "what the search handed on; the certificate of the assessment decides",
    "search/differences_*": "of that certificate",
    "search/search.json method": "how the release was found",
    "search/search.json steps*": "how the release was found",
    "search/search.json graph*": "how the release was found",
    "search/search.json reason": "how the release was found",
    "search/search.json bound": "how far it is from the best, of which page one says that it is not verified",
    "search/search.json utility": "how far it is from the best, of which page one says that it is not verified",
    "search/search.json required*": "what was asked of the search",
    "search/search.json blockers*": "why others were not released; no claim about what is",
    "search/trace.parquet *": "how the release was found",
    "assessment/cells.parquet outer_upper": "of a cell that is not exact a wider outer interval, which says less",
    "assessment/cells.parquet outer_lower": "of a cell that is not exact a wider outer interval, which says less",
    "release/README.txt bytes": "words of the agency, for people",
    "release/index.html bytes": "words of the agency, for people; its tables, links and numbers are checked",
    "release/data_dictionary.csv bytes": "what variables are called",
    "release/catalogue.json *": "words of the agency, for catalogues",
    "release/croissant.json *": "words of the agency, for catalogues",
    "release/ro-crate-metadata.json *": "words of the agency, for catalogues",
    "release/datapackage.json *": "words of the agency, for programs",
}

SETTINGS: dict[str, dict[str, Any]] = {
    "sharp": {
        "table": {"path": "records.parquet", "variables": ["a", "b", "c", "d", "e"]},
        "risk": {"min_width": 4, "accept_undecided": True},
        "release": {"refute_cells": 0, "seconds": 5},
        "assessment": "sharp",
        "sharp_seconds": 1.0,
    },
    "limited": {
        "table": {"path": str(CZECH_CSV)},
        "risk": {"min_width": 6, "posterior": {"threshold": 0.006, "max_above": 0.5, "max_probability": 0.5}},
        "release": {"method": "decomposable", "annealing": {"chains": 1, "steps": 200}},
    },
    "searched": {
        "table": {
            "path": "records.parquet",
            "variables": ["a", "b", "c", "d", "e"],
            "structural_zeros": "zeros.yaml",
            "missing": {"a": "none"},
        },
        "risk": {"min_width": 4, "accept_undecided": True},
        "release": {"refute_cells": 0, "require": ["a*b"], "seconds": 5},
        "labels": {"variables": {"a": {"label": "first"}}},
        "publication": {"title": "Records", "formats": ["csv", "parquet"]},
    },
    "levels": {
        "table": {
            "path": "records.parquet",
            "variables": ["a", "b", "c", "d", "e", "half"],
            "hierarchies": {"first": ["half", "a"]},
        },
        "risk": {"min_width": 4, "accept_undecided": True},
        "release": {"refute_cells": 0, "require": ["half*b"], "seconds": 5},
    },
    "signed": {"table": {"path": str(CZECH_CSV)}, "risk": {"min_width": 6}, "publication": {"signing_key": "key.pem"}},
    "weighted": {
        "table": {"path": "records.parquet", "variables": ["a", "b", "c", "d", "e"], "weight": "w"},
        "risk": {"min_width": 4},
        "weighted": {"round": 500},
    },
}


@pytest.fixture(scope="module", params=SETTINGS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    generator = np.random.default_rng(3)
    a, b, c, d = (generator.integers(0, size, 4000) for size in (4, 3, 3, 2))
    a = np.where((a == 3) & (b == 2), 0, a)
    e = (generator.random(4000) ** 3 * 5).astype(int)
    weights = np.round(generator.lognormal(5, 0.7, 4000), 2)
    columns = {"a": a, "b": b, "c": (a + c) % 4, "d": d, "e": e, "half": a // 2, "w": weights}
    pq.write_table(pa.table(columns), folder / "records.parquet")
    new_key(folder / "key.pem")
    (folder / "zeros.yaml").write_text("- {a: '3', b: '2'}\n")
    run = built(folder, **SETTINGS[request.param])
    assert verify(run).failures == ()
    return run


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the values of a document are that have none within: of lists the first and the last."""
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    pairs = list(within)
    if not pairs:
        yield place
    for key, inner in pairs[:1] + pairs[1:][-1:] if isinstance(value, list) else pairs:
        yield from leaves(inner, (*place, key))


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, int | float):
        return value + 1
    return 1 if value is None else [1] if isinstance(value, list) else {"x": 1}


def changed_at(content: Any, place: tuple[str | int, ...]) -> Any:
    content = copy.deepcopy(content)
    within = content
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = changed(within[place[-1]])
    return content


def changed_rows(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """The column with its first value changed, one up and one down or to another one there is."""
    values = column.to_pylist()
    if isinstance(values[0], str):
        others = [next((value for value in values if value != values[0]), f"{values[0]}x")]
    elif isinstance(values[0], bool):
        others = [not values[0]]
    else:
        others = [values[0] + 1, values[0] - 1]
    for other in others:
        # what the kind of the column cannot have is no change
        if other >= 0 if not isinstance(other, str) else True:
            yield pa.array([other, *values[1:]]).cast(column.type)


def changes(file: Path) -> Iterator[tuple[str, Callable[[Path], Any]]]:
    """Each field of a file by name, and what changes it in a copy."""
    if file.suffix == ".json":
        content = json.loads(file.read_text())
        for place in leaves(content):
            name = ".".join("*" if isinstance(key, int) else key for key in place)
            yield name, lambda path, place=place: write_json(path, changed_at(content, place))
    elif file.suffix == ".parquet":
        table = pq.read_table(file)
        for number, name in enumerate(table.column_names):
            for column in changed_rows(table.column(number)) if len(table) else ():
                other = table.set_column(number, table.schema.field(number), column)
                yield name, lambda path, other=other: pq.write_table(other, path)
    else:
        yield "bytes", lambda path: path.write_bytes(path.read_bytes() + b"x")


def digested_anew(run: Path, file: Path) -> None:
    """Whoever changes a file changes what has its digest, too."""
    stage = file.relative_to(run).parts[0]
    if stage == "release" and file.name != "SHA256SUMS":
        sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (run / stage).iterdir()}
        lines = [f"{sha}  {name}\n" for name, sha in sorted(sums.items()) if name != "SHA256SUMS"]
        (run / stage / "SHA256SUMS").write_text("".join(lines))
    if stage not in ("manifest.json", "confidential.intoto.jsonl"):
        manifest = json.loads((run / "manifest.json").read_text())
        (record,) = (one for one in manifest["stages"] if one["name"] == stage)
        record["output"] = folder_digest(run / stage)
        write_json(run / "manifest.json", manifest)


def is_found(run: Path) -> bool:
    try:
        return verify(run).failures != ()
    except UnreadableError:
        return True


def unfound(run: Path, copied: Path, tried: Counter[str]) -> Iterator[str]:
    """The fields that claim something and may be changed without a word; counts those that were tried."""
    shutil.copytree(run, copied)
    is_ci = settings.get_current_profile_name() == "ci"
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        place = file.relative_to(run)
        if place.parts[0] in NOT_OURS:
            continue
        kept = [run / "manifest.json", file, *(run / "release").glob("SHA256SUMS")]
        for name, change in changes(file):
            kind = f"{re.sub('[0-9]+_[^.]*', '*', str(place))} {name}"
            # in CI once, over all runs and all files that differ in their numbers and tables alone
            if claims_nothing(f"{place} {name}") or (is_ci and tried[kind]):
                continue
            tried[kind] += 1
            change(copied / place)
            digested_anew(copied, copied / place)
            if not is_found(copied):
                yield f"{place} {name}"
            for path in kept:
                shutil.copy(path, copied / path.relative_to(run))


@pytest.fixture(scope="module")
def tried() -> Counter[str]:
    return Counter()


def test_every_field_is_checked_or_claims_nothing(run: Path, tmp_path: Path, tried: Counter[str]) -> None:
    assert set(unfound(run, tmp_path / "run", tried)) == set()


def claims_nothing(field: str) -> bool:
    return any(fnmatch(field, pattern) for pattern in CLAIM_NOTHING)
