"""What an attack on a published folder got right, by the run that published it: its table, bounds and posteriors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdc.intruder.guesses import Guesses, mean_score
from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, RunFolderError
from sdc.run_format import MANIFEST, RELEASE
from sdc.stages.posterior import POSTERIOR
from sdc.stages.subject import Subject
from sdc.storage.results import read_posteriors
from sdc.storage.run_folder import RunFolder, folder_digest


@dataclass(frozen=True, eq=False)
class Truth:
    """A run that has published something.

    bounds      of its at-risk cells under that; posteriors  of the same cells, as far as its build has them
    """

    about: Subject
    bounds: CellBounds
    posteriors: tuple[Summary, ...]

    @staticmethod
    def open(run: Path, published: Path) -> Truth:
        """The run that has published this folder.

        ConfigError where it is no run, has published another folder, or asks for what an attack does not take;
        RunFolderError where it is not whole, or was changed.
        """
        if not (run / MANIFEST).is_file():
            raise ConfigError(f"{run} is no run folder; name the one whose build has published {published}")
        record = RunFolder(run).records().get(RELEASE)
        if record is None or folder_digest(published) != record.output:
            raise ConfigError(f"{published} is not what {run} has published; name that run's release, or a copy of it")
        about = Subject.open(str(run), asked=("attack",))
        bounds, _ = about.start
        if bounds is None:
            raise RunFolderError(f"{run} has no bounds of its release; make it again with sdc run")
        laws = read_posteriors(run / POSTERIOR.name) if about.config.posterior else ()
        return Truth(about, bounds, laws)

    def facts(self, found: Guesses) -> dict[str, Any]:
        """What is right of guesses of its table, and the at-risk cells, as documents have it."""
        risk, scores = self.about.config.risk, found.scores(self.bounds)
        return {
            "small_count": risk.small_count,
            "at_risk_cells": len(self.bounds),
            "min_width": risk.min_width,
            "width_kept": bool((self.bounds.inner_width >= risk.min_width).all()),
            "certain_cells": int((self.bounds.outer[:, 0] > 0).sum()),
            "right": {name: asdict(score) for name, score in scores.items()},
            "mean": mean_score(scores),
            "cells": [*self._cells(found)],
        }

    def _cells(self, found: Guesses) -> Iterator[dict[str, Any]]:
        """Narrowest first."""
        laws = [law for law in self.posteriors if law.reason is None]
        for row in np.argsort(self.bounds.outer_width, kind="stable").tolist():
            yield {
                "cell": self.about.table.schema.named(self.bounds.cells[row].tolist()),
                "count": int(self.bounds.counts[row]),
                "outer": self.bounds.outer[row].tolist(),
                "guessed": dict(zip(found.names, found.expected[:, row].tolist(), strict=True)),
                "posterior": {law.label: float(law.at_truth[row]) for law in laws},
            }
