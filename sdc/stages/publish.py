"""Publications outside of a build: of a release that was found, and of a rounded table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sdc.config.build import BuildConfig
from sdc.config.file import faults_of
from sdc.config.publication import LabelsConfig, PublicationConfig
from sdc.model.errors import ConfigError, InputError
from sdc.model.labels import Labels
from sdc.model.parts import NO_PARTS
from sdc.model.table import Table
from sdc.publish.formats import CountTable
from sdc.publish.gate import GateSubject, clear
from sdc.publish.publication import Texts, check_publication, write_publication
from sdc.risk.verdict import Policy
from sdc.search.best import FoundRelease
from sdc.search.found import Found
from sdc.search.rounding import Rounded
from sdc.storage.certificate import Certificate
from sdc.storage.run_folder import RunFolder

IN_NO_LEDGER = "in no ledger; judged beside nothing published before but what was named"


def publish_release(
    table: Table,
    found: Found,
    folder: str | Path,
    *,
    title: str,
    formulas: str = "quote",
    about: Mapping[str, Any] | None = None,
    labels: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Publishes a release that was found for the table in a new folder, once the gate has cleared it.

    With what of it goes out in part.

    It is in no ledger, and was judged beside nothing published before but what was named to the search as public. That
    is what is returned, in words; where more counts, build by a config with `sdc run`.

    about   all else that `publication` in a config has, such as period, notes, formats and children
    labels  by variable label, note, unit and categories, as `labels.variables` in a config has them

    The folder appears whole or not at all. ReleaseError where the release is not proven safe, or is of another table;
    ConfigError where the folder exists or cannot be made; InputError for labels of what the table does not have.
    """
    judgement, out = found.judgement, Path(folder).absolute()
    parts = found.parts if isinstance(found, FoundRelease) else NO_PARTS
    criteria, told = judgement.criteria, {*parts.facts}
    known = replace(judgement.known, facts=tuple(fact for fact in judgement.known.facts if fact not in told))
    # before the gate, whose checks may take longer
    require_new(out)
    texts = _texts(table, {**(about or {}), "title": title, "formulas": formulas}, labels or {})
    # the table that was judged, not the one given: the gate compares the two
    digest = judgement.bank.table.digest
    small_count, min_width = criteria.small_count, criteria.floor
    certificate = Certificate(digest, known, judgement.asked, small_count, min_width, judgement.proof, parts)
    cleared = clear(table, known, certificate, criteria, Policy.REFUSE)
    with RunFolder(out.parent).writing(out.name, public=True) as into:
        write_publication(cleared, GateSubject(table.digest, criteria, Policy.REFUSE), title, into, texts=texts)
        check_publication(cleared, into, title, texts)
    return IN_NO_LEDGER


def _texts(table: Table, about: Mapping[str, Any], labels: Mapping[str, Any]) -> Texts:
    """The texts of a publication; InputError where one is not allowed, or labels what the table does not have."""
    section = "publication"
    try:
        said = PublicationConfig.model_validate(about)
        section = "labels"
        named = LabelsConfig.model_validate({"variables": labels}).labels
    except ValidationError as error:
        raise InputError(faults_of(error, BuildConfig, section)) from error
    named.require(table.schema)
    return Texts(said, named)


def rounded_table(table: Table, rounded: Rounded, title: str) -> CountTable:
    """The rounded table as the writers of formats take it, called rounded wherever it is listed.

    With its totals where all of its margins are rounded too, so that whoever reads it alone knows that they are.
    """
    cells = np.argwhere(rounded.counts > 0)
    found = Table.of(table.schema, cells, rounded.counts[rounded.counts > 0])
    listed = CountTable.of("rounded", title, found, Labels())
    if len(rounded.margins) == (1 << rounded.counts.ndim) - 1:
        listed = replace(listed, totals=True)
    if not rounded.counts.any():  # else the file would name no category
        listed = replace(listed, zeros=True)
    return listed.rounded(found.counts, rounded.base)


def require_new(folder: Path) -> None:
    """ConfigError where a folder to publish in is there, or where it would be is none."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; name a folder that does not")
    if not folder.parent.is_dir():
        raise ConfigError(f"{folder}: {folder.parent} is not a folder; name one in a folder that exists")
