"""Awkward text files: counted as the standard library counts them, in Parquet and as a data frame too, or refused."""

import bz2
import csv
import datetime
import gzip
import io
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from sdc.config.table import CsvConfig, TableConfig
from sdc.data import reading, text
from sdc.data.reader import READER
from sdc.data.reading import count_records, read_table
from sdc.data.source import open_source
from sdc.model.errors import InputError
from tests.helpers.reading import each_here

PLAIN = "sex,area,note\nf,north,ok\nm,south,ok\nf,north,\nm,north,well\n"
USED = ("sex", "area")
NO_QUOTING = {"quote": "none"}

READ: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain": (PLAIN.encode(), {}),
    "no end of the last line": (PLAIN.rstrip().encode(), {}),
    "line ends of Windows": (PLAIN.replace("\n", "\r\n").encode(), {}),
    "line ends of old Macs": (PLAIN.replace("\n", "\r").encode(), {}),
    "both line ends": (PLAIN.replace("ok\n", "ok\r\n").encode(), {}),
    "line ends twice": (PLAIN.replace("\n", "\r\r\n").encode(), {}),
    "empty lines": (("\n" + PLAIN.replace("m,south", "\n\nm,south") + "\n\n").encode(), {}),
    "the sign of UTF-8": (b"\xef\xbb\xbf" + PLAIN.encode(), {}),
    "all quoted": (b'"sex","area","note"\n"f","north","a, b"\n"f","south","say ""no"""\n', {}),
    "empty quotes": (b'sex,area,note\nf,north,""\n"f",south,""""\n', {}),
    "quoted delimiters in a used column": (b'sex,area,note\nf,"north, east",1\nf,"north, east",2\n', {}),
    "quoted and not": (b'sex,area,note\nf,"north",1\n"f",north,2\n', {}),
    "blanks are kept": (b"sex,area,note\nf, north,1\nf, north,2\n", {}),
    "a field of blanks": (b"sex,area,note\nf,north,   \n", {}),
    "UTF-16 without a sign": (PLAIN.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "shift-jis": (PLAIN.replace("north", "北ソ").encode("shift-jis"), {"encoding": "shift-jis"}),
    "EBCDIC": (PLAIN.encode("cp037"), {"encoding": "cp037"}),
    "bytes that are not text in an unused column": (PLAIN.encode().replace(b"well", b"w\xe9ll"), {}),
    "no quoting": (b'sex,area,note\nf,north,15" screen\nm,north,"open\nf,"x",""\n', NO_QUOTING),
    "no quoting, and values called as the setting": (b"sex,area,note\nnone,nonesuch,none\n", NO_QUOTING),
    "no quoting in tabs": (b'sex\tarea\tnote\nf\t"north\tx\nf\t"north\ty\n', {"delimiter": "\t", **NO_QUOTING}),
    "what other readers take for line ends": ("sex,area,note\nf,a,x\u2028\nm,a,\x85b\x0b\x0c\x1c\n".encode(), {}),
    "a NUL": (b"sex,area,note\nf,a,x\x00\nf,a,y\n", {}),
    "one column more that nobody uses": (PLAIN.replace("\n", ",\n").replace("note,", "note,note").encode(), {}),
    "a column without a name that nobody uses": (PLAIN.replace("note", "").encode(), {}),
    "a long field": (b"sex,area,note\nf,north," + b"x" * 5_000_000 + b"\nm,south,y\n", {}),
    "many different values": (b"sex,area,note\n" + b"".join(b"f,n,%d\n" % n for n in range(70_000)), {}),
    "a value called as its column": (b"sex,area,note\nsex,north,x\nf,area,note\n", {}),
    "other scripts": ("sex,area,note\nж,北,ひ\nж,北🙂,x\nм,صنعاء,\n".encode(), {}),
    "gb18030": (PLAIN.replace("north", "北京").encode("gb18030"), {"encoding": "gb18030"}),
    "UTF-32": (PLAIN.encode("utf-32"), {"encoding": "utf-32"}),
    "codes with zeros in front": (b"sex,area,note\n1,01,x\n1,1,y\n01,001,z\n", {}),
    "large codes": (b"sex,area,note\n1,99999999999999999999,x\n1,99999999999999999998,y\n", {}),
    "codes with points": (b"sex,area,note\n1,01.10,x\n1,1.2,y\n1,-3,z\n", {}),
    "words that other readers take for nothing": (b"sex,area,note\nNA,null,x\nnan,None,y\nNA,-,z\n", {}),
    "truth values": (b"sex,area,note\nTRUE,yes,x\nFALSE,no,y\n", {}),
    "dates": (b"sex,area,note\nf,2024-01-31,x\nm,31/01/2024,y\nf,1e5,z\n", {}),
    "what spreadsheets would run": (b"sex,area,note\n=1+1,@x,y\n-,+,z\n", {}),
    "apostrophes": (b"sex,area,note\nf,'north',x\nf,l'est,y\n", {}),
    "a long category": (b"sex,area,note\nf," + b"x" * 2000 + b",y\nf,x,y\n", {}),
    "many columns": (
        b"sex,area," + b",".join(b"c%d" % n for n in range(500)) + b"\n" + b"f,n" + b",1" * 500 + b"\n",
        {},
    ),
    "a name of a column with a delimiter": (b'"sex","area","no,te"\n"f","n","x"\n', {}),
}
REFUSED: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "a quotation mark that nobody closes": (
        PLAIN.replace("m,south,", 'm,south,"').encode(),
        {},
        "line 3: column 'note' has a quotation mark that is not closed in its line; .*csv: {quote: none}",
    ),
    "at the end of the file": (PLAIN.replace("well\n", '"well').encode(), {}, "line 5: column 'note' .* not closed"),
    "two of them": (
        b'sex,area,note\nf,north,"15 screen\nm,north,ok\nf,south,17" screen\n',
        {},
        "line 2: column 'note' .* not closed",
    ),
    "a line end in quotes": (b'sex,area,note\nf,north,"a\nb"\nf,north,c\n', {}, "line 2: column 'note' .* not closed"),
    "of Windows": (b'sex,area,note\r\n\r\nf,north,"a\r\nb"\r\n', {}, "line 3: column 'note' .* not closed"),
    "in a used column": (b'sex,area,note\nf,"n\nn",\n', {}, "line 2: column 'area' .* not closed"),
    "a quotation mark inside": (PLAIN.replace("well", '15" pipe').encode(), {}, "line 5: .* a quotation mark inside"),
    "after a blank": (PLAIN.replace("well", ' "well"').encode(), {}, "line 5: .* a quotation mark inside its value"),
    "text after a quotation mark": (PLAIN.replace("well", '"we"ll').encode(), {}, "line 5: .* text after its closing"),
    "a row too wide": (PLAIN.replace("well", "well,1").encode(), {}, "line 5: it has 4 fields, and the header has 3"),
    "a decimal comma": (PLAIN.replace("well", "1,5").encode(), {}, "line 5: it has 4 fields"),
    "a row too short": (PLAIN.replace("m,south,ok", "m,south").encode(), {}, "line 3: it has 2 fields, and"),
    "text after the data": ((PLAIN + "\nSource: the census\n").encode(), {}, "line 7: it has 1 fields, and the header"),
    "text before the data": (("The census\n\n" + PLAIN).encode(), {}, "t.csv has no column '(sex|note)'"),
    "the end of DOS files": (PLAIN.encode() + b"\x1a", {}, "line 6: it has 1 fields"),
    "a line of blanks": ((PLAIN + "  \n").encode(), {}, "line 6: it has 1 fields"),
    "a row of commas": (PLAIN.replace("m,south,ok", ",,").encode(), {}, "line 3: the line is empty; delete"),
    "rows of commas at the end": ((PLAIN + ",,\n,,\n").encode(), {}, "line 6: the line is empty"),
    "of blanks and quotes": ((PLAIN + ' ,"",\t\n').encode(), {}, "line 6: the line is empty"),
    "a header again": ((PLAIN + PLAIN).encode(), {}, "line 6: the line repeats the names of the columns"),
    "quoted, in capitals": ((PLAIN + 'SEX,"Area",note \n').encode(), {}, "line 6: the line repeats the names"),
    "names of rows, as R writes them": (b"sex,area,note\n1,f,north,x\n2,m,south,y\n", {}, "line 2: it has 4 fields"),
    "UTF-16 taken for UTF-8": (PLAIN.encode("utf-16"), {}, "begins as files in UTF-16 do, and table.csv.encoding"),
    "UTF-8 taken for latin-1": (b"\xef\xbb\xbf" + PLAIN.encode(), {"encoding": "latin-1"}, "begins as files in UTF-8"),
    "latin-1 taken for UTF-8": (
        PLAIN.replace("south", "süd").encode("latin-1"),
        {},
        "line 3: column 'area' has bytes that are not utf-8; .* table.csv.encoding",
    ),
    "a header in latin-1": (PLAIN.replace("note", "nöte").encode("latin-1"), {}, "line 1: the names .* are not utf-8"),
    "a header not closed": (PLAIN.replace("note", '"note').encode(), {}, "line 1: the names of the columns"),
    "UTF-16 cut short": (PLAIN.encode("utf-16-le")[:-1], {"encoding": "utf-16-le"}, "is not utf-16-le"),
    "nothing": (b"", {}, "is empty; give a file with a header and records"),
    "empty lines alone": (b"\n\r\n", {}, "is empty; give a file with a header"),
    "a header alone": (b"sex,area,note\n", {}, "has no records: no rows"),
    "a used column twice": (b"sex,area,sex,note\nf,n,f,x\n", {}, "has 2 columns called 'sex'; rename"),
    "a line for Excel": (
        b"sep=;\n" + PLAIN.replace(",", ";").encode(),
        {"delimiter": ";"},
        "line 1: the line names the del",
    ),
    "UTF-16 without a sign": (PLAIN.encode("utf-16-le"), {}, "line 1: it has bytes of 0, as text in UTF-16 has"),
    "UTF-8 taken for cp1252": (
        PLAIN.replace("south", "süd").encode(),
        {"encoding": "cp1252"},
        "line 3: column 'area' has text in UTF-8, and csv.encoding is cp1252",
    ),
    "a header in UTF-8 taken for latin-1": (
        PLAIN.replace("note", "nöte").encode(),
        {"encoding": "latin-1"},
        "line 1: the names of the columns are text in UTF-8",
    ),
    **{
        f"UTF-8 taken for {encoding}": (
            PLAIN.replace("south", text).encode(),
            {"encoding": encoding},
            f"line 3: column 'area' has text in UTF-8, and csv.encoding is {encoding}",
        )
        for encoding, text in (("cp1250", "šírka"), ("iso8859-2", "južná"), ("cp1251", "юг"), ("mac-roman", "süd"))
    },
    "an archive": (b"PK\x03\x04" + bytes(40), {}, "begins as a ZIP archive or an Excel file does; give the data"),
    "a packed file": (gzip.compress(PLAIN.encode()), {}, "begins as a file packed by gzip does"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", {}, "begins as a pointer of Git LFS"),
    "a web page": (b"<!DOCTYPE html>\n<html>\n", {}, "begins as a web page does"),
    "another delimiter": (PLAIN.replace(",", ";").encode(), {}, "the one column 'sex;area;note'; separate"),
}


def independent(content: bytes, settings: dict[str, Any]) -> list[list[str]]:
    """Header and records as the standard library reads them."""
    config = CsvConfig(**settings)
    stream = io.StringIO(content.decode(config.encoding, "replace").removeprefix("\ufeff"), newline="")
    quoting: Any = csv.QUOTE_NONE if config.quote == "none" else csv.QUOTE_MINIMAL
    csv.field_size_limit(1 << 27)
    return [row for row in csv.reader(stream, delimiter=config.delimiter, quoting=quoting) if row]


def counted(table: Any) -> Counter[tuple[str, ...]]:
    names = [variable.categories for variable in table.schema.variables]
    cells = (tuple(own[code] for own, code in zip(names, row, strict=True)) for row in table.codes.tolist())
    return Counter(dict(zip(cells, table.counts.tolist(), strict=True)))


@pytest.mark.parametrize("name", READ)
def test_counted_as_the_standard_library_counts_them(name: str, tmp_path: Path) -> None:
    content, given = READ[name]
    (tmp_path / "t.csv").write_bytes(content)
    header, *rows = independent(content, given)
    places = [header.index(column) for column in USED]
    expected = Counter(tuple(row[place] for place in places) for row in rows)
    assert counted(read_table(tmp_path / "t.csv", variables=USED, csv=given)) == expected
    frame = pa.table({column: [row[place] for row in rows] for column, place in zip(USED, places, strict=True)})
    pq.write_table(frame, tmp_path / "t.parquet")
    assert counted(read_table(tmp_path / "t.parquet")) == expected
    assert counted(read_table(frame)) == expected
    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
        sheet = book.add_worksheet()
        for number, row in enumerate([USED, *([row[place] for place in places] for row in rows)]):
            for column, value in enumerate(row):
                sheet.write_string(number, column, value)
    assert counted(read_table(tmp_path / "t.xlsx")) == expected


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("columns", [("sex",), ("note", "area", "sex")])
def test_refused_with_their_line_whatever_is_used(name: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    content, given, match = REFUSED[name]
    (tmp_path / "t.csv").write_bytes(content)
    missing = dict.fromkeys(columns, "-")  # as `sdc init` proposes: it makes no record of what is none
    if "column 'area' has" in match and "line 3" in match and columns == ("sex",) and "quotation" not in match:
        assert read_table(tmp_path / "t.csv", variables=columns, csv=given).total == 4  # of a column that nobody uses
        return
    with pytest.raises(InputError, match=match) as caught:
        read_table(tmp_path / "t.csv", variables=columns, csv=given, missing=missing)
    assert "\n" not in str(caught.value)


def test_a_file_of_one_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a\nx\n""\n y\n')
    assert counted(read_table(path, missing={"a": "-"})) == Counter({("x",): 1, ("-",): 1, (" y",): 1})
    for content, line in ((b"a\nx\n\ny\n", 3), (b"a\n\nx\n", 2), (b"a\r\nx\r\n\r\n", 3), (b"a\nx\na\n", 3)):
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=f"line {line}: (the line is empty|the line repeats the names of the columns)"
        ):
            read_table(path, missing={"a": "-"})


def test_a_line_without_end(tmp_path: Path) -> None:
    """4 GiB of it: the last 16 MiB are never read."""
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"a,b\nx,y\nx,")
        file.truncate(1 << 32)
    with pytest.raises(InputError, match=r"t\.csv, line 3: it has more than 16 MiB; check that it is a text file"):
        read_table(tmp_path / "t.csv", variables=["a"])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=some.text('ab,"\n\r ', max_size=24), quote=some.sampled_from(['"', "none"]))
def test_whatever_is_read_is_what_the_standard_library_reads(content: str, quote: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(f"x,y\n{content}".encode())
    try:
        table = read_table(
            tmp_path / "t.csv", csv={"quote": quote}, missing={"x": "-", "y": "-"}, invalid_records="refuse"
        )
    except InputError:
        return
    rows = independent(f"x,y\n{content}".encode(), {"quote": quote})[1:]
    assert counted(table) == Counter(tuple(value or "-" for value in row) for row in rows)


def test_the_same_from_any_ranges_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{n % 7},é{n % 3}{chr(13) * (n % 2)}\n" for n in range(60))
    (tmp_path / "t.csv").write_bytes(f"x,y\n{rows}".encode())
    whole = read_table(tmp_path / "t.csv")
    for size in (1, 2, 3, 7, 64, 300):
        monkeypatch.setattr(reading, "_UNIT_BYTES", size)
        assert read_table(tmp_path / "t.csv") == whole
        with (tmp_path / "bad.csv").open("wb") as file:
            file.write(f"x,y\n{rows}1,2,3\n4,5\n".encode())
        with pytest.raises(InputError, match="line 62: it has 3 fields"):
            read_table(tmp_path / "bad.csv")


def test_small_blocks_and_full_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in READ:
        content, given = READ[name]
        if len(content) > 1000:
            continue
        (tmp_path / "t.csv").write_bytes(content)
        expected = read_table(tmp_path / "t.csv", variables=USED, csv=given)
        with monkeypatch.context() as patch:
            for name, value in (("_BLOCK", 3), ("_ROWS", 2), ("_FEW", 1), ("_VALUES", 1)):
                patch.setattr(text, name, value)
            patch.setattr(READER, "each", each_here)
            assert read_table(tmp_path / "t.csv", variables=USED, csv=given) == expected


PACKED: dict[str, Any] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", [*PACKED, ".zst"])
def test_packed_files(suffix: str, tmp_path: Path) -> None:
    pack = PACKED.get(suffix, lambda content: pa.Codec("zstd").compress(content, asbytes=True))
    path = tmp_path / f"t.CSV{suffix.upper()}"
    path.write_bytes(pack(PLAIN.encode()) + pack(b"f,west,\n"))  # one after the other, as some tools write them
    assert read_table(path, variables=USED).total == 5
    path.write_bytes(pack(PLAIN.encode() * 1000)[:-20])
    with pytest.raises(InputError, match=r"t\.CSV.* cannot be read: it (ends too soon|is damaged, or .*); check"):
        read_table(path, variables=USED)
    if suffix in (".bz2", ".xz"):
        path.write_bytes(pack(PLAIN.encode()) + bytes(4) + pack(b"f,west,\n"))
        with pytest.raises(InputError, match="has zero bytes after a packed stream; unpack it and pack it again"):
            read_table(path, variables=USED)
    for content in (
        PLAIN.encode(),
        pack(PLAIN.encode()) + b"m,west,\n",
        pack(PLAIN.encode()) + pack(b"m,west,\n")[:-5],
    ):
        path.write_bytes(content)  # the standard library takes what is no stream after one for the end
        with pytest.raises(InputError, match="cannot be read: "):
            read_table(path, variables=USED)


@pytest.mark.parametrize("other", ["south.tsv", "west.txt", "east.csv.gz", "x.csv.Z", "y.CSV.part", "_z.csv", "data"])
def test_a_file_that_is_no_part_is_refused_by_name(other: str, tmp_path: Path) -> None:
    for name in ("north.csv", other, "_SUCCESS", ".hidden.csv", "._north.csv"):
        (tmp_path / name).write_text(PLAIN)
    for path in (tmp_path, f"{tmp_path}/*"):
        with pytest.raises(InputError, match=rf"has .*{other}.*; give parts of one kind.* under table.ignore"):
            read_table(path, variables=USED)
        assert read_table(path, variables=USED, ignore=["[xyz].*", "_z*", other]).total == 4
    config = TableConfig(path=str(tmp_path), variables=USED, ignore=(other,))
    assert count_records(open_source(config.path, None, config.ignore), config).table.total == 4


def test_a_tab_in_files_that_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(PLAIN.replace(",", "\t"))
    assert read_table(tmp_path / "t.tsv", variables=USED).total == 4


@pytest.mark.parametrize(
    ("name", "used", "other"),
    [
        ("", "a", {"": ["1", "2"], "a": ["x", "y"]}),
        ("__index_level_0__", "a", {"a": ["x", "y"], "__index_level_0__": [0, 1]}),
        ("b", "a", {"a": ["x", "y"], "b": [[1], [2]]}),
        ("b", "a", {"a": ["x", "y"], "b": [datetime.datetime(2024, 1, 1, 12)] * 2}),
    ],
)
def test_unused_columns_stop_no_read(name: str, used: str, other: dict[str, Any], tmp_path: Path) -> None:
    frame = pa.table(other)
    pq.write_table(frame, tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        assert read_table(source, variables=[used]).total == 2
        with pytest.raises(InputError, match=r"has no name|the index of a data frame|no categories"):
            read_table(source)


def test_the_unnamed_column_of_a_csv_file_of_pandas(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",sex,area,area\n0,f,n,s\n1,m,n,s\n")
    assert read_table(tmp_path / "t.csv", variables=["sex"]).total == 2
    (tmp_path / "t.csv").write_text(",sex,area\n0,f,n\n1,m,n\n")
    with pytest.raises(InputError, match=r"t\.csv: column 1 has no name; name it, or name the variables to use"):
        read_table(tmp_path / "t.csv")


MISSING = "sex,age\nf,34\nm,NA\nf,NA \nm,.\nf,9\n"


@pytest.mark.parametrize("marks", [["NA", "."], {"age": ["NA", "."]}])
def test_texts_that_stand_for_missing_values(marks: Any, tmp_path: Path) -> None:
    """Beside bins, as a category or left out; and as they are where nothing is said."""
    (tmp_path / "t.csv").write_text(MISSING)
    header, *rows = (line.split(",") for line in MISSING.splitlines())
    frame = pa.table({name: [row[v] for row in rows] for v, name in enumerate(header)})
    pq.write_table(frame, tmp_path / "t.parquet")
    bins: dict[str, Any] = {"recodes": {"age": {"bins": {"young": [0, 18], "old": [18, None]}}}}
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", frame):
        with pytest.raises(InputError, match="column 'age' has values that no bin or group of 'age' covers"):
            read_table(source, **bins)
        with pytest.raises(InputError, match="missing values: 3 in column 'age'"):
            read_table(source, csv={"missing": marks}, **bins)
        kept = read_table(source, csv={"missing": marks}, missing={"age": "unknown"}, **bins)
        assert kept.schema.variables[1].categories == ("young", "old", "unknown")
        assert kept.one_way()[1].tolist() == [1, 1, 3]
        assert read_table(source, csv={"missing": marks}, invalid_records="exclude", **bins).total == 2
        assert read_table(source, variables=["age"], alike="keep").schema.sizes == (5,)
    with pytest.raises(InputError, match=r"csv\.missing names 'agee', which is not a variable of"):
        read_table(tmp_path / "t.csv", csv={"missing": {"agee": ["NA"]}})


@pytest.mark.parametrize("values", [[-9, 20, 30, -9], [-9.0, 20.0, 30.0, -9.0], ["-9", "20", "30", "-9"]])
def test_a_stored_number_stands_for_missing_as_its_text_does(values: list[Any]) -> None:
    table = read_table(pa.table({"age": values}), csv={"missing": ["-9"]}, missing={"age": "unknown"})
    assert table.one_way()[0].tolist() == [1, 1, 2]
    assert table.schema.variables[0].categories[-1] == "unknown"
