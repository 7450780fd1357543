"""Verification of run folders, with earlier publications read again, and of published folders."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sdc.config.build import BuildConfig, section_digest
from sdc.config.file import NOTHING_SET, Settings, read_config
from sdc.model.errors import AbsentError, ConfigError, InputError, RunFolderError, SdcError
from sdc.model.extras import require_packages
from sdc.paths import checked_path
from sdc.public.check import contradiction
from sdc.public.earlier import known_anew, read_provenance
from sdc.record.ledger import read_ledger
from sdc.run_format import IN_PART, KNOWN, LEDGER_HEAD, MANIFEST, METADATA, RELEASE, SHA256, SUB_TABLE, TABLE, TIMESTAMP
from sdc.stages.assemble import ALL_WIDTHS
from sdc.stages.build import Build
from sdc.stages.release import differing
from sdc.stages.stages import written_by
from sdc.storage.known import read_known
from sdc.storage.parquet import read_written_table
from sdc.storage.run_folder import read_json
from sdc.storage.runs import run_at
from sdc.verify.published.folder import UnverifiedError, verify_published
from sdc.verify.published.signed import key_of
from sdc.verify.run_folder import RECORDED, UnreadableError, Verification, verify

MOST_NAMED = 5  # files named in a summary
NOT_CHECKED = "of README.txt and index.html, titles, texts and numbers are checked, and no other words"
_HOW = ("execution", "output", "server")  # sections without effect on published bytes


def verify_run(
    run_folder: str | Path,
    say: Callable[[str], None] = lambda text: None,
    config: str | Path | None = None,
    settings: Settings = NOTHING_SET,
) -> Verification:
    """Check all that a run folder claims, by its table, release and certificate alone.

    Parameters
    ----------
    run_folder : str or path
        The run.
    say : function, optional
        Called with a line for each check.
    config : str or path, optional
        A YAML file that the config in the manifest must agree with.
    settings : dict, optional
        Settings on top of that file.

    Returns
    -------
    Verification
        `verified`, and the `failures`.

    Raises
    ------
    RunFolderError
        For what is not a run folder, or has no certificate.
    ConfigError
        Where the config file is not one.

    Notes
    -----
    The verifier shares no code with the search. What was known before is read again where it is there, and every
    published file is made again and compared byte by byte; where other versions wrote it, a difference is no failure.

    Examples
    --------
    >>> sdc.verify_run("runs/june").verified  # doctest: +SKIP
    True
    """
    path = run_at(checked_path(run_folder))
    expected = None if config is None else read_config(config, settings)
    try:
        found = verify(path, say)
    except UnreadableError as error:
        raise RunFolderError(str(error)) from error
    if not found.verified:
        return found
    manifest = read_json(path / MANIFEST)
    recorded = manifest["config"]
    try:
        if expected is not None and (other := _difference(expected, BuildConfig.model_validate(recorded))):
            what = f"{MANIFEST} has another {other} than {config}; give the config of this build, or build again"
            return replace(found, failures=(what,))
        if recorded.get("earlier") or recorded.get("ledger"):
            say("verify: earlier publications, read again")
            own = BuildConfig.model_validate(recorded)
            if expected is not None:
                own = own.model_copy(update={"ledger": expected.ledger})  # it may have been moved, or be a copy
            found = replace(found, known=_known_anew(path, own, manifest.get(LEDGER_HEAD)))
        if (path / RELEASE).is_dir():
            say("verify: the published files, made again")
            compared, failures = _made_again(path, manifest)
            found = replace(found, bytes=compared, failures=failures)
    except SdcError as error:
        return replace(found, failures=(str(error),))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"{path / TABLE / KNOWN} or the config in {MANIFEST} is corrupt: {type(error).__name__}"
        return replace(found, failures=(f"{what}; run the build again",))
    return found


def _known_anew(path: Path, config: BuildConfig, head: str | None) -> str:
    """Return where prior knowledge comes from; an error if earlier publications differ now."""
    try:
        table = read_written_table(path / TABLE)
        known_anew(read_known(path / TABLE, table), table, read_provenance(path / TABLE), config, head)
        if config.ledger is not None and (path / RELEASE).is_dir():
            _require_entry(path, config, head)
    except AbsentError as error:
        return f"{RECORDED}: {error}"
    return "read again from all that the config names"


def _difference(expected: BuildConfig, recorded: BuildConfig) -> str:
    """Return the first setting that differs, apart from locations of files."""
    if (expected.ledger is None) != (recorded.ledger is None):
        return "ledger"
    for section in BuildConfig.model_fields:
        if section not in _HOW and section_digest(expected, section) != section_digest(recorded, section):
            one, other = (config.model_dump(mode="json")[section] for config in (expected, recorded))
            both = isinstance(one, dict) and isinstance(other, dict)
            return f"{section} ({', '.join(k for k in one if one[k] != other[k])})" if both else section
    return ""


def _made_again(path: Path, manifest: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Compare a release with the files that this version writes; return a summary and each difference.

    If other versions wrote it, or its manifest says so, what differs is named in the summary and is no failure.
    """
    by = next(stage for stage in manifest["stages"] if stage["name"] == RELEASE).get("by", {})
    own, release = written_by(), path / RELEASE
    other = next((name for name in {**own, **by} if own.get(name) != by.get(name)), None)
    with_other = (
        "" if other is None else f"written with {other} {by.get(other, '(unknown)')}, here is {own.get(other)}: "
    )
    try:
        build = Build.of_run(path)
        vars(build).update(listing=ALL_WIDTHS, like=())  # by the run folder alone, without the data
        found = [*differing(build, release)]
    except (SdcError, LookupError, TypeError, ValueError, AttributeError) as error:
        if other is None:
            raise
        why = f"not compared, as this version cannot make them ({type(error).__name__}: {error}); {NOT_CHECKED}"
        return f"{with_other}{why}", ()
    if other is not None:
        if not found:
            return f"{with_other}all are as this version writes them", ()
        names = ", ".join(name for name, _ in found[:MOST_NAMED]) + ", ..." * (len(found) > MOST_NAMED)
        return f"{with_other}files that this version writes differently: {names}; look at these; {NOT_CHECKED}", ()
    failures = tuple(f"{name} is not what sdc {own['sdc']} writes: {how}" for name, how in found)
    return f"{len(failures) or 'all are'} {'not ' * bool(failures)}as sdc {own['sdc']} writes them", failures


def _require_entry(path: Path, config: BuildConfig, head: str | None) -> None:
    """Raise InputError unless the release is the ledger's next entry after the head."""
    ledger = read_ledger(Path(config.ledger or ""))
    number = len(ledger.up_to(head or "").entries)
    metadata = SHA256 + hashlib.sha256((path / RELEASE / METADATA).read_bytes()).hexdigest()
    if [entry.metadata for entry in ledger.entries[number : number + 1]] != [metadata]:
        raise InputError(
            f"the ledger {ledger.path} does not have {path / RELEASE} as entry {number + 1}, after what it was judged "
            "with; run the build again, and find out what was published"
        )


def verify_folder(folder: Path, key: Path) -> Iterator[tuple[str, str]]:
    """Yield each check and its result.

    ConfigError for a missing folder or key, InputError for a failed check.
    """
    if not folder.is_dir():
        raise ConfigError(f"--published {folder} is not a folder; name a published folder")
    if key.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"--key {key} is in the folder itself; get the key from the signer")
    if (folder / TIMESTAMP).exists():
        require_packages(str(folder / TIMESTAMP), "rfc3161_client")
    try:
        yield from verify_published(folder, _public_key(key), f"--key {key}")
    except UnverifiedError as error:
        raise InputError(str(error)) from error
    yield from _tables(folder)


def _public_key(file: Path) -> Ed25519PublicKey:
    try:
        return key_of(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"--key {file} cannot be read: {error.strerror}; name the signer's public key") from error
    except ValueError as error:
        raise ConfigError(f"--key {file} is not an Ed25519 public key in PEM; name the signer's public key") from error


def _tables(folder: Path) -> Iterator[tuple[str, str]]:
    """Check that tables of counts agree where they overlap."""
    metadata = read_json(folder / METADATA)
    tables = {tuple(one[SUB_TABLE]) for one in metadata["resources"] if one.get(SUB_TABLE)}
    if "weighted" in metadata or not tables:
        return
    if reason := contradiction(folder):
        raise InputError(f"{folder} is not verified: its tables contradict each other: {reason}; ask the signer")
    parts = {tuple(one[SUB_TABLE]) for one in metadata["resources"] if IN_PART in one}
    beside = f"; {len(parts)} suppressed or rounded: see sdc check" if parts else ""
    yield "tables", f"{len(tables - parts)} agree with each other{beside}"
