"""Fixtures shared by all tests: where the public data lie, and the published table that ships with the project."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from sdc.ingest.reading import read_table
from sdc.model.table import Table
from tests.kernel_cache import keep_kernels

ROOT = Path(__file__).parents[1]
CZECH_CSV = ROOT / "configs" / "czech_auto_workers.csv"
CZECH_YAML = ROOT / "configs" / "czech_auto_workers.yaml"

keep_kernels()  # before any of them is imported
settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def public_data() -> Callable[[str], Path]:
    """Path of a public data file; the test is skipped with the reason where it is absent."""
    folder = Path(os.environ.get("SDC_DATA_DIR", ROOT / "../shared/data"))

    def path(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"public data file {name} is not in {folder}; set SDC_DATA_DIR")
        return folder / name

    return path


@pytest.fixture(scope="session")
def czech() -> Table:
    """Czech auto workers, 2^6 cells, N = 1841 ([KDSF] section 5.2)."""
    categories = {"D": ("<140", ">=140"), "E": ("<3", ">=3"), "F": ("neg", "pos")}
    return read_table(CZECH_CSV, categories={**dict.fromkeys("ABC", ("no", "yes")), **categories})
