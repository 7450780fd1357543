"""Check the checksums of a release, their signature, and signed in-toto statements with a public key."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from sdc import run_format as names
from sdc.verify.core.levels import check

Digests = dict[str, str]  # SHA-256 of files, by name


def key_of(pem: bytes) -> Ed25519PublicKey:
    """ValueError unless the text is an Ed25519 public key in PEM."""
    try:
        key = load_pem_public_key(pem)
    except UnsupportedAlgorithm as error:
        raise ValueError("it is a key of a kind that is not known") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("it is a key of another kind than Ed25519")
    return key


def digest_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def files_below(folder: Path) -> set[str]:
    """The paths of everything in a folder, except the folders that have something; ValueError for links."""
    every = [*folder.rglob("*")]
    links = [path.name for path in every if path.is_symlink()]
    check(not links, f"{min(links, default='')} is a link to another place; get the folder again")
    return {path.relative_to(folder).as_posix() for path in every if not (path.is_dir() and any(path.iterdir()))}


def check_sums(folder: Path) -> Digests:
    """The checksums list every other file with its digest, and no more; return them."""
    lines = (folder / names.SUMS).read_text(encoding="utf-8").splitlines()
    listed = {name: sha for sha, _, name in (line.partition("  ") for line in lines)}
    there = {name: folder / name for name in files_below(folder) if name not in names.OF_SUMS}
    for name in sorted(listed.keys() | there.keys()):
        check(name in listed, f"{name} is not listed in {names.SUMS}; take it out, or find out where it is from")
        check(name in there, f"{name} is listed in {names.SUMS} and is not there; get it again")
        is_same = there[name].is_file() and digest_of(there[name]) == listed[name]
        check(is_same, f"{name} is not what {names.SUMS} lists; its checksums are not those of the files")
    return listed


def check_signature(folder: Path, key: Ed25519PublicKey, whose: str) -> None:
    """The checksums are signed by the key, and the folder has no other key."""
    text = (folder / names.SIGNATURE).read_text(encoding="utf-8")
    signature = base64.b64decode(text)
    check(text == f"{_base64(signature)}\n", f"{names.SIGNATURE} is not one signature in base64; get it again")
    what = f"{names.SIGNATURE} is not by {whose}; get the signer's key from the signer, or do not trust the folder"
    _require(key, signature, (folder / names.SUMS).read_bytes(), what)
    other = f"{names.PUBLIC_KEY} is not {whose}, by which {names.SIGNATURE} is; get the folder again"
    own = (folder / names.PUBLIC_KEY).read_text(encoding="utf-8")
    check(own == key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(), other)


def read_statement(path: Path, key: Ed25519PublicKey) -> dict[str, Any]:
    """The statement that all checks passed; ValueError for another signer or content."""
    text = path.read_text(encoding="utf-8")
    envelope = json.loads(text)
    payload, (signature,) = base64.b64decode(envelope["payload"]), envelope["signatures"]
    signed = f"DSSEv1 {len(names.PAYLOAD_TYPE)} {names.PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    sig = base64.b64decode(signature["sig"])
    _require(key, sig, signed, f"{path.name} is not signed by the key that signed {names.SUMS}; get it again")
    keyid = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    # the envelope is not signed: only one spelling is accepted
    by = [{"keyid": keyid, "sig": _base64(sig)}]
    around = {"payload": _base64(payload), "payloadType": names.PAYLOAD_TYPE, "signatures": by}
    one_way = json.dumps(around, sort_keys=True, separators=(",", ":")) + "\n"
    check(text == one_way, f"{path.name} has more around what is signed than its envelope; get it again")
    statement: dict[str, Any] = json.loads(payload)
    kinds = statement["_type"], statement["predicateType"], statement["predicate"]["result"]
    passed = names.STATEMENT_TYPE, names.RESULT_TYPE, names.PASSED
    check(kinds == passed, f"{path.name} does not state that the last check passed; get it again")
    return statement


def _require(key: Ed25519PublicKey, signature: bytes, content: bytes, what: str) -> None:
    """ValueError if the signature is of other bytes or by another key."""
    try:
        key.verify(signature, content)
    except InvalidSignature as error:
        raise ValueError(what) from error


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def check_subjects(statement: dict[str, Any], own: Digests, path: Path) -> None:
    """The statement is of exactly these files."""
    stated = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    other = min((name for name, sha in {*stated.items()} ^ {*own.items()}), default="")
    check(not other, f"{path.name} is of another folder: {other} is another there; get the statement of this one")


def version_of(statement: dict[str, Any]) -> str:
    """The version of sdc that checked the files."""
    uri: str = statement["predicate"]["configuration"][0]["uri"]
    check(uri.startswith(names.CHECKER), f"{names.STATEMENT} names no version of sdc; get it again")
    return uri.removeprefix(names.CHECKER)


def check_statement(folder: Path, key: Ed25519PublicKey, listed: Digests) -> str:
    """The statement has this signer and covers all checksums; return the version that checked it."""
    path = folder / names.STATEMENT
    statement = read_statement(path, key)
    check_subjects(statement, {**listed, names.SUMS: digest_of(folder / names.SUMS)}, path)
    metadata = json.loads((folder / names.METADATA).read_text(encoding="utf-8"))
    stated = {what: metadata[what] for what in ("title", "period") if what in metadata}
    titled = next(one.get("annotations") for one in statement["subject"] if one["name"] == names.SUMS)
    check(titled == stated, f"{path.name} has another title or period than {names.METADATA}; get it again")
    return version_of(statement)


def check_evidence(run: Path, manifest: dict[str, Any], key: Ed25519PublicKey) -> None:
    """The confidential statement is of this release and of its files, config, data and verdict."""
    path = run / names.CONFIDENTIAL_STATEMENT
    statement = read_statement(path, key)
    stages = (run / stage["name"] for stage in manifest["stages"] if stage["name"] != names.RELEASE)
    files = [run / names.RELEASE / names.SUMS, *(file for stage in stages for file in stage.rglob("*"))]
    check_subjects(statement, {file.relative_to(run).as_posix(): digest_of(file) for file in files}, path)
    sdc, config, data = statement["predicate"]["configuration"]
    digests = {"code": sdc, "config": config, "data": data}
    same = {of: one["digest"]["sha256"] for of, one in digests.items()} == manifest["digests"]
    same = same and _is_within(config["annotations"], manifest["config"])
    check(same, f"{path.name} is by another config, data or code than {names.MANIFEST}; run the build again")
    verdict = f"{names.ASSESSMENT}/{names.ASSESSMENT_FILE}"
    stated = next(one["annotations"] for one in statement["subject"] if one["name"] == verdict)
    assessed = json.loads((run / verdict).read_text(encoding="utf-8"))
    own = {what: assessed[what] for what in names.VERDICT}
    check(stated == own, f"{path.name} has another verdict than {verdict}; run the build again")


def _is_within(stated: Any, whole: Any) -> bool:
    """Whether a config contains all entries; places of data are not stated."""
    if isinstance(stated, dict) and isinstance(whole, dict):
        return all(key in whole and _is_within(value, whole[key]) for key, value in stated.items())
    return bool(stated == whole)
