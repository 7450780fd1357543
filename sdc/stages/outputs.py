"""What the stages of a run folder have made, read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.risk.assessment import Assessment
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.refutation import Refutation
from sdc.run_format import ASSESSMENT, SEARCH, TABLE
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate
from sdc.storage.known import read_known
from sdc.storage.parquet import read_written_table
from sdc.storage.proofs import read_refutations
from sdc.storage.run_folder import RunFolder
from sdc.storage.weighted import read_weights

WIDTHS = "widths"


@dataclass(frozen=True, eq=False)
class Outputs:
    """Each is read when it is first asked for, and kept."""

    folder: RunFolder

    @cached_property
    def table(self) -> Table:
        return read_written_table(self.folder.stage(TABLE))

    @cached_property
    def known(self) -> Knowledge:
        """What is known of the table before anything is released: what was published, and which cells cannot be."""
        return read_known(self.folder.stage(TABLE), self.table)

    @cached_property
    def beside(self) -> Knowledge:
        """That, and what goes out in part: beside it the release was found."""
        return self.known.telling(self.found.parts.facts)

    @cached_property
    def weights(self) -> RecordWeights:
        """Of the table's cells."""
        return read_weights(self.folder.stage(TABLE), self.table)

    @cached_property
    def widths(self) -> CriticalWidths:
        return results.read_widths(self.folder.stage(WIDTHS))

    @cached_property
    def found(self) -> results.SearchRecord:
        return results.read_search(self.folder.stage(SEARCH), self.table.schema)

    @cached_property
    def refutations(self) -> Mapping[str, Refutation]:
        """What proves refusals of the search, by name."""
        return read_refutations(self.folder.stage(SEARCH), self.table)

    def certificate(self, stage: str) -> Certificate:
        """What the search or the assessment shows about the release; not kept, for it may be large."""
        return read_certificate(self.folder.stage(stage), self.table.schema)

    def assessed(self, small_count: int) -> tuple[Assessment, CellBounds]:
        """The assessment, and bounds of the at-risk cells; not kept."""
        return results.read_assessment(self.folder.stage(ASSESSMENT), self.table, small_count)
