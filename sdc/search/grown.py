"""A release that grows, as it is proven so far: what a worker sends, and what a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.checkpoint import Arrays, packed, unpacked
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.risk.criteria import Evaluation
from sdc.risk.effort import Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutation
from sdc.search.step import SearchStep

_OF_A_DIFFERENCE = ("start", "cells", "changes")
_DOCUMENTS: dict[str, Any] = {"steps": tuple[SearchStep, ...], "refutations": tuple[Refutation, ...]}


@dataclass(frozen=True, eq=False)
class Grown:
    """A release, what shows that it is safe, and the steps that led to it; else as `OrderedRelease`."""

    release: Release
    proof: Proof
    steps: tuple[SearchStep, ...] = ()
    unasked: int = 0
    is_ended: bool = False
    refutations: tuple[Refutation, ...] = ()
    resumed: bool | None = None

    def kept(self, schema: Schema) -> Arrays:
        """As a checkpoint has it."""
        arrays: dict[str, npt.NDArray[Any]] = {"release": np.array(self.release.frontier, np.int64)}
        arrays |= {name: packed(kind, getattr(self, name), schema) for name, kind in _DOCUMENTS.items()}
        for part in self.proof.parts:
            arrays |= {f"{part.variables}:{name}": getattr(part.differences, name) for name in _OF_A_DIFFERENCE}
        return arrays

    @staticmethod
    def read(arrays: Arrays, schema: Schema) -> Grown:
        """What `kept` gave; LookupError, TypeError or ValueError where it is something else."""
        steps, refutations = (unpacked(kind, arrays, name, schema) for name, kind in _DOCUMENTS.items())
        if steps is None or refutations is None:
            raise ValueError("steps or refutations are corrupt")
        release = Release.of(arrays["release"].tolist())
        return Grown(release, Proof(tuple(_parts(arrays)), ()), steps, refutations=refutations)

    def evaluation(self, evaluator: RiskEvaluator) -> Evaluation | None:
        """The one that accepts the release, by the evidence here, which is checked in integers.

        None where that does not hold; the evaluator has learnt what does.
        """
        if not all(one.holds(evaluator.table, evaluator.known.zeros) for one in self.refutations):
            return None
        evaluator.learn(self.proof, self.release)
        evaluation = evaluator.evaluate(self.release, Depth.REFUTE)
        return evaluation if evaluator.accepts(evaluation) else None


def _parts(arrays: Arrays) -> Iterator[ComponentProof]:
    for name in arrays:
        variables, _, of = name.partition(":")
        if of == "start":
            found = Differences(*(arrays[f"{variables}:{one}"] for one in _OF_A_DIFFERENCE))
            yield ComponentProof(int(variables), None, found)
