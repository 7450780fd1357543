"""What is said of a release, as documents have it: the verdict, the widths, and the cells that show why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sdc.model.documents import InDocuments, sparse
from sdc.model.errors import many
from sdc.model.named import Named, beside, named_cells
from sdc.model.schema import NamedCell, Schema
from sdc.model.sharpness import Sharpness
from sdc.risk.posterior_limit import Likely
from sdc.risk.verdict import Verdict


@dataclass(frozen=True)
class Witness:
    """A cell that shows why a release is unsafe, or that nothing could decide."""

    cell: NamedCell
    count: int
    outer: tuple[int, int]
    inner: tuple[int, int]
    method: str


@dataclass(frozen=True)
class OwnJudged:
    """Primary cells of suppressed tables, each of which is to keep the width too.

    cells     how many; unproven  of them those that are not shown to
    """

    cells: int
    unproven: int


@dataclass(frozen=True)
class Shown:
    """What feasible tables show of a criterion beside the width, by its key in Python.

    cells     how many at-risk cells; unproven  of them those of which they do not show it
    """

    criterion: str
    cells: int
    unproven: int


@dataclass(frozen=True)
class Broken:
    """A rule on what is published itself that is broken.

    text  how, without a cell; detail  with it, which is confidential
    """

    text: str
    detail: str


@dataclass(frozen=True, repr=False)
class Assessment(Named):
    """Whether a release satisfies min width >= min_width_required ([KDSF] eq. 6), as documents have it.

    verdict          safe: every inner width reaches it; unsafe: some outer width does not; else undecided
    min_width        (lo, hi) that contains the sharp minimum width over the at-risk cells
    undecided_cells  cells whose outer width reaches it and whose inner width does not
    witnesses        cells that prove it unsafe, else the undecided ones, narrowest first, at most 20
    likely           what it makes likely, where the criteria limit that and the bounds do not refute it
    sharpness        how far the bounds of the at-risk cells came, where they were to be sharp
    in_part          what is shown of small cells of suppressed tables, where there are any
    broken           the first criterion beside the width that is proven to be broken; where it is of published counts,
                     widths were not looked at, unless all bounds were asked for
    shown            what feasible tables show of each criterion beside the width that needs them

    Examples
    --------
    >>> answer = sdc.assess("czech_auto_workers.csv", ["A*B"], min_width=6)
    >>> answer.releasable, answer.at_risk_cells
    (True, 3)
    """

    verdict: Annotated[Verdict, InDocuments(bool | None, lambda v, _: v.releasable, lambda v, _: Verdict.read(v))]
    min_width_required: int
    min_width: tuple[int, int]
    at_risk_cells: int
    undecided_cells: int
    witnesses: tuple[Witness, ...]
    likely: Likely | None = None
    sharpness: Sharpness | None = None
    in_part: OwnJudged | None = None
    broken: Broken | None = None
    shown: tuple[Shown, ...] = ()

    @property
    def releasable(self) -> bool | None:
        """True, False, or None where nothing could decide."""
        return self.verdict.releasable

    @property
    def headline(self) -> str:
        if self.broken is not None:
            return f"Assessment: unsafe, {self.broken.text}"
        low, high = self.min_width
        return (
            f"Assessment: {self.verdict.name.lower()}, min width {low:,} to {high:,} of {self.min_width_required:,} "
            f"required, {many(self.at_risk_cells, 'at-risk cell')}, {self.undecided_cells:,} undecided{self._beside}"
        )

    @property
    def open_cells(self) -> int:
        """Cells that are undecided by the width, or of which another criterion is not proven."""
        of_parts = 0 if self.in_part is None else self.in_part.unproven
        return self.undecided_cells + of_parts + sum(one.unproven for one in self.shown)

    @property
    def _beside(self) -> str:
        said = [f"; {one.unproven:,} not proven to satisfy {one.criterion}" for one in self.shown]
        if self.in_part is not None:
            said.append(
                f"; {self.in_part.cells:,} small cells of suppressed tables, {self.in_part.unproven:,} not proven"
            )
        return "".join(said)

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The witnesses by names, with their counts and bounds."""
        cells = np.array([w.cell for w in self.witnesses], np.int64).reshape(-1, len(schema.axes))
        bounds = {name: [list(getattr(w, name)) for w in self.witnesses] for name in ("outer", "inner")}
        return beside(named_cells(cells, schema), {"count": [w.count for w in self.witnesses], **bounds})


def assessment_facts(assessment: Assessment, schema: Schema) -> dict[str, Any]:
    """As documents have it, with the categories of its witnesses by name."""
    facts = sparse(Assessment, assessment, schema)
    return {"releasable": facts.pop("verdict"), **facts}
