"""Excel files: one sheet, read as a text file of it would be, or refused with sheet and row."""

import datetime
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from sdc.data.profile import written
from sdc.data.reading import read_table
from sdc.data.source import open_source
from sdc.model.errors import InputError
from sdc.model.table import Table

Rows = list[list[Any]]
DAY = datetime.datetime(2024, 1, 31)
HEADER = ["sex", "age", "works", "since"]
ROWS: Rows = [HEADER, ["f", 1, True, DAY], ["m", 2.5, False, datetime.date(1900, 2, 28)], ["f", 1.0, None, "then"]]


def written_to(path: Path, rows: Rows, change: Callable[[Any], object] = lambda sheet: None) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    change(book.active)
    book.save(path)
    return path


def read(path: Path, **settings: Any) -> Table:
    return read_table(path, missing={"works": "-"}, **settings)


def categories(table: Table) -> list[tuple[str, ...]]:
    return [variable.categories for variable in table.schema.variables]


def test_values_are_named_as_in_a_text_file(tmp_path: Path) -> None:
    table = read(written_to(tmp_path / "t.xlsx", ROWS))
    own = [("f", "m"), ("1", "2.5"), ("False", "True", "-"), ("1900-02-28", "2024-01-31", "then")]
    assert (categories(table), table.total) == (own, 3)

    def style(sheet: Any) -> None:
        sheet["B2"].number_format, sheet["B3"].number_format = '0 "days"', "[Red]0.0;[Blue]-0.0"
        sheet["D2"].number_format = 'dd" of "mmmm\\ yyyy'
        sheet["Z9"].font = openpyxl.styles.Font(bold=True)  # a cell without a value, below the data

    def begin(sheet: Any) -> None:
        sheet["D3"], sheet.parent.epoch = DAY, openpyxl.utils.datetime.CALENDAR_MAC_1904

    assert categories(read(written_to(tmp_path / "t.xlsx", ROWS, style))) == own
    assert categories(read(written_to(tmp_path / "t.xlsx", ROWS, begin)))[3] == ("2024-01-31", "then")
    below = written_to(tmp_path / "t.xlsx", [[], [], *([None, *row] for row in ROWS)])
    assert categories(read(below, variables=HEADER)) == own
    assert "sex  # text, 2 values" in written(open_source(below), "t")[0]


@pytest.mark.parametrize("shown", ["mmm yyyy", "yyyy", "d. mmmm", "mmm-yy", "[h]:mm", "h:mm", "mm:ss"])
def test_a_part_of_a_date_is_no_date(shown: str, tmp_path: Path) -> None:
    def style(sheet: Any) -> None:
        sheet["D2"].number_format = shown

    with pytest.raises(InputError, match="row 2: column D shows a time or a part of a date; write it as text"):
        read(written_to(tmp_path / "t.xlsx", ROWS, style))


REFUSED: dict[str, tuple[Rows, str]] = {
    "text before": ([["The census"], *ROWS], "row 2: it has a value in column D, which has no name"),
    "text before, and an empty row": ([["The census"], [], *ROWS], "row 2: the row is empty, and row 3 below is not"),
    "an empty row": ([*ROWS[:2], [], *ROWS[2:]], "row 3: the row is empty, and row 4 below is not; delete it"),
    "text after": ([*ROWS, ["Source: the census"]], "row 5: it has text only in its first column"),
    "text after an empty row": ([*ROWS, [], ["Source"]], "row 5: the row is empty, and row 6 below is not"),
    "a value too far right": ([*ROWS, [*ROWS[1], "x"]], "row 5: it has a value in column E, which has no name"),
    "a header again": ([*ROWS, ["Sex ", *HEADER[1:]]], "row 5: the row repeats the names of the columns"),
    "a time of day": ([*ROWS, ["f", 1, True, datetime.datetime(2024, 1, 1, 12)]], "row 5: column D has a time of day"),
    "a time": ([*ROWS, ["f", 1, True, datetime.time(0)]], "row 5: column D shows a time or"),
    "a code longer than Excel keeps": (
        [*ROWS, ["f", 1234567890123450]],
        "row 5: column B has a number of more th",
    ),
    "a formula that nobody has worked out": ([*ROWS, ["f", "=1+1"]], "row 5: the formula in column B has no stored"),
    "a used column twice": ([["sex", "age", "works", "sex"], *ROWS[1:]], "has 2 columns called 'sex'"),
    "nothing": ([], "t.xlsx has no cells"),
    "a header alone": ([HEADER], "has no records"),
}
DAMAGED = "cannot be read: it is damaged, or not what its name says; check that it is whole"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_sheet_and_row(name: str, tmp_path: Path) -> None:
    rows, match = REFUSED[name]
    path = written_to(tmp_path / "t.xlsx", rows)
    with pytest.raises(InputError, match=rf"t\.xlsx, sheet 'Sheet', {match}" if match.startswith("row") else match):
        read_table(path, missing={} if name.startswith(("text before", "nothing")) else {"works": "-"})


def test_merged_cells(tmp_path: Path) -> None:
    path = written_to(tmp_path / "t.xlsx", ROWS, lambda sheet: sheet.merge_cells("A2:A3"))
    with pytest.raises(InputError, match=r"sheet 'Sheet' has merged cells, A2:A3; split them"):
        read(path)


def test_which_sheet(tmp_path: Path) -> None:
    path = written_to(tmp_path / "t.xlsx", ROWS, lambda sheet: sheet.parent.create_sheet("Empty"))
    assert read(path).total == 3
    path = written_to(tmp_path / "t.xlsx", ROWS, lambda sheet: sheet.parent.create_sheet("Notes").append(["x"]))
    with pytest.raises(InputError, match=r"has the sheets 'Sheet', 'Notes'; name one of them as table\.csv\.sheet"):
        read(path)
    assert read(path, csv={"sheet": "Sheet"}).total == 3
    with pytest.raises(InputError, match="no sheet 'Shet'; did you mean Sheet"):
        read(path, csv={"sheet": "Shet"})
    with pytest.raises(InputError, match=r"table\.csv\.quote = 'none' is of text files"):
        read(path, csv={"sheet": "Sheet", "quote": "none"})
    assert 'csv: {"sheet": "Sheet"' in written(open_source(path), "t", given={"sheet": "Sheet"})[0]


PARTS = {
    "_rels/.rels": '<R><Relationship Id="r" Type="x/officeDocument" Target="b.xml"/></R>',
    "_rels/b.xml.rels": '<R><Relationship Id="s" Type="x/worksheet" Target="/s.xml"/>'
    '<Relationship Id="t" Type="x/sharedStrings" Target="t.xml"/></R>',
    "b.xml": '<b xmlns:r="r"><sheets><sheet name="S" r:id="s"/></sheets></b>',
    "t.xml": "<s><si><t>a</t></si><si><r><t>x</t></r><r><t> y</t></r><rPh><t>z</t></rPh></si></s>",
}
HEAD = '<x:row><x:c t="s"><x:v>0</x:v></x:c></x:row>'


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ('<row r="2"><c r="A2" t="s"><v>1</v></c></row>', ("x y",)),
        (
            '<row><c t="inlineStr"><is><t>x</t><rPh><t>z</t></rPh></is></c></row><row><c t="e"><v>#N/A</v></c></row>',
            ("#N/A", "x"),
        ),
        ('<row><c t="str"><f>B1</f><v>x</v></c></row><row><c t="str"><f>B1</f><v></v></c></row>', ("x",)),
        ('<row><c t="d"><v>2024-01-31T00:00:00Z</v></c></row><row><c><v>1.0E1</v></c></row>', ("10", "2024-01-31")),
        ('<row r="3"><c><v>1</v></c></row><row r="2"><c><v>2</v></c></row>', "row 2: the row occurs twice, or out"),
        ('<row r="2"><c><v>1</v></c></row><row r="2"><c><v>2</v></c></row>', "row 2: the row occurs twice, or out"),
        ('<row r="2"><c r="A2"><v>1</v></c><c r="A2"><v>2</v></c></row>', "row 2: its cells are out of order"),
        ('<row r="2"><c r="ZZZZZZZ2"><v>1</v></c></row>', "row 2: its cells are beyond the last column XFD"),
        ('<row r="999999"><c r="A999999"><v>1</v></c></row>', "row 2: the row is empty"),
        ('<row r="1048577"></row>', "row 1048577: a sheet has 1,048,576 at most"),
        ('<row><c t="s"><v>-1</v></c></row>', DAMAGED),
        ('<row><c t="s"><v>7</v></c></row>', DAMAGED),
        ("<row><c><v>1</v></c>", DAMAGED),
        ("<row><c><v>x</v></c></row>", DAMAGED),
    ],
)
def test_files_of_other_programs(rows: str, found: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
        for name, content in {**PARTS, "s.xml": f'<w xmlns:x="x"><d>{HEAD}{rows}</d></w>'}.items():
            file.writestr(name, content)
    if isinstance(found, str):
        with pytest.raises(InputError, match=found):
            read_table(tmp_path / "t.xlsx", missing={"a": "-"})
    else:
        assert categories(read_table(tmp_path / "t.xlsx", missing={"a": "-"})) == [found]


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = written_to(tmp_path / "t.xlsx", ROWS)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"t\.xlsx is no \.xlsx file, or is protected by a password; save"):
        read(path)
