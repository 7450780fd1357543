"""A signed release: what its statements say, and that `sdc verify` finds it where they or the files are corrupt."""

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sdc.commands import cli
from sdc.model.errors import ConfigError, InputError, RunFolderError
from sdc.publish.catalogue import SigningKey, passed
from sdc.publish.formats import FORMATS
from sdc.verify.run_folder import verify
from sdc.version import VERSION
from tests.helpers.folders import contents
from tests.integration.verify.forging import (
    Corruption,
    Corruptions,
    copy_of,
    edited,
    in_turn,
    record,
    removing,
    replacing,
)
from tests.integration.verify.signing import (
    CONFIDENTIAL,
    STATEMENT,
    checks,
    new_key,
    sha,
    signed,
    signed_by,
    statement_of,
    yearbook,
)

Statement = dict[str, Any]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    new_key(folder / "key.pem")
    return folder


@pytest.fixture(scope="module")
def honest(place: Path) -> Path:
    """In all formats, with totals; not to be touched."""
    return signed(place, publication={"formats": [*FORMATS], "totals": True})


@pytest.fixture(scope="module")
def plain(place: Path) -> Path:
    """As CSV alone; not to be touched."""
    return signed(place, publication={"formats": ["csv"]})


# What the statements say


def test_the_statement_is_of_every_file_and_tells_no_setting(honest: Path) -> None:
    statement = statement_of(honest / STATEMENT)
    files = {*contents(honest / "release")}
    signed = {"SHA256SUMS.sig", "SHA256SUMS.pub", "statement.intoto.jsonl"}
    assert {one["name"]: one["digest"]["sha256"] for one in statement["subject"]} == {
        name: sha(honest / "release" / name) for name in files - signed
    }
    assert statement["predicate"] == {
        "result": "PASSED",
        "configuration": [{"name": "sdc", "uri": f"pkg:generic/sdc@{VERSION}"}],
    }
    (sums,) = (one for one in statement["subject"] if "annotations" in one)
    assert (sums["name"], sums["annotations"]) == ("SHA256SUMS", {"title": "Workers", "period": "1981"})


def test_the_confidential_statement_is_of_all_evidence(honest: Path) -> None:
    statement = statement_of(honest / CONFIDENTIAL)
    stages = ("table", "widths", "search", "assessment", "confidential")
    files = [honest / "release" / "SHA256SUMS", *(path for stage in stages for path in (honest / stage).iterdir())]
    said = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert said == {str(path.relative_to(honest)): sha(path) for path in files}
    code, config, data = statement["predicate"]["configuration"]
    digests = json.loads((honest / "manifest.json").read_text())["digests"]
    found = {of: one["digest"]["sha256"] for of, one in (("code", code), ("config", config), ("data", data))}
    assert found == digests
    assert config["annotations"]["risk"]["min_width"] == 6
    assert "signing_key" not in config["annotations"]["publication"]
    verdict = next(one["annotations"] for one in statement["subject"] if one["name"] == "assessment/assessment.json")
    assert (verdict["releasable"], verdict["min_width"], verdict["undecided_cells"]) == (True, [9, 9], 0)
    assert (honest / CONFIDENTIAL).stat().st_mode & 0o077 == 0


def test_a_release_without_a_place_has_no_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise RunFolderError("the ledger is away")

    new_key(tmp_path / "key.pem")
    monkeypatch.setattr("sdc.stages.release._enter_ledger", away)
    with pytest.raises(RunFolderError, match="the ledger is away"):
        signed(tmp_path)
    (run,) = (tmp_path / "runs" / "signed").iterdir()
    assert (run / "confidential" / "report.html").exists()
    assert not (run / "release").exists()
    assert not (run / CONFIDENTIAL).exists()


def test_the_same_build_has_the_same_statements(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "key.pem", tmp_path)
    first, again = signed(place), signed(tmp_path)
    assert contents(first / "release") == contents(again / "release")
    assert (first / CONFIDENTIAL).read_bytes() == (again / CONFIDENTIAL).read_bytes()
    # found by other settings the same release has the same statement, and a confidential one of its own
    other = signed(tmp_path, risk={"min_width": 9})
    assert contents(other / "release") == contents(first / "release")
    assert (other / CONFIDENTIAL).read_bytes() != (first / CONFIDENTIAL).read_bytes()
    # no longer signed, it has none
    unsigned = signed(tmp_path, publication={"signing_key": None})
    assert not (unsigned / CONFIDENTIAL).exists()
    assert not {path.name for path in (unsigned / "release").iterdir()} & {"SHA256SUMS.sig", "statement.intoto.jsonl"}
    assert verify(unsigned).verified


# Corrupted, with all that has its digest made anew


def signed_anew(run: Path, change: Callable[[Statement, Statement], object] = lambda one, other: None) -> None:
    """What somebody else signs, of the files as they are, with what they say otherwise in the statements."""
    file = new_key(run.parent / "other.pem")
    key, statements = SigningKey.read(file), [statement_of(run / name) for name in (STATEMENT, CONFIDENTIAL)]
    folder = run / "release"
    sums = "".join(f"{sha(folder / name)}  {name}\n" for name in sorted(contents(folder)) if is_listed(folder / name))
    (run / "release" / "SHA256SUMS").write_text(sums)
    (run / "release" / "SHA256SUMS.sig").write_text(key.signature(sums.encode()))
    (run / "release" / "SHA256SUMS.pub").write_text(key.public)
    for folder, statement in zip((run / "release", run), statements, strict=True):
        for one in statement["subject"]:
            one["digest"]["sha256"] = sha(folder / one["name"])
    change(*statements)
    for name, one in zip((STATEMENT, CONFIDENTIAL), statements, strict=True):
        content = json.loads(passed(key, one["subject"], one["predicate"]["configuration"]))
        if one["predicate"]["result"] != "PASSED":
            content = resigned(file, one)
        (run / name).write_text(json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n")


def is_listed(path: Path) -> bool:
    return not path.name.startswith("SHA256SUMS") and not path.name.startswith("statement")


def resigned(file: Path, statement: Statement) -> Statement:
    """An envelope of what our own writer does not write."""
    key, payload = SigningKey.read(file), json.dumps(statement).encode()
    kind = "application/vnd.in-toto+json"
    signature = key.signature(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload).strip()
    by = [{"keyid": key.keyid, "sig": signature}]
    return {"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": by}


def written(name: str, change: Callable[[Statement], object]) -> Corruption:
    """Something else in an envelope, in the form that all have."""

    def corrupt(run: Path) -> None:
        content = json.loads((run / name).read_text())
        change(content)
        (run / name).write_text(json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n")

    return corrupt


def with_payload(content: Statement) -> None:
    text = base64.b64decode(content["payload"]).decode().replace('"PASSED"', '"FAILED"')
    content["payload"] = base64.b64encode(text.encode()).decode()


def saying(change: Callable[[Statement, Statement], object]) -> Corruption:
    return lambda run: signed_anew(run, change)


def configured(statement: Statement, number: int) -> Statement:
    found: Statement = statement["predicate"]["configuration"][number]
    return found


def of_other_file(statement: Statement) -> None:
    statement["subject"][-1]["digest"]["sha256"] = "0" * 64


def write_other_signature(run: Path) -> None:
    key = SigningKey.read(new_key(run.parent / "other.pem"))
    (run / "release" / "SHA256SUMS.sig").write_text(key.signature((run / "release" / "SHA256SUMS").read_bytes()))


def write_other_key(run: Path) -> None:
    (run / "release" / "SHA256SUMS.pub").write_text(SigningKey.read(new_key(run.parent / "other.pem")).public)


SIGNATURE, KEY = "release/SHA256SUMS.sig", "release/SHA256SUMS.pub"
BY_OTHERS, NOT_THERE = r"SHA256SUMS\.sig is not by the key in SHA256SUMS\.pub", r"statement\.intoto\.jsonl is missing"
LOST = in_turn(removing(STATEMENT), removing(CONFIDENTIAL))
CORRUPTED: Corruptions = {
    "another signature": (write_other_signature, BY_OTHERS),
    "a signature and more": (replacing(SIGNATURE, r"\Z", "x"), "is not one signature in base64"),
    "another key": (write_other_key, BY_OTHERS),
    "no key": (removing(KEY), r"SHA256SUMS\.pub is missing"),
    "no signature": (removing(SIGNATURE), r"SHA256SUMS\.sig is missing"),
    "no statement": (removing(STATEMENT), NOT_THERE),
    "no confidential statement": (removing(CONFIDENTIAL), r"is signed, and lacks confidential\.intoto\.jsonl;"),
    "no statements": (LOST, NOT_THERE),
    "nothing signed": (
        in_turn(LOST, removing(KEY), removing(SIGNATURE)),
        r"is signed, and lacks release/SHA256SUMS\.sig, ",
    ),
    "more around it": (written(STATEMENT, lambda one: one.update(more=1)), "has more around what is signed"),
    "another key's name": (
        written(CONFIDENTIAL, lambda one: one["signatures"][0].update(keyid="0")),
        "has more around what is signed",
    ),
    "a changed statement": (written(STATEMENT, with_payload), "is not signed by the key that signed SHA256SUMS"),
    "a changed confidential one": (written(CONFIDENTIAL, with_payload), "is not signed by the key that signed"),
    "a config of the manifest": (
        edited("manifest.json", lambda content: content["config"]["publication"].update(formulas="refuse")),
        "is by another config, data or code",
    ),
    # by a key that is theirs
    "of another folder": (saying(lambda one, other: of_other_file(one)), "is of another folder"),
    "a title": (
        saying(lambda one, other: one["subject"][0]["annotations"].update(title="x")),
        "another title or period",
    ),
    "a failure": (saying(lambda one, other: one["predicate"].update(result="FAILED")), "does not state that the last"),
    "another program": (saying(lambda one, other: configured(one, 0).update(uri="x")), "names no version of sdc"),
    "of other evidence": (saying(lambda one, other: of_other_file(other)), "is of another folder"),
    "another config": (
        saying(lambda one, other: configured(other, 1)["annotations"]["risk"].update(min_width=7)),
        "is by another config",
    ),
    "other data": (
        saying(lambda one, other: configured(other, 2)["digest"].update(sha256="0")),
        "is by another config",
    ),
    "another verdict": (
        saying(lambda one, other: other["subject"][1]["annotations"].update(releasable=False)),
        "has another verdict",
    ),
}


@pytest.mark.parametrize("name", CORRUPTED)
def test_statements_that_are_corrupt_are_not_verified(name: str, plain: Path, tmp_path: Path) -> None:
    corrupt, words = CORRUPTED[name]
    run = copy_of(plain, tmp_path)
    corrupt(run)
    record(run)
    (failure,) = verify(run).failures
    assert re.search(words, failure), failure


def test_what_is_signed_anew_and_says_the_same_is_verified(plain: Path, tmp_path: Path) -> None:
    """Who can write the run folder can sign it as somebody: that it was the agency, its key from elsewhere tells."""
    run = copy_of(plain, tmp_path)
    signed_anew(run)
    record(run)
    assert verify(run).verified


# Published, without the table


@pytest.fixture
def release(honest: Path, place: Path, tmp_path: Path) -> Path:
    """What is published, away from its run folder, beside the signer's keys."""
    for file in ("key.pem", "key.pub"):
        shutil.copy(place / file, tmp_path)
    return Path(shutil.copytree(honest / "release", tmp_path / "release"))


def test_readers_verify_what_was_published(release: Path, place: Path) -> None:
    found = checks(release, place / "key.pub")
    assert [*found] == ["signature", "files", "statement", "page", "formats", "totals", "texts", "tables"]
    assert f"{len(contents(release)) - 4} are as SHA256SUMS lists them" in found["files"]
    assert VERSION in found["statement"]
    assert found["formats"] == "the same counts of 6 tables in csv, parquet, json-stat, px, sdmx-csv, xml, xlsx, pxapi"
    assert "1,841 records in each of 6 tables" in found["totals"]
    assert "6 agree" in found["tables"]


def with_other_statement(folder: Path) -> None:
    """That of another folder, signed by the same key."""
    key = SigningKey.read(folder.parent / "key.pem")
    statement = statement_of(folder / "statement.intoto.jsonl")
    statement["subject"][1]["digest"]["sha256"] = "0" * 64
    text = passed(key, statement["subject"], statement["predicate"]["configuration"])
    (folder / "statement.intoto.jsonl").write_text(text)


def noise(name: str) -> Corruption:
    return lambda folder: (folder / name).write_bytes(b"\xff")


def into_folder(folder: Path) -> None:
    (folder / "README.txt").unlink()
    (folder / "README.txt").mkdir()


def with_a_record_more(folder: Path) -> None:
    """In Parquet alone."""
    path = folder / "001_A-B-C-D-E.parquet"
    table = pq.read_table(path)
    first, *counts = table.column("count").to_pylist()
    place = table.column_names.index("count")
    pq.write_table(table.set_column(place, "count", pa.array([first + 1, *counts], table.schema.types[place])), path)


def moved(text: str) -> str:
    """With a record of the last cell in the first."""
    header, first, *between, last = text.splitlines()
    rows = [row.rpartition(",") for row in (first, last)]
    one, other = (f"{cell},{int(count) + by}" for (cell, _, count), by in zip(rows, (1, -1), strict=True))
    return "\n".join([header, one, *between, other]) + "\n"


SUMS, NOTE = "SHA256SUMS", "statement.intoto.jsonl"
NOT_AS_SIGNED: Corruptions = {
    "a file changed": (replacing("001_A-B-C-D-E.csv", "1841", "1842"), r"D-E\.csv is not what SHA256SUMS lists"),
    "a file removed": (removing("README.txt"), r"README\.txt is listed .* and is not there"),
    "a file added": (lambda folder: (folder / "more.csv").write_text("A\n"), r"more\.csv is not listed in SHA256SUMS"),
    "a folder instead": (into_folder, r"README\.txt is not what SHA256SUMS lists"),
    "checksums changed": (replacing(SUMS, "0", "1"), r"SHA256SUMS\.sig is not by --key"),
    "a signature of noise": (noise("SHA256SUMS.sig"), r"SHA256SUMS\.sig cannot be read"),
    "a statement of noise": (noise(NOTE), r"statement\.intoto\.jsonl cannot be read"),
    "unsigned": (in_turn(*map(removing, ("SHA256SUMS.sig", "SHA256SUMS.pub", NOTE))), r"it has no SHA256SUMS\.sig, so"),
    "no statement": (removing(NOTE), "it has no statement"),
    "a statement of another folder": (with_other_statement, "is of another folder: 001_A-B-C-D-E"),
    "another public key in it": (lambda folder: write_other_key(folder.parent), r"SHA256SUMS\.pub is not --key"),
}
CONTRADICTING: Corruptions = {
    "other counts in PX": (
        replacing("001_A-B-C-D-E.px", r"[0-9]+(\s*;\s*)$", r"1842\1"),
        r"\.px has other cells than the table has as CSV or Parquet",
    ),
    "other counts in Parquet": (with_a_record_more, r"\.parquet has other cells than the table has in"),
    "a total of cells": (replacing("001_A-B-C-D-E.csv", ",1841", ",1842"), "has totals that are not the sums"),
    "the number of records": (
        in_turn(
            replacing("datapackage.json", '"records": 1841', '"records": 1842'),
            replacing("index.html", "1,841", "1,842"),
        ),
        r"001_A-B-C-D-E\.csv has 1,841 records, and datapackage\.json states 1842",
    ),
    "a page": (replacing("index.html", "1,841", "1,842"), r"index\.html has numbers that its metadata do not have"),
}


@pytest.mark.parametrize("name", NOT_AS_SIGNED)
def test_what_is_not_as_it_was_signed_is_not_verified(name: str, release: Path) -> None:
    corrupt, words = NOT_AS_SIGNED[name]
    corrupt(release)
    with pytest.raises(InputError, match=f"{release} is not verified: .*{words}"):
        checks(release, release.parent / "key.pub")


@pytest.mark.parametrize("name", CONTRADICTING)
def test_what_a_signer_signs_and_contradicts_itself_is_not_verified(name: str, release: Path) -> None:
    corrupt, words = CONTRADICTING[name]
    corrupt(release)
    signed_by(release, SigningKey.read(release.parent / "key.pem"))
    with pytest.raises(InputError, match=words):
        checks(release, release.parent / "key.pub")


def test_only_the_signers_key_will_do(release: Path, place: Path, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other.pem")
    with pytest.raises(InputError, match=r"SHA256SUMS\.sig is not by --key .*other\.pub; get the signer's key"):
        checks(release, other.with_suffix(".pub"))
    # nor that in the folder, whoever signed it
    with pytest.raises(ConfigError, match="is in the folder itself"):
        checks(release, release / "SHA256SUMS.pub")
    (tmp_path / "rsa.pub").write_bytes(
        generate_private_key(65537, 2048).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    for name in ("other.pem", "rsa.pub", "release/README.txt"):
        shutil.copy(tmp_path / name, tmp_path / "no_key")
        with pytest.raises(ConfigError, match="no_key is not an Ed25519 public key in PEM"):
            checks(release, tmp_path / "no_key")
    with pytest.raises(ConfigError, match="none cannot be read"):
        checks(release, tmp_path / "none")
    with pytest.raises(ConfigError, match="is not a folder"):
        checks(tmp_path / "none", place / "key.pub")


def test_tables_that_count_otherwise_are_not_verified(plain: Path, place: Path, tmp_path: Path) -> None:
    """One record of one table has another category, so that the total is the same."""
    folder = Path(shutil.copytree(plain / "release", tmp_path / "moved"))
    path = folder / "004_A-B-C-F.csv"
    path.write_text(moved(path.read_text()))
    signed_by(folder, SigningKey.read(place / "key.pem"))
    with pytest.raises(InputError, match=r"its tables contradict each other: .* have different counts of .*; ask the"):
        checks(folder, place / "key.pub")
    assert "tables" in checks(plain / "release", place / "key.pub")


def test_what_is_in_part_is_verified_as_far_as_it_tells(place: Path, tmp_path: Path) -> None:
    run = yearbook(tmp_path, totals=True, signing_key=str(place / "key.pem"))
    found = checks(run / "release", place / "key.pub")
    assert re.fullmatch("[1-9][0-9]* agree with each other; 1 suppressed or rounded: see sdc check", found["tables"])
    assert found["formats"].endswith("in csv, parquet, json-stat, px, sdmx-csv, xml, xlsx, pxapi")


def test_totals_of_weights_are_compared_and_not_added_up(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "key.pem", tmp_path)
    generator = np.random.default_rng(3)
    columns = {name: generator.integers(0, size, 4000) for name, size in (("a", 4), ("b", 3), ("c", 4))}
    weights = np.round(generator.lognormal(5, 0.7, 4000), 2)
    pq.write_table(pa.table({**columns, "w": weights}), tmp_path / "records.parquet")
    table = {"path": str(tmp_path / "records.parquet"), "variables": ["a", "b", "c"], "weight": "w"}
    run = signed(tmp_path, table=table, risk={"min_width": 4}, weighted={"round": 500})
    found = checks(run / "release", place / "key.pub")
    assert re.fullmatch(
        r"the same rows in CSV and Parquet: [1-9][0-9]* tables?; rounded totals are not added up", found["formats"]
    )
    assert not {"totals", "tables"} & found.keys()


def test_by_command(
    release: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: object) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["sdc", "verify", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    asked, found = ("--published", release, "--key", place / "key.pub"), checks(release, place / "key.pub")
    status, out, _ = said(*asked)
    assert (status, out) == (0, "".join(f"{what:14}{text}\n" for what, text in found.items()))
    status, out, _ = said(*asked, "--json")
    assert (status, json.loads(out)) == (0, {"published": str(release), "verified": True, "checks": found})
    for words in ((release, "--published"), (release, "--key", place / "key.pub")):
        assert "--published and --key go together" in said(*words)[2]
    (release / "README.txt").unlink()
    status, out, _ = said(*asked, "--json")
    assert (status, json.loads(out)["status"]) == (1, 1)
    assert "is not verified: README.txt" in json.loads(out)["error"]
