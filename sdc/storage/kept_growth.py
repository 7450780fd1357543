"""A growing release on disk, while its search is not done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences
from sdc.model.documents import plain, typed
from sdc.model.errors import RunFolderError
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.risk.refutation import Refutation
from sdc.risk.sharp import SharpPart
from sdc.search.so_far import SoFar
from sdc.search.step import SearchStep
from sdc.storage.kept_parts import KeptParts

_STEPS, _REFUTATIONS = tuple[SearchStep, ...], tuple[Refutation, ...]
_OF_A_DIFFERENCE = ("start", "cells", "changes")


@dataclass(frozen=True)
class KeptGrowth:
    """One growth of a search of a table with this schema, by its name among the parts that are kept."""

    parts: KeptParts
    name: str
    schema: Schema

    def read(self) -> SoFar | None:
        """What `write` kept last; None where it is not there, or is damaged: then the growth begins anew."""
        part = self.parts.read().get(self.name)
        with suppress(RunFolderError, LookupError, ValueError, TypeError):
            return None if part is None else self._so_far(part)
        return None

    def write(self, so_far: SoFar) -> None:
        """Keeps it; RunFolderError where it cannot be written."""
        steps = np.frombuffer(json.dumps(plain(_STEPS, so_far.steps, self.schema)).encode(), np.uint8)
        refuted = np.frombuffer(json.dumps(plain(_REFUTATIONS, so_far.refutations, self.schema)).encode(), np.uint8)
        kept: dict[str, npt.NDArray[Any]] = {
            "begun_with": np.array(so_far.start.frontier, np.int64),
            "steps": steps,
            "refutations": refuted,
            "missed": np.array(sorted(so_far.missed.items()), np.int64).reshape(-1, 2),
            "spent": np.array(so_far.spent),
        }
        for variables, differences in so_far.evidence:
            kept |= {f"{variables}:{name}": getattr(differences, name) for name in _OF_A_DIFFERENCE}
        self.parts.write(SharpPart(self.name, kept))

    def _so_far(self, part: SharpPart) -> SoFar:
        told, folder, schema = part.arrays, self.parts.folder, self.schema
        steps = typed(_STEPS, json.loads(told["steps"].tobytes()), folder, schema)
        refuted = typed(_REFUTATIONS, json.loads(told["refutations"].tobytes()), folder, schema)
        start, missed = Release.of(told["begun_with"].tolist()), dict(told["missed"].tolist())
        return SoFar(start, steps, tuple(self._evidence(part)), missed, int(told["spent"]), refuted)

    def _evidence(self, part: SharpPart) -> Iterator[tuple[SubTable, Differences]]:
        for name in part.arrays:
            variables, _, of = name.partition(":")
            if of == "start":
                arrays = (part.arrays[f"{variables}:{one}"] for one in _OF_A_DIFFERENCE)
                yield int(variables), Differences(*arrays)
