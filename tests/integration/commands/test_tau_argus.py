"""A batch of tau-ARGUS becomes a config and records; nothing without a counterpart is passed over."""

import csv
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml

from sdc.config.file import read_config
from sdc.data.reading import read_table
from sdc.data.tau_argus import converted
from sdc.model.errors import InputError
from tests.helpers.commands import process
from tests.helpers.tau_argus import BATCHES, FREQUENCIES, METADATA, batch
from tests.profiles import scaled

RISKS = {"readme": (2, 3), "frequencies": (3, 2), "manual": (2, 2)}
DIFFERENCES = {
    "readme": [
        "tau_testW.rda line 1: the missing codes 99 of Size are categories",
        "readme.arb line 6: MOD of the sums Size*Region: sdc magnitude suppresses no cell",
        "readme.arb line 7: all tables go into one folder, as publication.formats says, not as "
        '(1,3,AS-,"safe-table.txt")',
        "no table of counts has a FREQ rule: small_count and min_width are a proposal",
        "readme.arb line 3: Size*Region is a table of sums: `sdc magnitude readme_records.csv --value Var2 --by "
        "Size*Region --dominance 2:75` checks every cell",
        "no table of the batch is of counts: this config would publish counts",
        "the records have no column for GK, One, which no table is by",
    ],
    "frequencies": ["ZERO(10)", "GH(100)", "FREQ(4,25)", "line 8"],
    "manual": ["<LOGBOOK>", "<SOLVER>", "OPT of the sums", "OPT(5)", "FREQ(3,20)", "--percent 15 --contributors 3"],
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_becomes_a_config_that_is_valid(name: str, tmp_path: Path) -> None:
    path = batch(tmp_path, name)
    answer = process("init", path, "--out", tmp_path / f"{name}.yaml", "--json")
    facts = json.loads(answer.out)
    text = (tmp_path / f"{name}.yaml").read_text()
    config = read_config(tmp_path / f"{name}.yaml")
    assert (config.risk.small_count, config.risk.min_width) == RISKS[name]
    settings = {"variables": config.table.variables, "hierarchies": dict(config.table.hierarchies)}
    assert facts["records"] == read_table(config.table.path, **settings).total == 220
    assert all(f"# - {one}\n" in text for one in facts["differences"])
    for one in DIFFERENCES[name]:
        assert any(one in said for said in facts["differences"])
    if name == "readme":
        assert facts["differences"] == DIFFERENCES[name]


def test_levels_are_columns_of_the_records(tmp_path: Path) -> None:
    _, records, _ = converted(batch(tmp_path, "manual"), "r.csv")
    rows = list(csv.DictReader(records.splitlines()))
    assert list(rows[0]) == ["Size", "GK", "Var2", "GK_level1", "GK_level2"]
    assert all((row["GK"][:1], row["GK"][:2]) == (row["GK_level1"], row["GK_level2"]) for row in rows)
    assert {row["Size"] for row in rows} == {"1", "2", "3", "04"}


def test_a_table_of_counts_loses_its_totals(tmp_path: Path) -> None:
    (tmp_path / "t.rda").write_text('Size\n<RECODEABLE>\n<TOTCODE> "T"\nn\n<NUMERIC>\n<FREQUENCY>\n')
    (tmp_path / "t.tab").write_text("a;5\nb;2\nT;7\n")
    (tmp_path / "t.arb").write_text(
        '<OPENTABLEDATA> "t.tab"\n<OPENMETADATA> "t.rda"\n<SPECIFYTABLE> "Size"|"<freq>"||\n<READTABLE> 1\n'
        "<SUPPRESS> RND(1,5)\n"
    )
    text, records, facts = converted(tmp_path / "t.arb", "r.csv")
    assert records == "Size,count\na,5\nb,2\n"
    assert "by: rounding\n    base: 5\n" in text
    assert any("rows of t.tab with a total are left out" in one for one in facts["differences"])


BAD = {
    "no statement": (FREQUENCIES.replace("<READMICRODATA>", "READ"), METADATA, "line 6: 'READ' is not a statement"),
    "no file": (FREQUENCIES.replace('"tau_testW.rda"', '"x.rda"'), METADATA, "line 3: x.rda does not exist"),
    "no variable": (FREQUENCIES.replace('"Size"', '"Sise"'), METADATA, "the metadata have no variable 'Sise'"),
    "no table": (FREQUENCIES.replace("GH(1,", "GH(2,"), METADATA, "line 7: there is no table 2"),
    "no place": (FREQUENCIES, METADATA.replace("Size 1 2", "Size a b"), "line 1: 'Size a b 99' has no place and width"),
    "a rule alone": ("<SAFETYRULE> FREQ(3,10)\n", METADATA, "is of no table or no rule"),
    "nothing": ("// nothing\n", METADATA, "names no data, no metadata or no table"),
    "no numbers": (FREQUENCIES.replace("(4,25)", "(a)"), METADATA, "line 5: "),
    "no number of a table": (FREQUENCIES.replace("(1,100)", "()"), METADATA, "line 7: "),
    "no first place": (FREQUENCIES, METADATA.replace("Size 1 2", "Size 0 2"), "has no place and width"),
    "twice": (FREQUENCIES, METADATA.replace("One", "GK"), "line 17: GK is there twice"),
    "blanks before codes": (FREQUENCIES, METADATA.replace('"@"', '" "'), "levels are read by a sign such as @"),
    "no widths": (FREQUENCIES, METADATA.replace("1 1 1", "x"), "x are not widths of levels"),
    "short records": (FREQUENCIES, METADATA.replace("One 17", "One 70"), "line 1 has 4 of 5 variables"),
    "a property alone": (FREQUENCIES, f"<NUMERIC>\n{METADATA}", "line 1: <NUMERIC> comes before any variable"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_batch_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    path = batch(tmp_path, "frequencies")
    text, metadata, said = BAD[name]
    path.write_text(text)
    (tmp_path / "tau_testW.rda").write_text(metadata)
    with pytest.raises(InputError) as refused:
        converted(path, "r.csv")
    assert said in str(refused.value)


def test_whatever_is_written_there_is_read_or_refused(tmp_path: Path, night: list[int]) -> None:
    """A character in any of the files is taken out, doubled or made another."""
    rng = np.random.default_rng([81, *night])
    for name in BATCHES:
        path = batch(tmp_path, name)
        for file in (path, tmp_path / "tau_testW.rda", tmp_path / "region.hrc"):
            text = file.read_text()
            for place in rng.integers(len(text), size=scaled(40)).tolist():
                by = ("", text[place] * 2, *'1a,"<')[rng.integers(7)]
                file.write_text(text[:place] + by + text[place + 1 :])
                with suppress(InputError):
                    yaml.safe_load(converted(path, "r.csv")[0])
            file.write_text(text)


def test_texts_of_other_encodings_are_named(tmp_path: Path) -> None:
    path = batch(tmp_path, "frequencies")
    path.write_bytes(b"// gr\xf6\xdfe\n" + path.read_bytes())
    assert "frequencies.arb is not UTF-8, and was read as Latin-1" in converted(path, "r.csv")[2]["differences"]


def test_a_code_without_a_place_in_the_hierarchy_is_refused(tmp_path: Path) -> None:
    path = batch(tmp_path, "frequencies")
    (tmp_path / "region.hrc").write_text("N\n@N1\n")
    with pytest.raises(InputError, match=r"has no code '[NSW][0-9]' of Region; add it"):
        converted(path, "r.csv")
    (tmp_path / "region.hrc").write_text("N\n@@N1\n")
    with pytest.raises(InputError, match="line 2: '@@N1' is more than one level below"):
        converted(path, "r.csv")
