"""PX, the format of PC-Axis (AXIS-VERSION 2013): all cells in order, or keyed rows if it is large and sparse.

PX texts cannot contain quotation marks or line ends, and no line has more than 255 characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from sdc.model.errors import ReleaseError
from sdc.model.schema import is_plain
from sdc.publish.formats.table import CountTable, Dimension, Pieces, TextRows, bytes_of, cells_of, counts_of, joined
from sdc.run_format import WITHHELD_STATUS, WITHHELD_SYMBOL

LINE, LONGEST_NAME = 250, 200  # names of variables and codes are never split
MAX_MATRIX = 20
MOST_DENSE = 1 << 17  # cells of a sparse table that is written in full, since many readers do not know KEYS

HOW = "reword it, or publish without px"


def px(table: CountTable) -> Pieces:
    """The table as a PX file in UTF-8; ReleaseError for texts that PX cannot carry."""
    _require(table)
    if table.is_dense or (table.space.fits and table.space.cells <= MOST_DENSE):
        return _dense(table.with_zeros)
    return _sparse(table)


def _dense(table: CountTable) -> Pieces:
    """All counts in C order; a new line for each category of the variables before the last."""
    yield (_head(table, [v.label for v in table.variables[:-1]], [table.variables[-1].label]) + "DATA=\n").encode()
    size, done = len(table.variables[-1].categories), 0
    a_line = max(1, LINE // (max(len(str(table.records)), len(WITHHELD_SYMBOL)) + 1))
    ends = pa.array([" ", " \n"], pa.large_string())
    for _, texts in counts_of(table, WITHHELD_SYMBOL):
        place = np.arange(done, done + len(texts)) % size + 1
        yield bytes_of(joined(texts, ends.take(pa.array(((place % a_line == 0) | (place == size)).astype(np.int8)))))
        done += len(texts)
    yield b";\n"


def _sparse(table: CountTable) -> Pieces:
    keys = [f"KEYS({_quoted(variable.label)})=CODES" for variable in table.variables]
    head = _head(table, [v.label for v in table.variables], []) + "".join(f"{key};\n" for key in keys) + "DATA=\n"
    words = [[f"{_quoted(category)}," for category in v.categories] for v in table.variables]
    longest = sum(max(map(len, of_categories)) for of_categories in words)
    if longest + max(len(str(table.records)), len(WITHHELD_SYMBOL)) >= LINE:
        words = [[f"{word}\n" for word in of_categories] for of_categories in words]
    return TextRows(head, ";\n", words, end=" \n").written(cells_of(table, withheld=WITHHELD_SYMBOL))


def _head(table: CountTable, stub: list[str], heading: list[str]) -> str:
    matrix, title = table.name[:MAX_MATRIX], table.title or table.name
    keywords = [
        ("CHARSET", ["ANSI"]),
        ("AXIS-VERSION", ["2013"]),
        ("CODEPAGE", ["utf-8"]),
        ("DECIMALS", 0),
        ("SHOWDECIMALS", 0),
        ("MATRIX", [matrix]),
        ("SUBJECT-CODE", [matrix]),
        ("SUBJECT-AREA", [title]),
        ("TITLE", [title]),
        ("CONTENTS", [_contents(table)]),
        ("UNITS", ["records"]),
        ("STUB", stub),
        ("HEADING", heading),
        *((f"VALUES({_quoted(v.label)})", list(v.labels)) for v in table.variables),
        *((f"CODES({_quoted(v.label)})", list(v.categories)) for v in table.variables),
        *((f"VARIABLECODE({_quoted(v.label)})", [v.name]) for v in table.variables),
        *((f"ELIMINATION({_quoted(v.label)})", [v.labels[-1]] if table.totals else "YES") for v in table.variables),
        ("SOURCE", [table.about.source]),
        ("CONTACT", [table.about.contact]),
        ("REFPERIOD", [table.about.period]),
        ("NOTE", [" # ".join(_notes(table))]),
        *((f"NOTE({_quoted(v.label)})", [_note(v)]) for v in table.variables),
        ("DATASYMBOL2", [] if table.withheld is None else [WITHHELD_STATUS]),  # two dots
    ]
    return "".join(_statement(keyword, value) for keyword, value in keywords if value not in ([], [None], [""]))


def _contents(table: CountTable) -> str:
    return "Records" if table.is_exact else f"Records, rounded to {table.measure.rpartition('_')[2]}"


def _notes(table: CountTable) -> Iterator[str]:
    facts = table.about.facts
    yield from (f"{name}: {facts[name]}" for name in ("Population", "Licence") if name in facts)
    yield from table.about.notes


def _note(variable: Dimension) -> str:
    return ", ".join(filter(None, (variable.note, variable.unit)))


def _statement(keyword: str, value: object) -> str:
    """`KEYWORD=value;` in lines of limited length; lists become texts, other values are written as they are."""
    if not isinstance(value, list):
        return f"{keyword}={value};\n"
    lines, line = list[str](), f"{keyword}="
    for piece in _pieces(value):
        if len(line) + len(piece) > LINE:
            lines.append(line)
            line = ""
        line += piece
    return "\n".join([*lines, f"{line};\n"])


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """Quoted texts with commas; a long text becomes several parts, which readers join."""
    texts = list(texts)
    for text, comma in zip_longest(texts, [","] * (len(texts) - 1), fillvalue=""):
        parts = [text[begin : begin + LONGEST_NAME] for begin in range(0, len(text), LONGEST_NAME)] or [""]
        yield from (_quoted(part) for part in parts[:-1])
        yield _quoted(parts[-1]) + comma


def _quoted(text: str) -> str:
    return f'"{text}"'


def _require(table: CountTable) -> None:
    if not table.variables:
        raise ReleaseError(f"{table.name}: PX has no table without variables; publish without px")
    for whose, text in table.texts:
        if '"' in text or not is_plain(text):
            what = "a quotation mark, an end of line or a character that is not seen, which PX cannot carry"
            raise ReleaseError(f"{whose} has a text with {what}; {HOW}", f"the text {text!r}")
    for variable in table.variables:
        _require_variable(variable)
    if len({variable.label for variable in table.variables}) < len(table.variables):
        raise ReleaseError(f"{table.name}: two variables read the same in PX; {HOW}")


def _require_variable(variable: Dimension) -> None:
    names = (variable.name, variable.label, *variable.categories)
    problems = {
        "an empty name or category, which PX cannot carry": not all((*names, *variable.labels)),
        f"a name or code of more than {LONGEST_NAME} characters, which a line of PX cannot carry": (
            max(map(len, names)) > LONGEST_NAME
        ),
        "two categories that read the same in PX": len(set(variable.labels)) < len(variable.labels),
    }
    if problem := next((problem for problem, is_there in problems.items() if is_there), None):
        raise ReleaseError(f"variable {variable.name!r} has {problem}; {HOW}")
