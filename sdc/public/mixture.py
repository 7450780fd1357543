"""Reconstruction with `mbi`: a mixture of products of one-way distributions, fitted by gradient descent.

Aydore et al. (2021), "Differentially private query release through adaptive projection", as implemented in `mbi`. Only
this module imports `mbi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.intruder.guesses import Values
from sdc.model.extras import require_packages
from sdc.public.attack import Measurement, Target

PACKAGES = ("mbi", "optax")


@dataclass(frozen=True)
class Mixture:
    """A `Reconstruction` by a mixture of products, with a given number of Adam steps from each seed's start.

    Cost for each seed: O(steps x products x fitted cells). The first seed also compiles, for some seconds.
    """

    products: int = 50
    steps: int = 2000
    rate: float = 0.1

    def require(self) -> None:
        """Raise MissingLibraryError if a package is missing."""
        require_packages("seeds: a reconstruction", *PACKAGES, instead="or set seeds to 0 for independence alone")

    @property
    def method(self) -> str:
        return f"mixture of {self.products} products, {self.steps} steps, by mbi {version('mbi')}"

    def __call__(self, target: Target, seeds: Sequence[int]) -> Values:
        import jax
        import optax

        # before importing `mbi`, which warns about its defaults: float32 cannot hold counts above 2^24
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_enable_compilation_cache", False)
        from mbi import Domain
        from mbi.extensions.mixture_of_products import MixtureOfProducts, MixtureOfProductsEstimator

        names, total = target.schema.names, float(target.total)
        domain, measured = Domain(names, target.schema.sizes), [_measured(one, names) for one in target.measurements]
        # one estimator for all seeds: another one would be compiled again
        estimator = MixtureOfProductsEstimator(optimizer=optax.adam(self.rate), num_components=self.products)
        found = np.empty((len(seeds), target.schema.cells))
        for row, seed in zip(found, seeds, strict=True):
            start = MixtureOfProducts.random(domain, total, self.products, seed)
            fitted = estimator.estimate(domain, measured, known_total=total, iters=self.steps, warm_start=start)
            row[:] = fitted.project(names).datavector()
        return found


def _measured(one: Measurement, names: Sequence[str]) -> Any:
    from mbi import LinearMeasurement

    # the standard deviation is a weight: a rounded count's error, or one record for an exact count
    measured: dict[str, Any] = {} if one.is_marginal else {"query": MarginalSums(one.place, len(one.counts))}
    return LinearMeasurement(
        one.counts.astype(np.float64), tuple(names[v] for v in one.variables), float(one.base or 1), **measured
    )


@dataclass(frozen=True, eq=False)
class MarginalSums:
    """Sums of the cells of an `mbi` marginal: (cells,) the index of the sum of each, n if it is in none."""

    place: npt.NDArray[np.int64]
    sums: int

    def __call__(self, factor: Any) -> Any:
        from jax.ops import segment_sum

        return segment_sum(factor.datavector(), self.place, self.sums + 1)[: self.sums]

    def op_norm_sq(self) -> float:
        """The largest number of cells in a sum."""
        return float(np.bincount(self.place, minlength=self.sums + 1)[: self.sums].max(initial=0))
