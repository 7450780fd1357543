"""Independent columns of a matrix modulo a prime."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.compiled import kernel

PRIME = (1 << 31) - 1


@kernel
def is_independent(products: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """(n,) whether each column is no linear combination of earlier ones.

    products  (n, n) products of the columns with each other, the rows weighted at random, modulo PRIME; overwritten.

    Elimination without pivots: with such weights a pivot is 0 if the column depends on earlier ones, and hardly ever
    otherwise.
    """
    n = len(products)
    found = np.zeros(n, np.bool_)
    for j in range(n):
        if products[j, j] == 0:
            continue
        found[j] = True
        # Fermat: the inverse is the power PRIME - 2
        inverse, base, power = 1, products[j, j], PRIME - 2
        while power:
            if power & 1:
                inverse = inverse * base % PRIME
            base = base * base % PRIME
            power >>= 1
        for i in range(j + 1, n):
            factor = PRIME - products[j, i] * inverse % PRIME
            for k in range(i, n):
                products[i, k] = (products[i, k] + factor * products[j, k]) % PRIME
    return found
