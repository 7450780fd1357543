"""What describes a release, as mlcroissant, rocrate and a browser read it; what is not installed skips its tests."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.config.publication import PublicationConfig
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.publish.publication import Texts, write_publication
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.helpers.folders import contents
from tests.integration.publish.test_catalogue import ABOUT, ALL_FORMATS, BESIDE, RELEASE, written

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.parametrize("formats", [("csv",), ("csv", "parquet"), ("parquet",), ALL_FORMATS])
def test_croissant_is_valid_and_reads_every_cell(formats: tuple[str, ...], czech: Table, tmp_path: Path) -> None:
    written(czech, tmp_path / "out", formats=formats)
    dataset = pytest.importorskip("mlcroissant").Dataset(str(tmp_path / "out" / "croissant.json"))
    metadata = dataset.metadata
    assert not metadata.ctx.issues.errors
    assert (metadata.name, metadata.license) == (ABOUT["title"], ["CC-BY-4.0"])
    assert metadata.date_published == datetime(1985, 7, 1)
    assert [one.name for one in metadata.publisher] == ["a desk"]
    listed = {path.name for path in (tmp_path / "out").glob("0*")}
    listed |= {path.name for path in (tmp_path / "out").glob("tables.*")}
    listed |= {name for name in contents(tmp_path / "out") if name.startswith("pxapi/")}
    assert {one.name for one in metadata.file_objects} == listed
    for one in metadata.file_objects:
        assert one.sha256 == hashlib.sha256((tmp_path / "out" / one.name).read_bytes()).hexdigest()
    cleared = cleared_of(czech, RELEASE)
    assert len(metadata.record_sets) == len(RELEASE.frontier)
    for element, record_set in zip(RELEASE.frontier, metadata.record_sets, strict=True):
        table = cleared.marginal(element)
        rows = [tuple(map(_plain, record.values())) for record in dataset.records(record_set.uuid)]
        names = [[v.categories[c] for v, c in zip(table.schema.variables, cell, strict=True)] for cell in table.codes]
        assert sorted(rows) == sorted((*cell, int(n)) for cell, n in zip(names, table.counts, strict=True))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else int(value)


def test_a_ro_crate_is_read_and_has_every_file(czech: Table, tmp_path: Path) -> None:
    written(czech, tmp_path / "out", formats=ALL_FORMATS)
    crate = pytest.importorskip("rocrate.rocrate").ROCrate(tmp_path / "out")
    assert (crate.name, crate.datePublished.isoformat()[:10], crate.license[0]["name"]) == (
        ABOUT["title"],
        "1985-07-01",
        "CC-BY-4.0",
    )
    assert crate.publisher[0]["name"] == "a desk"
    assert {one.id for one in crate.data_entities} == {*contents(tmp_path / "out")} - BESIDE
    for one in crate.data_entities:
        path = tmp_path / "out" / one.id
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        assert (one.source, one.get("sha256", sha)) == (path, sha)
    # what it says has a meaning in the context that it names
    context = json.loads(files("rocrate").joinpath("data", "ro-crate.jsonld").read_text())["@context"]
    graph = json.loads((tmp_path / "out" / "ro-crate-metadata.json").read_text())["@graph"]
    assert {key for entity in graph for key in entity} - {"@id", "@type"} <= set(context)
    assert {entity["@type"] for entity in graph} <= set(context)


def test_names_of_any_letters_are_read_by_croissant_and_ro_crate(tmp_path: Path) -> None:
    schema = Schema((Variable("år / #1", ("=1+1", "ja")), Variable("b c%20", ("x", "y"))))
    table = Table.of(schema, np.array([[0, 0], [1, 1]]), np.array([3, 4]))
    texts, folder = Texts(PublicationConfig(formats=("csv",)), Labels()), tmp_path / "out"
    folder.mkdir()
    write_publication(cleared_of(table, Release.of([0b11])), SUBJECT, "letters", folder, texts=texts)
    dataset = pytest.importorskip("mlcroissant").Dataset(str(folder / "croissant.json"))
    (record_set,) = dataset.metadata.record_sets
    assert [field.name for field in record_set.fields] == ["år / #1", "b c%20", "count"]
    rows = [[*map(_plain, record.values())] for record in dataset.records(record_set.uuid)]
    assert rows == [["'=1+1", "x", 3], ["ja", "y", 4]]
    assert pytest.importorskip("rocrate.rocrate").ROCrate(folder).root_dataset["keywords"] == ["b c%20", "år / #1"]


@pytest.fixture(scope="module")
def page(czech: Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[str]]]:
    sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
    folder = tmp_path_factory.mktemp("site") / "out"
    written(czech, folder, formats=ALL_FORMATS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab, said = browser.new_page(viewport={"width": 320, "height": 640}), list[str]()

        def note(message: Any) -> None:
            said.append(message.text)

        tab.on("console", note)
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto((folder / "index.html").as_uri())
        yield tab, said
        browser.close()


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")


@needs_browser
def test_the_page_is_browsed_by_keyboard_at_320_pixels(page: tuple[Any, list[str]]) -> None:
    tab, said = page
    assert tab.title() == "Workers <b>&amp;</b> risks"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 320
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.type") == "search"
    tab.keyboard.type("D, e")
    assert tab.locator("tbody tr:visible th").all_text_contents() == ["D, E"]
    assert tab.locator("[role=status]").text_content() == "1 of 3"
    tab.locator("input").fill("")
    for _ in range(2):
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Table by"
    tab.keyboard.press("Tab")
    for order in (["2", "2", "3"], ["3", "2", "2"]):
        tab.keyboard.press("Enter")
        assert tab.locator("tbody tr td:nth-child(2)").all_text_contents() == order
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.tagName") == "A"
    assert said == []
