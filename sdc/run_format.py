"""The names in a run folder: files, columns and versions; and texts in files for other programs.

The writers and `sdc.verify` share nothing else.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

MANIFEST, MANIFEST_FORMAT = "manifest.json", 1
TABLE, SEARCH, ASSESSMENT, RELEASE = "table", "search", "assessment", "release"  # stages, each a folder
WIDTHS, REPORT = "widths", "confidential"
CURVE, REMEDIES, POSTERIOR, UNIQUES, ATTACK = "curve", "remedies", "posterior", "uniques", "attack"
STAGES = (TABLE, SEARCH, ASSESSMENT, RELEASE)

# table/
SCHEMA, TABLE_FORMAT = "schema.json", 2
PART, PARTS = "part-{:05}.parquet", "part-*.parquet"
COUNT = "count"
LEAST, UNKNOWN = "least", "unknown"  # of a table with missing counts: a column, and sub-tables in the schema
BAD_RECORDS = "bad_records.json"  # number of records read and excluded
KNOWN, KNOWN_FORMAT = "known.json", 1  # public before the release
STRUCTURAL_ZEROS, FACTS, HIDDEN = "structural_zeros", "facts", "hidden"  # hidden variables are not published
LISTED = "listed"  # codes from a code list: their labels do not imply records
TRIED = "tried"  # (sub-table, level) pairs tried by recoding; published where they name one
WITHHELD, BETWEEN = "withheld", "between"  # in a ledger entry: suppressed cells of a fact, or their ranges
KNOWN_CELLS = "known_{}.parquet"  # cells of a fact with known ranges; also in assessment/
LOW, HIGH = OF_KNOWN_CELLS = "low", "high"
PART_CELLS = "withheld_{}.parquet"  # in search/ and assessment/: the suppressed cells of a sub-table
LEDGER_HEAD = "ledger_head"  # in the manifest: the last ledger entry read

# search/
SEARCH_FILE = "search.json"
REFUTATIONS_FILE, REFUTATIONS_FORMAT = "refutations.json", 1  # proofs of refusals; steps name them
REFUTATIONS, REFUTATION, NAME = "refutations", "refutation", "name"

# assessment/
CERTIFICATE, CERTIFICATE_FORMAT = "certificate.json", 3
PUBLIC_BEFORE, ASKED = "known", "asked"  # public before, as in known.json, and released now
PUBLIC_IN_PART, BESIDE = "parts", "beside"  # suppressed or rounded tables, and what was public with them
NOT_YET = (REFUTATIONS, "brackets")  # kinds of evidence that no certificate has
DIFFERENCES = "differences_{}.parquet"
DIFFERENCE, CHANGE = OF_DIFFERENCES = "difference", "change"
CELLS, ASSESSMENT_FILE = "cells.parquet", "assessment.json"
OUTER_LOWER, INNER_LOWER, INNER_UPPER, OUTER_UPPER = "outer_lower", "inner_lower", "inner_upper", "outer_upper"
ENDS, EXACT = (OUTER_LOWER, INNER_LOWER, COUNT, INNER_UPPER, OUTER_UPPER), "exact"
OF_CELLS = (*ENDS, EXACT)
# the method of each end of sharp bounds; assessment.json has the number of ends of each
METHOD_OF = {end: f"{end}_by" for end in (OUTER_LOWER, INNER_LOWER, INNER_UPPER, OUTER_UPPER)}
SHARPNESS, SHARP, PROVEN = "sharpness", "sharp", "proven"
IN_PART = "in_part"  # of an assessment, search or published table: suppressed and rounded tables
REVEALS = "reveal_suppressed"  # under release: cells that were suppressed earlier may be published
BROKEN = "broken"  # of an assessment: the broken rule on published counts
VARIABLE = "variable:"  # prefix of variables where one has the name of another column

# weighted/, where records have weights; these are in table/
WEIGHTS, SUM, LEAST, LARGEST = "weights.parquet", "total", "least", "largest"
WEIGHTED, WEIGHTED_FILE, WEIGHTED_FORMAT = "weighted", "weighted.json", 1
PAIRS, PAIR, SHIFT = "pairs.parquet", "pair", "shift"
OF_PAIRS = (PAIR, CHANGE, SHIFT)
UNIT = 10**6  # weights and their totals are in millionths there

# release/
WEIGHTED_TOTAL = "weighted_total"
STATUS, WITHHELD_STATUS = "count_status", "withheld"  # of a suppressed count
CONFIDENTIAL, WITHHELD_SYMBOL = "c", '".."'  # the same in JSON-stat and PX
METADATA, DICTIONARY, GUIDE = "datapackage.json", "data_dictionary.csv", "README.txt"
INDEX = "index.html"
CATALOGUE, CROISSANT, RO_CRATE = CATALOGUES = "catalogue.json", "croissant.json", "ro-crate-metadata.json"
SUMS = "SHA256SUMS"
SIGNATURE, PUBLIC_KEY, STATEMENT = SIGNED = "SHA256SUMS.sig", "SHA256SUMS.pub", "statement.intoto.jsonl"
TIMESTAMP = "SHA256SUMS.tsr"  # of RFC 3161; an agency may add it after publication
OF_SUMS = (SUMS, *SIGNED, TIMESTAMP)
RELEASE_FORMAT = 1
SUB_TABLE, SHA256 = "sub_table", "sha256:"
CODE_LISTS = "code_lists"  # variables of suppressed or rounded tables whose categories may be empty
LEVELS = "levels"  # the coarser category of each published category
ROUNDED, ROUNDED_TO, MARGINS = "rounded", "rounded_to", "margins"  # of a sub-table: base and rounded margins
ROUNDED_COUNT = "count_rounded_to_"  # before the base: the column of counts that are not exact
OF_RECORDS = "among them", "not among them"  # the level of the records that an earlier publication is of
TOTAL = "(total)"  # the category of totals, where they are listed
RESERVED = (TOTAL, "(all)")  # no category has these names
ZEROS, TOTALS = "zeros", "totals"  # listed with the cells that have records
SDMX_CSV, SDMX_STRUCTURE = ".sdmx.csv", ".sdmx.xml"
SDMX_JSON = ".sdmx.json"  # the structure in folders that older versions wrote
XML_SCHEMA, WORKBOOK = OF_ALL_TABLES = "tables.xsd", "tables.xlsx"
SHEETS = "Contents", "Data dictionary"  # of the workbook, beside those of tables
OF_DICTIONARY = "variable", "place", "category", "label", "variable_label", "unit", "note"
PX_API, PX_DATA = "pxapi/v2", "data"  # the folder of the documents of PxWebApi, and of each table its cells

# in-toto statements of a release and its inputs; the second is confidential, beside the stage folders
CONFIDENTIAL_STATEMENT = "confidential.intoto.jsonl"
STATEMENT_TYPE, RESULT_TYPE = "https://in-toto.io/Statement/v1", "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE, PASSED, CHECKER = "application/vnd.in-toto+json", "PASSED", "pkg:generic/sdc@"
VERDICT = ("releasable", "min_width", "min_width_required", "at_risk_cells", "undecided_cells")  # of an assessment


def cross_sheet(stem: str) -> str:
    """Return the sheet of a workbook with the cross table of a table."""
    return f"{stem[:25]} cross"


def is_read(path: str) -> bool:
    """Return whether a release is verified from the values of this file; each sub-table has one."""
    return path.endswith((".csv", ".parquet")) and not path.endswith(SDMX_CSV)


def is_shown(path: str) -> bool:
    """Return whether the page of a release links to this file of all tables: of an API to the start alone."""
    return not path.startswith(f"{PX_API}/") or path == f"{PX_API}/config"


# the policies for undecided cells
UNPROVEN_IS_ALLOWED = "outer"
POLICIES = ("refuse", UNPROVEN_IS_ALLOWED)


def variable_columns(variables: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return the column name of each variable, given the other columns."""
    return {v: VARIABLE + v if {*others} & {*variables} else v for v in variables}


_RUN_BY_SPREADSHEETS, _NUMERAL = re.compile(r"'*[=+\-@]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def is_formula(name: str) -> bool:
    """Return whether a spreadsheet would run this CSV cell, also after removing an apostrophe."""
    return _RUN_BY_SPREADSHEETS.match(name) is not None and _NUMERAL.fullmatch(name) is None


def in_csv(name: str) -> str:
    """Return a category as written in CSV files; different categories stay different."""
    return f"'{name}" if is_formula(name) else name


def out_of_csv(text: str) -> str:
    """Return the category that is written like this in CSV files."""
    return text[1:] if text.startswith("'") and is_formula(text) else text


def categories_of(field: Mapping[str, Any], format: str) -> list[str]:
    """Return the categories of a column, which the metadata list as its file has them, the total among them."""
    listed = (category for category in field["constraints"]["enum"] if category != TOTAL)
    return [out_of_csv(category) if format == "csv" else category for category in listed]
