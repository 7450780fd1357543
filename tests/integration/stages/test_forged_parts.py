"""Run folders whose suppressed, rounded or merged tables were forged: none is verified."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.stages.build import Build
from sdc.storage.run_folder import write_json
from tests.helpers.yearbook import records
from tests.integration.verify.test_verify import rejected


@pytest.fixture
def run(yearbook: Build, tmp_path: Path) -> Path:
    """A copy of its folder."""
    return Path(shutil.copytree(yearbook.folder.path, tmp_path / "run"))


@pytest.fixture
def rounded_run(rounded_yearbook: Build, tmp_path: Path) -> Path:
    return Path(shutil.copytree(rounded_yearbook.folder.path, tmp_path / "run"))


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    write_json(path, content)


def shown(run: Path) -> None:
    """A withheld cell is published with its count."""
    (path,) = (run / "release").glob("*_area-age.csv")
    lines = path.read_text().splitlines()
    withheld = [k for k, line in enumerate(lines) if line.endswith(",withheld")]
    at = withheld[0]
    area, age, *_ = lines[at].split(",")
    count = int(((records()[:, 0] == int(area[4:])) & (records()[:, 1] == int(age[3:]))).sum())
    lines[at] = f"{area},{age},{count},"
    path.write_text("\n".join([*lines, ""]))


def hidden_less(run: Path) -> None:
    """The certificate withholds a cell less than is withheld."""
    path = run / "assessment" / "withheld_0.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


def in_page(old: str, new: str) -> Callable[[Path], None]:
    """The page of the release says something else, and the checksums are of that."""

    def forge(run: Path) -> None:
        page, sums = run / "release" / "index.html", run / "release" / "SHA256SUMS"
        text = page.read_text()
        assert old in text
        before = hashlib.sha256(page.read_bytes()).hexdigest()
        page.write_text(text.replace(old, new, 1))
        sums.write_text(sums.read_text().replace(before, hashlib.sha256(page.read_bytes()).hexdigest()))

    return forge


ROW = '<tr><th scope="row">'


PAGES = {
    "a row shows a count": (in_page(ROW, f"{ROW}4711 "), "index.html and its metadata differ"),
    "its text shows a count": (in_page("</h1>", "</h1><p>In area 4711: one.</p>"), "index.html has numbers that its"),
    "it lists another table": (
        in_page(ROW, f"{ROW}area</th><td>1</td><td></td></tr>\n{ROW}"),
        "index.html lists other tables or files than its metadata",
    ),
    "it has another link": (
        in_page("<ul>", '<ul><li><a href="records.csv">records</a></li>'),
        "index.html lists other tables or files than its metadata",
    ),
}


def immovable(run: Path) -> None:
    """The certificate has no feasible table."""
    changed(run / "assessment" / "certificate.json", lambda told: told["components"][0].update(differences=0))
    (run / "assessment" / "differences_0.parquet").unlink()


FORGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a withheld count is shown": (shown, "is not the suppressed marginal|is not the exact marginal"),
    "a cell less is withheld": (hidden_less, "number of cells is .* are claimed"),
    "nothing is in part": (
        lambda run: changed(run / "assessment" / "certificate.json", lambda told: told.update(parts=[])),
        "not those of the certificate|has other suppressed tables",
    ),
    "beside what is not released": (
        lambda run: changed(
            run / "assessment" / "certificate.json",
            lambda told: told["parts"][0].update(beside=[["area", "age", "sex", "edu"]]),
        ),
        "a suppressed table is beside an unreleased one",
    ),
    "another is in part": (
        lambda run: changed(run / "search" / "search.json", lambda told: told.pop("in_part")),
        "the certificate has other suppressed tables",
    ),
    "its file is gone": (lambda run: next((run / "release").glob("*_area-age.csv")).unlink(), "is missing|checksums"),
    "the metadata say less": (
        lambda run: changed(
            run / "release" / "datapackage.json",
            lambda told: [one["in_part"].update(withheld=1) for one in told["resources"] if "in_part" in one],
        ),
        "its numbers of cells are wrong|checksums",
    ),
    "small cells are said to be proven": (
        lambda run: changed(
            run / "assessment" / "assessment.json", lambda told: told["in_part"].update(unproven=0, cells=1)
        ),
        "has other numbers of suppressed cells",
    ),
    "no table moves anything": (immovable, "small cells of suppressed tables are not proven to keep the width"),
    **PAGES,
}


@pytest.mark.parametrize("name", FORGED)
def test_what_was_forged_is_rejected(name: str, run: Path) -> None:
    rejected(run, *FORGED[name])


def moved(run: Path) -> None:
    """A count is rounded the other way, in the file that is read."""
    (path,) = (run / "release").glob("*_area-age.csv")
    lines = path.read_text().splitlines()
    area, age, count = lines[1].split(",")
    lines[1] = f"{area},{age},{int(count) + 5}"
    path.write_text("\n".join([*lines, ""]))


def closer(run: Path) -> None:
    """The certificate tells a cell less well than it is told."""
    path = run / "assessment" / "withheld_0.parquet"
    columns = pq.read_table(path).to_pydict()
    columns["high"][0] -= 1
    pq.write_table(pa.table(columns, schema=pq.read_schema(path)), path)


def of_parts(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: changed(
        run / "assessment" / "certificate.json", lambda told: change(told["parts"][0]["rounded"][0])
    )


FORGED_ROUNDED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a count is another": (moved, "is not the suppressed marginal|is not the exact marginal"),
    "a cell is told less well": (closer, "not a multiple of its base|wrong bounds|corrupt"),
    "to another base": (of_parts(lambda told: told.update(base=4)), "a rounded count is not a multiple of its base"),
    "to no base": (of_parts(lambda told: told.update(base=1)), "rounded to no multiples"),
    "a margin less": (of_parts(lambda told: told["margins"].pop()), "its numbers of cells are wrong|in part"),
    "it is withheld": (
        lambda run: changed(run / "assessment" / "certificate.json", lambda told: told["parts"][0].update(rounded=[])),
        "the suppressed cells have other bounds",
    ),
    "the metadata name a margin less": (
        lambda run: changed(
            run / "release" / "datapackage.json",
            lambda told: [one["in_part"]["margins"].pop() for one in told["resources"] if "in_part" in one],
        ),
        "its numbers of cells are wrong|checksums",
    ),
    "no table moves anything": (immovable, "small cells of suppressed tables are not proven to keep the width"),
}


@pytest.mark.parametrize("name", FORGED_ROUNDED)
def test_what_was_forged_of_a_rounded_sub_table_is_rejected(name: str, rounded_run: Path) -> None:
    rejected(rounded_run, *FORGED_ROUNDED[name])
