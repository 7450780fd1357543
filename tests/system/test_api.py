"""Results as data frames of pandas and Polars, figures in a browser, and a build from a plain script."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.csv
import pytest
from playwright.sync_api import sync_playwright

import sdc
from sdc.model.table import Table
from tests.helpers.builds import CZECH_CSV
from tests.integration.test_api import taken_wherever_a_table_is
from tests.integration.test_results import RESULTS

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")
def test_a_browser_shows_a_figure(czech: Table) -> None:
    figures = [sdc.widths(czech).plot(min_width=6), sdc.find_release(czech, "ordered", min_width=6).plot()]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("".join(figure._repr_html_() for figure in figures))
        sizes = page.evaluate("[...document.images].map(image => [image.naturalWidth, image.naturalHeight])")
        assert [width for width, _ in sizes] == [1100, 1100]
        assert all(height > 100 for _, height in sizes)
        browser.close()


@pytest.mark.parametrize("verb", RESULTS)
def test_every_result_is_a_frame(verb: str, czech: Table) -> None:
    result = RESULTS[verb](czech)
    rows = result.to_arrow().to_pylist()
    assert rows == result.to_polars().to_dicts()
    frame = result.to_pandas().astype(object)
    # what is withheld is missing there, and a number that is none here
    assert rows == [{key: listed(value) for key, value in row.items()} for row in frame.to_dict("records")]


def listed(value: Any) -> Any:
    """A value of pandas as Arrow has it."""
    if isinstance(value, tuple):
        return list(value)
    return None if value != value else value


FRAMES: dict[str, Any] = {
    "polars": lambda path: polars.read_csv(path),
    "lazy": lambda path: polars.scan_csv(path),
    "duckdb": lambda path: duckdb.from_arrow(pyarrow.csv.read_csv(path)),
}


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_is_taken_wherever_a_table_is(library: str, czech: Table) -> None:
    taken_wherever_a_table_is(FRAMES[library](CZECH_CSV), czech)


def test_frames_of_tables_are_read_again(czech: Table) -> None:
    named = czech.marginal("C*A")
    assert named.to_pandas().to_dict("list") == {
        "A": ["no", "no", "yes", "yes"],
        "C": ["no", "yes", "no", "yes"],
        "count": named.counts.tolist(),
    }
    assert sdc.read_table(named.to_polars(), categories={"A": ["no", "yes"], "C": ["no", "yes"]}) == named
    assert sdc.read_table(czech.to_pandas(), categories={v.name: v.categories for v in czech.schema.variables}) == czech


def test_a_script_without_a_guard_builds_once(czech: Table, tmp_path: Path) -> None:
    """Workers are spawned, and would run the script again."""
    czech.to_pandas().to_parquet(tmp_path / "cells.parquet")
    (tmp_path / "script.yaml").write_text(
        "{name: script, table: {path: cells.parquet}, risk: {min_width: 6}, execution: {workers: 1}}"
    )
    (tmp_path / "script.py").write_text(
        "import sys, sdc\n"
        "print('begun')\n"
        "print(sdc.run('script.yaml').sub_tables)\n"
        "print(sys.modules['__main__'].__file__)\n"
    )
    ended = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert ended.stdout.split() == ["begun", "59", str(tmp_path / "script.py")], ended.stderr
