"""Released sub-tables as bytes: every format, a chunk of cells at a time, so that memory stays bounded."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from sdc.model.schema import Variable
from sdc.report.svg import element
from sdc.run_format import COUNT, in_csv
from sdc.server.cells import TOTAL, Answer, Shape
from sdc.server.formats import FORMATS, Format, FormatError, format_of
from sdc.storage.parquet import named_columns

__all__ = ["FORMATS", "Answer", "Format", "FormatError", "Shape", "etag", "file_name", "format_of", "pieces"]

CHUNK = 1 << 18  # codes and counts, so that rows of many variables take no more memory
ROW_GROUP = 8  # chunks: each row group of a Parquet file has a dictionary of its own
MAX_ACROSS = 50  # categories: a wider table is not one that a person reads
WRITING = 1  # to be raised where the same table becomes other bytes

Texts: TypeAlias = pa.LargeStringArray
Chunks: TypeAlias = Iterator[tuple[npt.NDArray[Any], Texts]]


def pieces(answer: Answer, format: Format, *, chunk: int = CHUNK) -> Iterator[bytes]:
    """The answer in the format, piece by piece, a `chunk` of codes and counts each.

    What is wrong is raised by the call, not by the first piece. Memory is that of the cells listed, for totals too, and
    of a few pieces. FormatError where the format cannot hold the answer, see `_jsonstat` and `_xml`.
    """
    return _WRITERS[format.suffix](answer, max(1, chunk // (len(answer.variables) + 1)))


def etag(public_id: str, names: Sequence[str], format: Format, shape: Shape) -> str:
    """A strong entity tag: what is released never changes, so that what was asked for says it all, and no count does.

    public_id  of the table, by nothing that is confidential
    """
    asked = [WRITING, public_id, list(names), format.suffix, shape.zeros, shape.totals]
    return f'"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]}"'


def file_name(names: Sequence[str], format: Format) -> str:
    """What a download is called: letters, digits, hyphens and underscores, at most 80 of them, and the suffix."""
    words = [re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") for name in names]
    return f"{'_'.join(filter(None, words))[:80] or 'table'}.{format.suffix}"


# Rows of text


@dataclass(frozen=True)
class _Text:
    """A text format as one answer has it.

    head, tail   around all rows
    words        what a row says of each category of each variable
    start, end   around each row
    before       the count of each row
    between      two rows
    """

    head: str
    tail: str
    words: Sequence[Sequence[str]] = ()
    start: str = ""
    before: str = ""
    end: str = ""
    between: str = ""


def _written(form: _Text, chunks: Chunks) -> Iterator[bytes]:
    yield form.head.encode()
    words = [pa.array(of_categories, pa.large_string()) for of_categories in form.words]
    skipped = len(form.between.encode())  # before the first row there is none
    for codes, texts in chunks:
        said = (of_categories.take(pa.array(column)) for of_categories, column in zip(words, codes.T, strict=True))
        yield _bytes(_joined(form.between + form.start, *said, form.before, texts, form.end))[skipped:]
        skipped = 0
    yield form.tail.encode()


def _bytes(rows: Texts) -> bytes:
    """All strings one after the other, as they lie in memory."""
    _, ends, content = rows.buffers()
    within = np.frombuffer(ends, np.int64)[rows.offset :][: len(rows) + 1]
    return bytes(content[within[0] : within[-1]])


def _joined(*columns: str | Texts) -> Texts:
    """Each row's strings as one; what is no array is the same in each row."""
    # in Arrow, because a loop over a million cells takes seconds
    typed = [pa.scalar(column, pa.large_string()) if isinstance(column, str) else column for column in columns]
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()))


def _texts(counts: npt.NDArray[np.int64]) -> Texts:
    return pc.cast(pa.array(counts), pa.large_string())


def _listed(answer: Answer, cells: int) -> Chunks:
    for codes, counts in answer.chunks(cells):
        yield codes, _texts(counts)


# CSV


def _csv(answer: Answer, cells: int) -> Iterator[bytes]:
    """A header, and a row a cell; UTF-8, lines end in a line feed. What a spreadsheet would run has an apostrophe."""
    words = [[_in_row(in_csv(c)) for c in variable.categories] for variable in answer.variables]
    head = "".join(map(_in_row, answer.names)) + COUNT + "\n"
    return _written(_Text(head, "", words, end="\n"), _listed(answer, cells))


def _in_row(name: str) -> str:
    """The field, quoted where needed, with the comma after it."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([name, ""])
    return line.getvalue()


# JSON


def _json(answer: Answer, cells: int) -> Iterator[bytes]:
    """What the table is about, and an object a cell, which any language reads into a data frame as it is.

    {"title": "Workers", "variables": ["A", "B"], "categories": {"A": ["no", "yes"], "B": ["no", "yes"]},
    "records": 1841, "cells": [{"A": "no", "B": "yes", "count": 3}, ...]}
    """
    content = {
        "title": answer.title,
        "variables": answer.names,
        "categories": {variable.name: variable.categories for variable in answer.variables},
        "records": answer.records,
    }
    words = [[f"{_dumped(variable.name)}:{_dumped(c)}," for c in variable.categories] for variable in answer.variables]
    form = _Text(_unclosed(content) + ',"cells":[\n', "\n]}\n", words, "{", f"{_dumped(COUNT)}:", "}", ",\n")
    return _written(form, _listed(answer, cells))


def _dumped(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _unclosed(content: Mapping[str, object]) -> str:
    """A JSON object that goes on."""
    return _dumped(content).removesuffix("}")


def _jsonstat(answer: Answer, cells: int) -> Iterator[bytes]:
    """A dataset of JSON-stat 2.0; its values are an object where most cells have no records and zeros are not wanted.

    JSON-stat has no table without dimensions: the grand total has one of a single category. FormatError where cells
    are too many to be numbered.
    """
    variables = answer.variables or (Variable(COUNT, (COUNT,)),)
    content = {
        "version": "2.0",
        "class": "dataset",
        "label": answer.title,
        "id": [variable.name for variable in variables],
        "size": [len(variable.categories) for variable in variables],
        "dimension": {variable.name: _dimension(variable) for variable in variables},
    }
    if answer.shape.zeros or 2 * answer.cells() >= answer.space.cells:
        dense = Answer(answer.title, answer.marginal, Shape(zeros=True, totals=answer.shape.totals))
        values = ((codes[:, :0], texts) for codes, texts in _listed(dense, cells))
        return _written(_Text(_unclosed(content) + ',"value":[', "]}\n", between=","), values)
    if not answer.space.fits:
        raise FormatError(f"JSON-stat numbers cells, and {answer.space.cells} are too many; take CSV, JSON or Parquet")
    content["note"] = ["Cells that have no value have no records."]
    form = _Text(_unclosed(content) + ',"value":{', "}}\n", between=",")
    return _written(form, _numbered(answer, cells))


def _dimension(variable: Variable) -> dict[str, object]:
    labels = {category: category for category in variable.categories}
    return {"label": variable.name, "category": {"index": variable.categories, "label": labels}}


def _numbered(answer: Answer, cells: int) -> Chunks:
    for codes, counts in answer.chunks(cells):
        yield codes[:, :0], _joined('"', _texts(answer.space.pack(codes)), '":', _texts(counts))


# XML


def _xml(answer: Answer, cells: int) -> Iterator[bytes]:
    """What the table is about, and an element a cell. FormatError where a name has a character that XML has not.

    <table title="Workers" records="1841">
    <variable name="A"><category>no</category><category>yes</category></variable> ...
    <cell><category variable="A">no</category><category variable="B">yes</category><count>3</count></cell> ...
    </table>
    """
    _check_xml(answer)
    words = [
        [element("category", category, variable=variable.name) for category in variable.categories]
        for variable in answer.variables
    ]
    described = (
        element("variable", *(element("category", c) for c in v.categories), name=v.name) + "\n"
        for v in answer.variables
    )
    opened = Markup('<?xml version="1.0" encoding="UTF-8"?>\n<table title="{}" records="{}">\n')
    head = opened.format(answer.title, answer.records) + Markup("").join(described)
    form = _Text(head, "</table>\n", words, "<cell>", "<count>", "</count></cell>\n")
    return _written(form, _listed(answer, cells))


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _check_xml(answer: Answer) -> None:
    for what, text in [("the title", answer.title)] + [
        (f"variable {variable.name!r}", text)
        for variable in answer.variables
        for text in (variable.name, *variable.categories)
    ]:
        if _NOT_XML.search(text):
            raise FormatError(f"{what} has a character that XML has not; take CSV, JSON or Parquet")


# Text


def _txt(answer: Answer, cells: int) -> Iterator[bytes]:
    """Title, number of records, and aligned columns between two spaces, below a line that shows how wide they are."""
    widths = [max(map(_wide, (v.name, *v.categories))) for v in answer.variables]
    figures = max(len(COUNT), len(str(answer.records)))
    words = [
        [_padded(category, width) for category in variable.categories]
        for variable, width in zip(answer.variables, widths, strict=True)
    ]
    names = "".join(map(_padded, answer.names, widths)) + COUNT.rjust(figures)
    rule = "  ".join("-" * width for width in (*widths, figures))
    head = f"{answer.title}\n{_of_what(answer)}\n\n{names}\n{rule}\n"
    aligned = ((codes, pc.utf8_lpad(texts, figures)) for codes, texts in _listed(answer, cells))
    return _written(_Text(head, "", words, end="\n"), aligned)


def _wide(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _wide(text) + 2)


def _of_what(answer: Answer) -> str:
    """`A by B: 1,841 records`."""
    return ": ".join(filter(None, [" by ".join(answer.names), f"{answer.records:,} records"]))


# HTML


def _html(answer: Answer, cells: int) -> Iterator[bytes]:
    """A table for a page, without the page.

    The last of two or more variables goes across, in which cells without records are 0, unless it is too wide.
    """
    crossed = len(answer.variables) > 1 and len(answer.variables[-1].categories) <= MAX_ACROSS
    down = answer.variables[:-1] if crossed else answer.variables
    header = _header_across(down, answer.variables[-1]) if crossed else _header(down)
    caption = element("caption", element("strong", answer.title), Markup("<br>"), _of_what(answer))
    head = Markup('<table class="counts">\n{}\n{}\n<tbody>\n').format(caption, header)
    words = [[_heading(category, "row") for category in variable.categories] for variable in down]
    start = "<tr>" if down else '<tr><th scope="row">All records</th>'
    form = _Text(head, "</tbody>\n</table>\n", words, start, "<td>", "</td></tr>\n")
    return _written(form, _across(answer, cells) if crossed else _listed(answer, cells))


def _heading(category: str, scope: str) -> Markup:
    return element("th", category, scope=scope, class_="total" if category == TOTAL else None)


def _header(down: Iterable[Variable]) -> Markup:
    names = [*(variable.name for variable in down), COUNT]
    if len(names) == 1:  # of the grand total, which says itself what it is
        return Markup("")
    return element("thead", element("tr", *(element("th", name, scope="col") for name in names)))


def _header_across(down: Iterable[Variable], last: Variable) -> Markup:
    names = [element("th", variable.name, scope="col", rowspan=2) for variable in down]
    above = element("th", last.name, scope="colgroup", colspan=len(last.categories))
    return element("thead", element("tr", *names, above), element("tr", *(_heading(c, "col") for c in last.categories)))


def _across(answer: Answer, cells: int) -> Chunks:
    for codes, counts in answer.crossed(cells):
        edges = pa.array(np.arange(0, counts.size + 1, counts.shape[1]))
        rows = pa.LargeListArray.from_arrays(edges, _texts(counts.reshape(-1)))
        yield codes, pc.binary_join(rows, pa.scalar("</td><td>", pa.large_string()))


# Parquet


def _parquet(answer: Answer, cells: int) -> Iterator[bytes]:
    """A dictionary column a variable with all its categories in order, and the counts; title and total as metadata."""
    metadata = {"title": answer.title, "records": str(answer.records)}
    columns = [pa.field(name, pa.dictionary(pa.int32(), pa.string())) for name in answer.names]
    schema = pa.schema([*columns, pa.field(COUNT, pa.int64())], metadata)
    written = _Drained()
    # no limit on dictionaries: past it Arrow stores values plainly and the categories would lose their order
    with pq.ParquetWriter(written, schema, compression="zstd", dictionary_pagesize_limit=1 << 30) as writer:
        for codes, counts in answer.chunks(ROW_GROUP * cells):
            named = named_columns(answer.variables, codes).values()
            writer.write_table(pa.Table.from_arrays([*named, pa.array(counts)], schema=schema))
            yield written.drain()
    yield written.drain()


class _Drained(io.RawIOBase):
    """A file that is taken away while it is written."""

    def __init__(self) -> None:
        self._kept, self._taken = bytearray(), 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._kept += content
        return len(content)

    def tell(self) -> int:
        return self._taken + len(self._kept)

    def drain(self) -> bytes:
        content = bytes(self._kept)
        self._taken += len(content)
        self._kept.clear()
        return content


_WRITERS: Mapping[str, Callable[[Answer, int], Iterator[bytes]]] = {
    "json": _json,
    "html": _html,
    "txt": _txt,
    "csv": _csv,
    "xml": _xml,
    "jsonstat": _jsonstat,
    "parquet": _parquet,
}
