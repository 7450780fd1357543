"""A build that is done, as whoever ran it from Python has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sdc.model.knowledge import Knowledge
from sdc.model.named import Named
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.run_format import RELEASE, REPORT
from sdc.stages.report import PAGE
from sdc.stages.subject import Subject


@dataclass(frozen=True, eq=False, repr=False)
class Built(Named):
    """What a build has released, and where it is.

    facts  the document that `sdc run --json` prints

    It goes into every verb that takes a release, with its `table`; RunFolderError where the run folder has gone since,
    or was changed.
    """

    facts: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.facts["run_folder"])

    @property
    def to_publish(self) -> Path:
        """The one folder that is safe to publish."""
        return self.folder / RELEASE

    @property
    def report(self) -> Path:
        """The audit report, which is confidential."""
        return self.folder / REPORT / PAGE

    @property
    def frontier(self) -> list[str]:
        """Labels of the released frontier."""
        return ["*".join(names) or "(total)" for names in self.facts["release"]["frontier"]]

    @property
    def sub_tables(self) -> int:
        """How many sub-tables are released, without the grand total."""
        return int(self.facts["release"]["sub_tables"])

    @cached_property
    def _subject(self) -> Subject:
        return Subject.open(str(self.folder))

    @property
    def table(self) -> Table:
        """The table that was built of."""
        return self._subject.table

    @property
    def weights(self) -> RecordWeights | None:
        """Of its records; None where the config names none."""
        return self._subject.weights

    @property
    def knowledge(self) -> Knowledge:
        """What everybody knows once it is published: what was known before, what is released, whole and in part."""
        return self._subject.public(None)

    @property
    def headline(self) -> str:
        return f"Build of {self.sub_tables:,} sub-tables and the grand total; to publish: {self.to_publish}"

    def by_name(self) -> dict[str, Sequence[Any]]:
        """The released frontier: labels, and the number of variables of each."""
        return {"sub_table": self.frontier, "variables": list(map(len, self.facts["release"]["frontier"]))}
