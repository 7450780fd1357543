"""A run folder verified by itself, and beside what was published before as that can be read now."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sdc.config.build import BuildConfig
from sdc.model.errors import AbsentError, InputError, RunFolderError, SdcError
from sdc.paths import checked_path
from sdc.public.earlier import known_anew, read_origin
from sdc.record.ledger import read_ledger
from sdc.run_format import KNOWN, LEDGER_HEAD, MANIFEST, METADATA, RELEASE, SHA256, TABLE
from sdc.storage.known import read_known
from sdc.storage.parquet import read_written_table
from sdc.storage.run_folder import read_json
from sdc.verify.run_folder import RECORDED, UnreadableError, Verification, verify


def verify_run(run_folder: str | Path, say: Callable[[str], None] = lambda text: None) -> Verification:
    """Checks all that a run folder claims by its table, release and certificate alone, as `sdc verify` does.

    What was known before is read again from all that the config in the manifest names, where it is there. `say` hears
    what is checked. Whatever does not hold is among the `failures`; RunFolderError for what is no run folder, or has no
    certificate.
    """
    path = checked_path(run_folder)
    try:
        found = verify(path, say)
    except UnreadableError as error:
        raise RunFolderError(str(error)) from error
    manifest = read_json(path / MANIFEST)
    told = manifest["config"]
    if not found.verified or not (told.get("earlier") or told.get("ledger")):
        return found
    say("verify: what was published before, as it can be read now")
    try:
        config, head = BuildConfig.model_validate(told), manifest.get(LEDGER_HEAD)
        table = read_written_table(path / TABLE)
        known_anew(read_known(path / TABLE, table), table, read_origin(path / TABLE), config, head)
        if config.ledger is not None and (path / RELEASE).is_dir():
            _require_entry(path, config, head)
    except AbsentError as error:
        return replace(found, known=f"{RECORDED}: {error}")
    except SdcError as error:
        return replace(found, failures=(str(error),))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"{path / TABLE / KNOWN} or the config in {MANIFEST} is damaged: {type(error).__name__}"
        return replace(found, failures=(f"{what}; run the build again",))
    return replace(found, known="read again from all that the config names")


def _require_entry(path: Path, config: BuildConfig, head: str | None) -> None:
    """InputError where the release is not what the ledger has after the head: then others came between, or none."""
    ledger = read_ledger(Path(config.ledger or ""))
    number = len(ledger.up_to(head or "").entries)
    metadata = SHA256 + hashlib.sha256((path / RELEASE / METADATA).read_bytes()).hexdigest()
    if [entry.metadata for entry in ledger.entries[number : number + 1]] != [metadata]:
        raise InputError(
            f"the ledger {ledger.path} does not have {path / RELEASE} as entry {number + 1}, after what it was judged "
            "with; run the build again, and find out what was published"
        )
