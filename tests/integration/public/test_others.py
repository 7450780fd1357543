"""What others published, in files that no writer of this project made: read completely, or refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.config.earlier import EarlierConfig
from sdc.data.reading import read_table
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.structural_zeros import NO_ZEROS
from sdc.public import check as checking
from sdc.public.check import check
from sdc.public.earlier import Publications, with_earlier
from sdc.public.published import Published, read_published
from sdc.public.relation import relations_given
from sdc.stages.build import Build
from tests import reference
from tests.helpers.builds import built, written
from tests.integration.public.test_check import all_tables, tables_of
from tests.profiles import scaled

HEAD = 'CHARSET="ANSI";\nSTUB="sex";\nHEADING="geo","year";\n'
VALUES = 'VALUES("sex")="women","men";\nVALUES("geo")="north","south";\nVALUES("year")="1","2";\n'
CODES = 'CODES("sex")="f","m";\n'
KEYS = HEAD + VALUES + CODES + 'KEYS("sex")='


def read(path: Path, content: str | bytes) -> Published:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (found,) = read_published(path)
    return found


def cells(found: Published) -> dict[str, int]:
    schema = found.table.schema
    named = ("".join(schema.named(cell).values()) for cell in found.table.codes.tolist())
    return dict(zip(named, found.table.counts.tolist(), strict=True))


ROW = {"fnorth1": 5, "fnorth2": 6, "fsouth2": 8}


@pytest.mark.parametrize(
    "text",
    [
        KEYS + 'CODES;\nDATA=\n"f" 5 6 - 8\n;',
        KEYS + 'VALUES;\nDATA=\n"women", 5 6 "-" 8 ;',
        KEYS + 'VALUES ;\nDATA="women",5.0,6e0,0,0.8E+1;\n',
        KEYS + 'CODES;\nDATA=\n"m" 0 0 0 0\n"f" 5 6\n0 8\n;',
        KEYS + 'CODES;\nKEYS("year")=VALUES;\nDATA=\n"f","1" 5 -\n"f","2" 6 8;',
        KEYS + 'CODES;\nKEYS("geo")=CODES;\nKEYS("year")=CODES;\nDATA=\n"f","north","1",5\n"f","north","2",6\n'
        '"f","south","2",8\n;',
        HEAD + VALUES + CODES + "DATA=\n5 6 - 8\n- - - - ;",
        HEAD
        + VALUES
        + CODES
        + 'VALUENOTE("sex","women")="a ; b";\nCELLNOTE("women","*")="x";\nDATA=5;6;"-";8;0;0;0;0;',
    ],
)
def test_a_px_file_is_read_whole(tmp_path: Path, text: str) -> None:
    assert cells(read(tmp_path / "t.px", text)) == ROW


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (KEYS + 'CODES;\nDATA=\n"f" 5 6 0\n;', "its rows are not of 1 keys and 4 numbers each"),
        (KEYS + 'CODES;\nDATA=\n"women" 5 6 0 8\n;', 'a row has the key "women", which is of no category'),
        (KEYS + "CODES;\nDATA=\nf 5 6 0 8\n;", "a row has the key f, which is of no category"),
        (KEYS + 'CODES;\nDATA=\n"f" 5 6 0 8\n"f" 5 6 0 8;', "lists a cell twice"),
        (KEYS + 'NAMES;\nDATA=\n"f" 5 6 0 8;', "KEYS=NAMES names no category"),
        (KEYS + 'CODES;\nDATA=\n"f" 5 6 0 8;\nNOTE="of 2020";', "its rows are not of 1 keys"),
        (KEYS + 'CODES;\nDATA=\n"f" 5 6 0 "8;', "quotation mark that is not closed"),
        (HEAD + VALUES + 'CODES("sex")="f";\nDATA=1 2 3 4 5 6 7 8;', "not as many CODES as VALUES"),
        (HEAD + VALUES + 'NOTE="say ""x""";DATA=1 2 3 4 5 6 7 8;', "a text has a quotation mark within"),
        (HEAD + VALUES + 'DATA=1 2 3 4 5 6 7 ".";', '"." is not a whole number'),
        (HEAD + VALUES + "DATA=1 2 3 4 5 6 7 1_0;", "1_0 is not a whole number"),
        (HEAD + VALUES + "DATA=1 2 3 4 5 6 7 8.5;", "8.5 is not a whole number"),
        (HEAD + VALUES + 'CODEPAGE="klingon";DATA=1 2 3 4 5 6 7 8;', "unknown encoding: klingon"),
        ((HEAD + VALUES + 'CODEPAGE="utf-8";NOTE="é";DATA=1 2 3 4 5 6 7 8;').encode("latin-1"), "UnicodeDecodeError"),
    ],
)
def test_a_px_file_that_is_not_understood_is_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path / "t.px", text)


def test_ansi_is_what_windows_writes(tmp_path: Path) -> None:
    text = HEAD + VALUES.replace("north", "north \u2013 coast") + "DATA=1 2 3 4 5 6 7 8;"
    found = read(tmp_path / "t.px", text.encode("cp1252"))
    assert found.table.schema.variables[1].categories[0] == "north \u2013 coast"


def test_counts_are_whole_numbers_however_they_are_written(tmp_path: Path) -> None:
    """As pandas writes them beside missing values."""
    text = "sex,count\na,12.0\nb,1e+05\nc,+7\nd, 3\ne,.5e1\nf,0.0\ng,\nh,2-4\n"
    found = read(tmp_path / "t.csv", text)
    assert cells(found) == {"a": 12, "b": 100_000, "c": 7, "d": 3, "e": 5}
    assert len(found.suppressed) == 2
    for odd in ("1_200", "1,200.0", "12.5", "1e-1", "٣", "-", "-3", "nan", "1e400", "0x10"):
        with pytest.raises(InputError, match=r"row 1 is not a whole number|without a whole count|sum to more"):
            read(tmp_path / "t.csv", f'sex,count\na,"{odd}"\n')


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b,count_rounded_to_5\nx,y,0\nx,(total),0\n(total),y,0\n(total),(total),0\n"),
        (
            "t.px",
            'CONTENTS="Records, rounded to 5";STUB="a";HEADING="b";VALUES("a")="x","(total)";VALUES("b")="y","(total)";'
            'ELIMINATION("a")="(total)";ELIMINATION("b")="(total)";KEYS("a")=CODES;KEYS("b")=CODES;DATA=\n;',
        ),
    ],
)
def test_a_table_that_is_wholly_rounded_to_0(tmp_path: Path, name: str, content: str) -> None:
    found = read(tmp_path / name, content)
    assert (found.base, found.table.total, set(found.margins)) == (5, 0, {("a",), ("b",)})
    assert check([tmp_path / name], small_count=None).outer.tolist() == [[0, 4]]


def test_a_number_of_records_alone_is_a_fact(tmp_path: Path) -> None:
    """In a file without another variable or row, and in a release of nothing else; of all records or of some."""
    counts = np.array([[18, 1], [7, 9], [30, 2]])
    rows = [f"a{a},b{b},{counts[a, b]}\n" for a, b in np.ndindex(*counts.shape)]
    (tmp_path / "t.csv").write_text("".join(["a,b,count\n", *rows]))
    texts = {"all": "count\n67\n", "rows": "a,b,count\n(total),(total),67\n", "some": "count\n51\n"}
    texts |= {"near": "count_rounded_to_5\n65\n", "false": "count\n66\n", "far": "count_rounded_to_5\n75\n"}
    places = {name: tmp_path / f"{name}.csv" for name in texts}
    for name, text in texts.items():
        places[name].write_text(text)

    def config(name: str, **sections: Any) -> Build:
        return built(written(tmp_path, name, table={"path": str(tmp_path / "t.csv")}, **sections))

    places["nothing"] = config("first", release={"forbid": ["a", "b"]}).folder.stage("release")
    for name in ("all", "rows", "near", "nothing"):
        build = config(name, earlier=[{"folder": str(places[name])}])
        assert build.made.known.published == ()
        assert build.origin.sources == (f"(total) of {places[name].name}",)
    for name in ("false", "far"):
        with pytest.raises(InputError, match="is not of these records"):
            config(name, earlier=[{"folder": str(places[name])}])
    with pytest.raises(InputError, match="is of other records than"):
        config("other", earlier=[{"folder": str(places["all"]), "disjoint": True}])
    where = {"folder": str(places["some"]), "where": {"a": ["a0", "a2"]}}
    (fact,) = config("some", earlier=[where]).made.known.published
    assert fact.universe
    (tmp_path / "b.csv").write_text("b,count\nb0,55\nb1,12\n")
    (tmp_path / "a.csv").write_text("a,count\na0,19\na1,\na2,\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv", *(places[name] for name in ("all", "some"))]
    found = check(files, relations_given([where]), small_count=None)
    own = reference.marginal_cells(counts.shape, [0])
    facts = [*reference.exact(counts, [1]), reference.Fact(frozenset(own[(0,)]), 19, 19)]
    facts.append(reference.Fact(frozenset([*own[(0,)], *own[(2,)]]), 51, 51))
    assert found.outer.tolist() == reference.bounds(reference.feasible(counts.shape, facts)).tolist()
    for alone in ("all", "nothing"):
        with pytest.raises(InputError, match="nothing but numbers of records is named"):
            check([places[alone]])


def write_folder(folder: Path, levels: Any, **tables: str) -> Path:
    """As a published folder is laid out, with the tables as CSV."""
    folder.mkdir()
    resources = []
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
        sha = hashlib.sha256(text.encode()).hexdigest()
        names = text.partition(",count")[0].split(",")
        resources.append({"path": f"{name}.csv", "format": "csv", "hash": f"sha256:{sha}", "sub_table": names})
    (folder / "datapackage.json").write_text(json.dumps({"resources": resources, "levels": levels}))
    return folder


STATES = "state,sex,count\n" + "".join(f"s{k},{sex},{k + 4}\n" for k in range(6) for sex in "fm")
REGIONS = "region,age,count\nr0,old,{}\nr0,young,17\nr1,old,20\nr1,young,28\n"
REGIONS_BY_SEX = "r0,f,15\nr0,m,15\nr1,f,24\nr1,m,24\n"
WITHIN = {"variable": "region", "of": "state", "categories": {f"s{k}": f"r{k // 3}" for k in range(6)}}


def test_the_published_map_of_levels_is_used(tmp_path: Path) -> None:
    """Which state is in which region: their counts agree or not, and no state is in two regions."""
    folder = write_folder(tmp_path / "a", [WITHIN], one=STATES, two=REGIONS.format(13))
    found = check([folder], small_count=None)
    assert found.consistent
    assert (found.schema.names, len(found.cells)) == (("state", "sex", "age"), 24)
    assert found.outer[:, 1].max() == 9
    wrong = write_folder(tmp_path / "b", [WITHIN], one=STATES, two=REGIONS.format(14))
    assert not check([wrong]).consistent
    apart = write_folder(tmp_path / "c", [], one=STATES, two=REGIONS.format(13))
    assert len(check([apart], small_count=None).cells) == 48
    odd = write_folder(tmp_path / "d", [{"variable": "region"}], one=STATES, two=REGIONS.format(13))
    with pytest.raises(InputError, match=r"is not the metadata of a release \(KeyError\('of'\)\)"):
        check([odd])


def test_a_build_finds_a_published_level_in_its_own_table(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", [WITHIN], one="region,sex,count\n" + REGIONS_BY_SEX, two=STATES)
    (tmp_path / "states.csv").write_text(STATES)
    table, relation = read_table(tmp_path / "states.csv"), EarlierConfig(folder=str(folder))
    publications = Publications("states.csv", ((relation, tuple(read_published(folder))),), None)
    found, known, origin = with_earlier(table, NO_ZEROS, publications)
    assert (origin.hidden, found.schema.sizes) == (("region; published before",), (6, 2, 2))
    assert st.label(known.release.frontier[0], found.schema) == "state*sex"


def test_the_engine_bounds_tables_at_several_levels(monkeypatch: pytest.MonkeyPatch, night: list[int]) -> None:
    """Against all tables that agree, as where the cells are too many for the solver."""
    monkeypatch.setattr(checking, "MOST_EXACT", 0)
    rng, seen, coarser = np.random.default_rng([9, *night]), 0, 0
    while seen < scaled(8):
        table, told = tables_of(rng)
        if any(relation.where or len(one.suppressed) for one, relation in told):
            continue
        try:
            found = checking.composition(told)
        except InputError:
            continue
        schema = table.schema
        if found.schema.names != schema.names or not len(found.cells):
            continue
        truth = reference.bounds(all_tables(schema, *told))
        every = [schema.named(cell) for cell in reference.every_cell(schema.sizes)]
        for cell, outer, inner in zip(found.cells.tolist(), found.outer.tolist(), found.inner.tolist(), strict=True):
            low, high = truth[every.index(found.schema.named(cell))].tolist()
            assert outer[0] <= low <= inner[0] <= inner[1] <= high <= outer[1]
        seen += 1
        coarser += any(relation.variables for _, relation in told)
    assert coarser
