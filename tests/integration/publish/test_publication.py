"""The published folder: what the files hold, that they read back to the release, and every refusal."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from sdc.config.publication import PublicationConfig
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError, RunFolderError
from sdc.model.labels import Labels, VariableLabels
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.publish.formats import FORMATS
from sdc.publish.publication import Texts, check_publication, write_publication
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.helpers.folders import contents
from tests.integration.verify.forging import Corruption, Corruptions, edited, removing, replacing

ALL_FORMATS = tuple(FORMATS)
FRONTIER = Release.of([0b000111, 0b011000])
FIVE_WAYS = Release.of(0b111111 ^ 1 << v for v in range(6))


def published(table: Table, release: Release, folder: Path) -> Path:
    folder.mkdir()
    write_publication(cleared_of(table, release), SUBJECT, "workers", folder)
    return folder


@pytest.fixture
def folder(czech: Table, tmp_path: Path) -> Path:
    """The sub-tables A*B*C and D*E of the Czech auto workers."""
    return published(czech, FRONTIER, tmp_path / "release")


@pytest.mark.parametrize(
    "frontier", [[0], [1], [0b000011, 0b110000], [0b100000, 0b011111], list(FIVE_WAYS.frontier), [0b111111]]
)
def test_what_is_published_reads_back_to_the_release(frontier: list[int], czech: Table, tmp_path: Path) -> None:
    release = Release.of(frontier)
    check_publication(cleared_of(czech, release), published(czech, release, tmp_path / "release"), "workers")


def test_the_metadata_name_each_file_its_sub_table_and_its_hash(folder: Path) -> None:
    metadata = json.loads((folder / "datapackage.json").read_text())
    first, *_, dictionary = metadata["resources"]
    assert (metadata["profile"], metadata["name"], metadata["title"]) == ("data-package", "workers", "workers")
    assert first["sub_table"] == ["A", "B", "C"]
    assert first["bytes"] == (folder / "001_A-B-C.csv").stat().st_size
    assert [field["name"] for field in first["schema"]["fields"]] == ["A", "B", "C", "count"]
    assert dictionary == {"name": "data_dictionary", "path": "data_dictionary.csv", "format": "csv"}


def test_names_that_are_hard_on_files_and_csv(tmp_path: Path) -> None:
    """Variables called `../a b` and `größe`, a quoted category, and a category without records."""
    schema = Schema((Variable("../a b", ('say "yes", no', "plain", "rare")), Variable("größe", ("1", "2"))))
    table = Table.of(schema, np.array([[0, 0], [1, 1], [1, 0]]), np.array([3, 4, 5]))
    release = Release.of([0b11])
    folder = published(table, release, tmp_path / "release")
    check_publication(cleared_of(table, release), folder, "workers")
    assert {path.name for path in tmp_path.iterdir()} == {"release"}
    assert all(name.isascii() and " " not in name for name in contents(folder))
    with next(folder.glob("001_*.csv")).open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["../a b", "größe", "count"],
            ['say "yes", no', "1", "3"],
            ["plain", "1", "5"],
            ["plain", "2", "4"],
        ]


def test_many_variables_make_a_short_file_name(tmp_path: Path) -> None:
    schema = Schema(tuple(Variable(f"a_rather_long_name_{v}", ("0", "1")) for v in range(30)))
    table = Table.of(schema, np.eye(30, dtype=np.int64))
    folder = published(table, Release.of([st.full(30)]), tmp_path / "release")
    assert max(len(name) for name in contents(folder)) < 100
    check_publication(cleared_of(table, Release.of([st.full(30)])), folder, "workers")


def test_tables_that_agree_on_the_release_publish_the_same_bytes(czech: Table, tmp_path: Path) -> None:
    """Whatever differs between two tables with the same released marginals is not published.

    Adding +1 to the cells of even parity and -1 to the others, or the reverse, keeps all five-way
    marginals; one of the two is non-negative ([DKS] proposition 1: the Czech table has one companion).
    """
    cells = np.indices((2,) * 6).reshape(6, -1).T
    parity = np.where(cells.sum(axis=1) % 2 == 0, 1, -1)
    counts = czech.count_at(cells)
    other = counts + parity if (counts + parity).min() >= 0 else counts - parity
    assert other.min() >= 0
    companion = Table.of(czech.schema, cells, other)
    assert companion != czech
    one = published(czech, FIVE_WAYS, tmp_path / "one")
    two = published(companion, FIVE_WAYS, tmp_path / "two")
    assert contents(one) == contents(two)


def written_over(name: str, content: bytes) -> Corruption:
    return lambda folder: (folder / name).write_bytes(content)


DAMAGED: Corruptions = {
    "a changed file": (
        replacing("001_A-B-C.csv", "no,no,no,", "no,no,no,1"),
        r"001_A-B-C\.csv is not as it was written: byte .* in line 2",
    ),
    "a missing file": (removing("002_D-E.parquet"), r"002_D-E\.parquet is not as it was written: it is missing"),
    "a file that no metadata tell of": (
        written_over("003_A-B-C-F.csv", b"A,B,C,F,count\nno,no,no,neg,1\n"),
        r"003_A-B-C-F\.csv",
    ),
    # without its sub-table a file would be published and not be assessed
    "a table that hides": (
        edited("datapackage.json", lambda metadata: metadata["resources"][0].pop("sub_table")),
        r"datapackage\.json is not as it was written",
    ),
    "another total": (
        edited("datapackage.json", lambda metadata: metadata.update(records=1840)),
        r"datapackage\.json is not as it was written",
    ),
    "half of the metadata": (written_over("datapackage.json", b"{"), r"datapackage\.json is not as it was written"),
    "no metadata": (removing("datapackage.json"), r"datapackage\.json is not as it was written: it is missing"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_folder_that_is_not_what_was_cleared_is_refused(name: str, folder: Path, czech: Table) -> None:
    damage, message = DAMAGED[name]
    damage(folder)
    with pytest.raises(RunFolderError, match=message):
        check_publication(cleared_of(czech, FRONTIER), folder, "workers")


def test_the_release_of_another_table_is_refused(folder: Path, czech: Table) -> None:
    other = Table.of(czech.schema, czech.codes, czech.counts[::-1])
    with pytest.raises(RunFolderError, match="csv is not as it was written"):
        check_publication(cleared_of(other, FRONTIER), folder, "workers")


FORMULAS = ("=1+1", "+1 more", "-x", "@SUM(A1)", "'=1+1", "-5", "+2.5e3", "=", "plain")
IN_CSV = ("'=1+1", "'+1 more", "'-x", "'@SUM(A1)", "''=1+1", "-5", "+2.5e3", "'=", "plain")


def formulas() -> Table:
    return Table.of(Schema((Variable("a", FORMULAS),)), np.arange(len(FORMULAS))[:, None])


def test_no_cell_of_a_csv_file_is_a_formula(tmp_path: Path) -> None:
    """Different categories stay different, numbers stay numbers, Parquet and JSON have all as it is."""
    folder = published(formulas(), Release.of([1]), tmp_path / "release")
    with (folder / "001_a.csv").open(newline="") as file:
        assert tuple(row["a"] for row in csv.DictReader(file)) == IN_CSV
    with (folder / "data_dictionary.csv").open(newline="") as file:
        assert tuple(row["category"] for row in csv.DictReader(file)) == IN_CSV
    assert tuple(pq.read_table(folder / "001_a.parquet")["a"].to_pylist()) == FORMULAS
    metadata = json.loads((folder / "datapackage.json").read_text())
    listed = {one["format"]: one["schema"]["fields"][0]["constraints"]["enum"] for one in metadata["resources"][:2]}
    assert listed == {"csv": list(IN_CSV), "parquet": list(FORMULAS)}
    check_publication(cleared_of(formulas(), Release.of([1])), folder, "workers")


def test_formulas_are_refused_where_that_is_asked(tmp_path: Path) -> None:
    cleared, refuse = cleared_of(formulas(), Release.of([1])), PublicationConfig(formulas="refuse")
    with pytest.raises(ReleaseError, match="would run 6 categories of 'a' as formulas") as caught:
        write_publication(cleared, SUBJECT, "workers", tmp_path, texts=Texts(refuse, Labels()))
    assert "=1+1" in caught.value.detail
    assert "=1+1" not in str(caught.value)
    assert not list(tmp_path.iterdir())


TEXTS = Texts(
    PublicationConfig(
        title="Workers of a car factory",
        population="men who were employed",
        period="1981",
        source="a prospective study",
        licence="CC-BY-4.0",
        contact="the statistics desk",
        notes=("Counts are exact.",),
    ),
    Labels(
        {
            "D": VariableLabels("Systolic pressure", "at the first visit", "mm Hg", {"<140": "=low"}),
            "F": VariableLabels("Family history", categories={"neg": "none known"}),
        }
    ),
)


@pytest.fixture
def labelled(czech: Table, tmp_path: Path) -> Path:
    folder = tmp_path / "labelled"
    folder.mkdir()
    write_publication(cleared_of(czech, FRONTIER), SUBJECT, "workers", folder, texts=TEXTS)
    check_publication(cleared_of(czech, FRONTIER), folder, "workers", TEXTS)
    return folder


def test_labels_are_beside_the_codes_and_the_tables_stay(labelled: Path, folder: Path) -> None:
    with (labelled / "data_dictionary.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert ["D", "1", "<140", "'=low", "Systolic pressure", "mm Hg", "at the first visit"] in rows
    assert ["D", "2", ">=140", ">=140", "Systolic pressure", "mm Hg", "at the first visit"] in rows
    metadata = json.loads((labelled / "datapackage.json").read_text())
    fields = {field["name"]: field for field in metadata["resources"][2]["schema"]["fields"]}
    told = [fields["D"][key] for key in ("title", "description", "unit", "constraints")]
    assert told == ["Systolic pressure", "at the first visit", "mm Hg", {"enum": ["<140", ">=140"]}]
    assert [one["label"] for one in fields["D"]["categories"]] == ["=low", ">=140"]
    for file in folder.glob("0*"):
        assert (labelled / file.name).read_bytes() == file.read_bytes()


def test_metadata_and_guide_say_what_the_tables_are_of(labelled: Path) -> None:
    metadata = json.loads((labelled / "datapackage.json").read_text())
    about = TEXTS.about
    assert [metadata[key] for key in ("title", "population", "period", "notes")] == [
        *(about.title, about.population, about.period), [*about.notes],
    ]  # fmt: skip
    assert [metadata[key][0][of] for key, of in (("sources", "title"), ("contributors", "title"))] == [
        *(about.source, about.contact)
    ]
    guide = (labelled / "README.txt").read_text()
    assert all(said in guide for said in (*about.facts.values(), *about.notes))


@pytest.mark.parametrize(
    ("licence", "said"),
    [
        ("CC-BY-4.0", {"name": "CC-BY-4.0"}),
        ("https://example.org/terms", {"path": "https://example.org/terms"}),
        ("Open Government Licence 3", {"name": "other", "title": "Open Government Licence 3"}),
    ],
)
def test_a_licence_by_its_address_or_title(licence: str, said: object, czech: Table, tmp_path: Path) -> None:
    texts = Texts(PublicationConfig(licence=licence), Labels())
    write_publication(cleared_of(czech, FRONTIER), SUBJECT, "workers", tmp_path, texts=texts)
    assert json.loads((tmp_path / "datapackage.json").read_text())["licenses"] == [said]


def test_a_variable_that_is_not_published_is_not_labelled(labelled: Path) -> None:
    assert all("Family history" not in file.read_text() for file in labelled.glob("*[!t]"))


def test_a_label_that_a_spreadsheet_would_run_is_refused_where_that_is_asked(czech: Table, tmp_path: Path) -> None:
    texts = Texts(PublicationConfig(formulas="refuse"), TEXTS.labels)
    with pytest.raises(ReleaseError, match="'=low', of 'D', would be run by a spreadsheet; reword it"):
        write_publication(cleared_of(czech, FRONTIER), SUBJECT, "workers", tmp_path, texts=texts)
    assert not list(tmp_path.iterdir())


REWORDED: dict[str, Corruption] = {
    "README.txt": replacing("README.txt", "1981", "1982"),
    "data_dictionary.csv": replacing("data_dictionary.csv", "mm Hg", "F: 12 records"),
    "datapackage.json": replacing("datapackage.json", "at the first visit", "one is positive"),
}


@pytest.mark.parametrize("name", REWORDED)
def test_texts_that_say_more_than_was_cleared_are_refused(name: str, labelled: Path, czech: Table) -> None:
    REWORDED[name](labelled)
    with pytest.raises(RunFolderError, match=f"{name} is not as it was written: byte .* nothing is released"):
        check_publication(cleared_of(czech, FRONTIER), labelled, "workers", TEXTS)


@pytest.mark.parametrize(
    "mark", ["\t", "\x00", "\x1b[31m", "\x85", "\u202e", "\u2066", "\u200f", "\u2028", "\ufeff", "\ud800"]
)
def test_what_is_not_what_it_looks_like_is_refused(mark: str) -> None:
    with pytest.raises(InputError, match="variable 'a' has 1 category with a control character") as caught:
        Variable("a", ("x", f"y{mark}z"))
    assert mark not in str(caught.value)
    with pytest.raises(InputError, match="control character in its name"):
        Variable(f"a{mark}", ("x",))


@pytest.mark.parametrize("name", ["=a", "+a", "-a", "@a"])
def test_a_variable_is_no_formula(name: str) -> None:
    with pytest.raises(InputError, match="does not begin with = \\+ - or @; rename it"):
        Variable(name, ("x",))


def published_as(czech: Table, folder: Path, release: Release = FRONTIER, **about: Any) -> Texts:
    texts = Texts(PublicationConfig(**about), TEXTS.labels)
    folder.mkdir()
    write_publication(cleared_of(czech, release), SUBJECT, "workers", folder, texts=texts)
    check_publication(cleared_of(czech, release), folder, "workers", texts)
    return texts


def test_all_formats_are_published_the_same_twice_and_checked(czech: Table, tmp_path: Path) -> None:
    """A change of any byte in any file is found."""
    texts = published_as(czech, tmp_path / "one", formats=ALL_FORMATS, zeros=True)
    published_as(czech, tmp_path / "two", formats=ALL_FORMATS, zeros=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    metadata = json.loads((tmp_path / "one" / "datapackage.json").read_text())
    assert {resource["format"] for resource in metadata["resources"]} == set(ALL_FORMATS)
    for file in (path for path in (tmp_path / "one").iterdir() if path.name[0] in "0t"):
        content = file.read_bytes()
        file.write_bytes(content[:-2] + b" " + content[-1:])
        with pytest.raises(RunFolderError, match=re.escape(f"{file.name} is not as it was written: byte")):
            check_publication(cleared_of(czech, FRONTIER), tmp_path / "one", "workers", texts)
        file.write_bytes(content)


def test_zeros_and_totals_are_listed_where_that_is_asked(czech: Table, tmp_path: Path) -> None:
    sparse = Table.of(czech.schema, czech.codes[:1], czech.counts[:1])
    published_as(sparse, tmp_path / "out", zeros=True, totals=True)
    with (tmp_path / "out" / "002_D-E.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    n = str(sparse.total)
    assert header == ["D", "E", "count"]
    assert [row[2] for row in rows] == [n, "0", n, "0", "0", "0", n, "0", n]
    assert rows[-1] == ["(total)", "(total)", n]
    metadata = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    assert (metadata["zeros"], metadata["totals"]) == (True, True)


def test_children_of_the_frontier_are_published_where_they_are_asked_for(czech: Table, tmp_path: Path) -> None:
    published_as(czech, tmp_path / "out", children=("C*A", "E", "D*E"))
    assert sorted(path.stem for path in (tmp_path / "out").glob("0*.csv")) == [
        "001_A-B-C",
        "002_D-E",
        "003_A-C",
        "004_E",
    ]
    with (tmp_path / "out" / "003_A-C.csv").open(newline="") as file:
        assert [int(row["count"]) for row in csv.DictReader(file)] == czech.marginal(0b101).counts.tolist()


@pytest.mark.parametrize("child", ["A*D", "F", "A*nobody"])
def test_a_child_that_the_release_does_not_imply_is_refused(child: str, czech: Table, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=f"publication.children has {re.escape(repr(child))}, which the release"):
        published_as(czech, tmp_path / "out", children=(child,))
    assert not list((tmp_path / "out").iterdir())


def test_a_child_that_is_not_there_or_was_not_asked_for_is_refused(czech: Table, tmp_path: Path) -> None:
    published_as(czech, tmp_path / "out", children=("A*C",))
    with pytest.raises(RunFolderError, match=r"is not as it was written: .*; nothing is released"):
        check_publication(
            cleared_of(czech, FRONTIER), tmp_path / "out", "workers", Texts(PublicationConfig(), TEXTS.labels)
        )
    asked = Texts(PublicationConfig(children=("A*C", "B*C")), TEXTS.labels)
    with pytest.raises(RunFolderError, match=r"004_B-C\.csv is not as it was written: it is missing"):
        check_publication(cleared_of(czech, FRONTIER), tmp_path / "out", "workers", asked)


def test_a_name_that_a_format_cannot_carry_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    schema = Schema((Variable("a", ("x", "y")), Variable("b", ('say "no"', "yes"))))
    table = Table.of(schema, np.array([[0, 0], [1, 1]]), np.array([3, 4]))
    with pytest.raises(ReleaseError, match="variable 'b' has a text with a quotation mark"):
        published_as(table, tmp_path / "out", Release.of([0b11]), formats=("csv", "px"))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("more", ["zeros", "totals"])
def test_more_cells_than_anybody_reads_are_refused(more: str, tmp_path: Path) -> None:
    schema = Schema(tuple(Variable(f"v{v}", ("0", "1")) for v in range(30)))
    table = Table.of(schema, np.eye(30, dtype=np.int64))
    with pytest.raises(ReleaseError, match=r"001_v0.* would list up to \d+ cells with zeros or totals, more than"):
        published_as(table, tmp_path / "out", Release.of([st.full(30)]), **{more: True})
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("formats", "match"),
    [
        (("px",), "a release is verified from csv or parquet; name one of them too"),
        (("csv", "csv"), "csv is listed twice; list each format once"),
        (("parquet", "csvw"), "csvw describes the CSV files; name csv too"),
        (("csv", "sas"), "Input should be"),
    ],
)
def test_formats_that_do_not_go_together_are_refused(formats: tuple[str, ...], match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        PublicationConfig(formats=formats)
