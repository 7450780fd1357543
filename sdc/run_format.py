"""The names in a run folder: its files, columns and versions, and how texts are written in files that others read.

Who writes it and `sdc.verify` share nothing else.
"""

import re
from collections.abc import Iterable

MANIFEST, MANIFEST_FORMAT = "manifest.json", 1
TABLE, SEARCH, ASSESSMENT, RELEASE = "table", "search", "assessment", "release"  # stages, each a folder
WIDTHS, REPORT = "widths", "confidential"
CURVE, REMEDIES, POSTERIOR, UNIQUES, ATTACK = "curve", "remedies", "posterior", "uniques", "attack"
STAGES = (TABLE, SEARCH, ASSESSMENT, RELEASE)

# table/
SCHEMA, TABLE_FORMAT = "schema.json", 2
PART, PARTS = "part-{:05}.parquet", "part-*.parquet"
COUNT = "count"
BAD_RECORDS = "bad_records.json"  # how many records were read, and how many of them set aside
KNOWN, KNOWN_FORMAT = "known.json", 1  # what is public of the table before anything is released
STRUCTURAL_ZEROS, FACTS, HIDDEN = "structural_zeros", "facts", "hidden"  # hidden variables are not published
LISTED = "listed"  # of variables the codes that a code list names, so that labels do not say that they have records
TRIED = "tried"  # pairs of a sub-table that may be coarsened and a level; which is published where it names one
WITHHELD, BETWEEN = "withheld", "between"  # in an entry of a ledger: cells of a fact told not at all, or so
KNOWN_CELLS = "known_{}.parquet"  # of a fact the cells whose counts are known between two numbers; also in assessment/
LOW, HIGH = OF_KNOWN_CELLS = "low", "high"
PART_CELLS = "withheld_{}.parquet"  # in search/ and assessment/: of a sub-table in part the cells that are withheld
LEDGER_HEAD = "ledger_head"  # in the manifest: up to where the ledger was read

# search/
SEARCH_FILE = "search.json"
REFUTATIONS_FILE, REFUTATIONS_FORMAT = "refutations.json", 1  # what proves refusals; steps name them
REFUTATIONS, REFUTATION, NAME = "refutations", "refutation", "name"

# assessment/
CERTIFICATE, CERTIFICATE_FORMAT = "certificate.json", 3
PUBLIC_BEFORE, ASKED = "known", "asked"  # what was public, as known.json has it, and what is released now
PUBLIC_IN_PART, BESIDE = "parts", "beside"  # what goes out in part, none or one such; beside what it was made
NOT_YET = (REFUTATIONS, "brackets")  # kinds of evidence that a certificate has none of
DIFFERENCES = "differences_{}.parquet"
DIFFERENCE, CHANGE = OF_DIFFERENCES = "difference", "change"
CELLS, ASSESSMENT_FILE = "cells.parquet", "assessment.json"
OUTER_LOWER, INNER_LOWER, INNER_UPPER, OUTER_UPPER = "outer_lower", "inner_lower", "inner_upper", "outer_upper"
ENDS, EXACT = (OUTER_LOWER, INNER_LOWER, COUNT, INNER_UPPER, OUTER_UPPER), "exact"
OF_CELLS = (*ENDS, EXACT)
# which method gave each end, where bounds were to be sharp; and in assessment.json how many ends each gave
METHOD_OF = {end: f"{end}_by" for end in (OUTER_LOWER, INNER_LOWER, INNER_UPPER, OUTER_UPPER)}
SHARPNESS, SHARP, PROVEN = "sharpness", "sharp", "proven"
IN_PART = "in_part"  # of an assessment, a search, a published table: what is said of sub-tables in part
REVEALS = "reveal_suppressed"  # under release: what earlier publications suppressed may be whole
BROKEN = "broken"  # of an assessment: what breaks a rule on what is published
VARIABLE = "variable:"  # before the columns of all variables where one of them has the name of another column

# weighted/, where records have weights; these are in table/
WEIGHTS, SUM, LEAST, LARGEST = "weights.parquet", "total", "least", "largest"
WEIGHTED, WEIGHTED_FILE, WEIGHTED_FORMAT = "weighted", "weighted.json", 1
PAIRS, PAIR, SHIFT = "pairs.parquet", "pair", "shift"
OF_PAIRS = (PAIR, CHANGE, SHIFT)
UNIT = 10**6  # weights and their totals are in millionths there

# release/
WEIGHTED_TOTAL = "weighted_total"
STATUS, WITHHELD_STATUS = "count_status", "withheld"  # of a count that is not told, in a sub-table in part
CONFIDENTIAL, WITHHELD_SYMBOL = "c", '".."'  # the same as JSON-stat and PX have it
METADATA, DICTIONARY, GUIDE = "datapackage.json", "data_dictionary.csv", "README.txt"
INDEX = "index.html"
CATALOGUE, CROISSANT, RO_CRATE = CATALOGUES = "catalogue.json", "croissant.json", "ro-crate-metadata.json"
SUMS = "SHA256SUMS"
SIGNATURE, PUBLIC_KEY, STATEMENT = SIGNED = "SHA256SUMS.sig", "SHA256SUMS.pub", "statement.intoto.jsonl"
TIMESTAMP = "SHA256SUMS.tsr"  # of RFC 3161, which an agency may add to what it has published
OF_SUMS = (SUMS, *SIGNED, TIMESTAMP)
RELEASE_FORMAT = 1
SUB_TABLE, SHA256 = "sub_table", "sha256:"
CODE_LISTS = "code_lists"  # variables of suppressed or rounded tables whose categories may have no record
LEVELS = "levels"  # which category of a coarser variable each category of a published one is in
ROUNDED, ROUNDED_TO, MARGINS = "rounded", "rounded_to", "margins"  # of a sub-table: to what, with which marginals
ROUNDED_COUNT = "count_rounded_to_"  # before the base: the column of counts that are not exact
TOTAL = "(total)"  # the category of totals, where they are listed
RESERVED = (TOTAL, "(all)")  # which no category is called
ZEROS, TOTALS = "zeros", "totals"  # what is listed beside the cells with records
SDMX_CSV = ".sdmx.csv"
XML_SCHEMA, WORKBOOK = OF_ALL_TABLES = "tables.xsd", "tables.xlsx"

# statements of in-toto, of a release and of what it is by; the latter is confidential, and beside the stages' folders
CONFIDENTIAL_STATEMENT = "confidential.intoto.jsonl"
STATEMENT_TYPE, RESULT_TYPE = "https://in-toto.io/Statement/v1", "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE, PASSED, CHECKER = "application/vnd.in-toto+json", "PASSED", "pkg:generic/sdc@"
VERDICT = ("releasable", "min_width", "min_width_required", "at_risk_cells", "undecided_cells")  # of an assessment


def is_read(path: str) -> bool:
    """Whether a release is verified from the values of such a file; each sub-table has one."""
    return path.endswith((".csv", ".parquet")) and not path.endswith(SDMX_CSV)


# what the config says of undecided cells where they may be published
UNPROVEN_IS_ALLOWED = "outer"
POLICIES = ("refuse", UNPROVEN_IS_ALLOWED)


def variable_columns(variables: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """The columns of variables beside other columns, by variable."""
    return {v: VARIABLE + v if {*others} & {*variables} else v for v in variables}


_RUN_BY_SPREADSHEETS, _NUMERAL = re.compile(r"'*[=+\-@]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def is_formula(name: str) -> bool:
    """Whether a spreadsheet that opens a CSV file would run the cell; so would it where an apostrophe was removed."""
    return _RUN_BY_SPREADSHEETS.match(name) is not None and _NUMERAL.fullmatch(name) is None


def in_csv(name: str) -> str:
    """A category as CSV files have it; different ones stay different."""
    return f"'{name}" if is_formula(name) else name
