"""The file of impossible patterns: what it says in codes, and one message for whatever is wrong with it."""

from pathlib import Path

import pytest

from sdc.config.table import TableConfig
from sdc.data.reading import count_records, read_table, zeros_of
from sdc.data.source import open_source
from sdc.data.structural_zeros import read_structural_zeros
from sdc.model.errors import InputError
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros

RECORDS = "age,employed,zip,count\nunder 15,no,01,3\nadult,yes,02,2\nadult,no,01,1\nadult,partly,01,4\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Categories in order: age under 15, adult; employed no, partly, yes; zip 01, 02."""
    (tmp_path / "people.csv").write_text(RECORDS)
    return tmp_path / "people.csv"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zeros.yaml"


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("- {age: under 15, employed: [yes, partly]}", (((0, (0,)), (1, (1, 2))),)),
        ("- age: under 15\n  employed: yes\n", (((0, (0,)), (1, (2,))),)),
        (
            '- {age: ["under 15"], zip: 02}\n- {employed: yes, zip: "01"}',
            (((0, (0,)), (2, (1,))), ((1, (2,)), (2, (0,)))),
        ),
        ("[]", ()),
    ],
    ids=["lists", "block", "numerals", "none"],
)
def test_patterns_in_codes(text: str, patterns: tuple[object, ...], file: Path, table: Path) -> None:
    file.write_text(text)
    found = count_records(open_source(table), TableConfig(path=str(table), structural_zeros=str(file)))
    assert found.zeros.patterns == zeros_of(found.table, file).patterns == patterns
    assert found.table == read_table(table)
    assert zeros_of(found.table, None) == NO_ZEROS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"structural zeros .*zeros\.yaml is empty, not a list; give one such as - \{age: under 15"),
        ("{age: under 15}", r"zeros\.yaml is a dict, not a list"),
        ("- {age: under 15", r"zeros\.yaml is not valid YAML: line 1.*correct it there"),
        ("- {age: adult, age: under 15}", r"not valid YAML: line 1 gives 'age' a second time"),
        (
            "- {}",
            r"zeros\.yaml: pattern 1 is \{\}; give a mapping from variables to categories with at least one variable",
        ),
        ("- {Age: under 15}", r"pattern 1 names 'Age', which is not a .*; did you mean age. it has age"),
        ("- {age: under 16, employed: yes}", r"pattern 1: age has no category 'under 16'; correct it, or list it"),
        ("- {age: under 15, zip: 2}", r"pattern 1: zip has no category '2'; correct it"),
        ("- {age: under 15, employed: []}", r"pattern 1: employed = \[\]; give a category, or a list of them"),
        ("- {age: [under 15, adult]}", r"makes every cell impossible: age = under 15 or adult; name the categories"),
        ("- {age: under 15}", r"structural zeros contradict the data: age = under 15 .*, but 1 such cells"),
    ],
)
def test_a_faulty_file_is_refused(text: str, message: str, file: Path, table: Path) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        zeros_of(read_table(table), file)
    with pytest.raises(InputError, match=message):
        count_records(open_source(table), TableConfig(path=str(table), structural_zeros=str(file)))


def test_what_the_data_have_is_no_part_of_the_message(file: Path, table: Path) -> None:
    for text, detail in (
        ("- {age: x}", "age has the categories under 15, adult"),
        ("- {age: under 15}", "the cell age = under 15, employed = no, zip = 01 has the count 3"),
    ):
        file.write_text(text)
        with pytest.raises(InputError) as caught:
            zeros_of(read_table(table), file)
        assert caught.value.detail == detail
        assert "adult" not in str(caught.value)
        assert "zip" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(file: Path, table: Path) -> None:
    schema = read_table(table).schema
    for read in (lambda: read_structural_zeros(file, schema), lambda: open_source(table).digest(file)):
        with pytest.raises(InputError, match=r"structural zeros .*zeros\.yaml (does not exist|cannot be read)"):
            read()
    file.write_bytes(b"- {age: \xff}")
    with pytest.raises(InputError, match=r"structural zeros .*zeros\.yaml cannot be read: .*UTF-8"):
        read_structural_zeros(file, schema)


def test_the_digest_of_the_source_follows_the_content_of_the_file(file: Path, table: Path) -> None:
    file.write_text("- {age: under 15, employed: yes}")
    digest = open_source(table).digest(file)
    moved = file.rename(file.with_name("moved.yaml"))
    assert open_source(table).digest(moved) == digest != open_source(table).digest()
    moved.write_text("- {age: under 15, employed: partly}")
    assert open_source(table).digest(moved) != digest


def test_a_schema_may_have_categories_without_records(table: Path, file: Path) -> None:
    file.write_text("- {age: centenarian}")
    found = read_table(table, categories={"age": ["under 15", "adult", "centenarian"]})
    assert zeros_of(found, file) == StructuralZeros((((0, (2,)),),))
