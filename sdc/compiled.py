"""How kernels are compiled: when first called, kept on disk, and run without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """The function compiled for the arrays and numbers it is called with; Numba's errors for what cannot be."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def inner(function: Function) -> Function:
    """A kernel that only kernels call: without a way in from Python it takes a quarter less to compile."""
    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Function, numba.njit(cache=True, nogil=True, **bare)(function))
