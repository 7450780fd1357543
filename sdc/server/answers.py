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

from sdc.config import PublicationConfig
from sdc.model.labels import Labels
from sdc.model.schema import Variable
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.report.svg import element
from sdc.run_format import COUNT, TOTAL, in_csv
from sdc.server.cells import Answer, Shape
from sdc.server.formats import FORMATS, Format, FormatError, format_of
from sdc.storage.parquet import named_columns

__all__ = ["FORMATS", "Answer", "Format", "FormatError", "Shape", "etag", "file_name", "format_of", "pieces"]

CHUNK = 1 << 18  # codes and counts, so that rows of many variables take no more memory
ROW_GROUP = 8  # chunks: each row group of a Parquet file has a dictionary of its own
MAX_ACROSS = 50  # categories: a wider table is not one that a person reads
WRITING = 1  # to be raised where the same table becomes other bytes

Strings: TypeAlias = pa.LargeStringArray
Chunks: TypeAlias = Iterator[tuple[npt.NDArray[Any], Strings]]


def pieces(answer: Answer, format: Format, *, chunk: int = CHUNK) -> Iterator[bytes]:
    """The answer in the format, piece by piece, a `chunk` of codes and counts each.

    What is wrong is raised by the call, not by the first piece. Memory is that of the cells listed, for totals too, and
    of a few pieces. FormatError where the format cannot hold the answer, see `_jsonstat` and `_xml`.
    """
    return _WRITERS[format.suffix](answer, max(1, chunk // (len(answer.variables) + 1)))


def etag(public_id: str, names: Sequence[str], format: Format, shape: Shape, texts: Texts = NO_TEXTS) -> str:
    """A strong entity tag: what is released never changes, so that what was asked for says it all, and no count does.

    public_id  of the table, by nothing that is confidential
    texts      that another config may have
    """
    asked = [WRITING, public_id, list(names), format.suffix, shape.zeros, shape.totals, texts.told]
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


def _bytes(rows: Strings) -> bytes:
    """All strings one after the other, as they lie in memory."""
    _, ends, content = rows.buffers()
    within = np.frombuffer(ends, np.int64)[rows.offset :][: len(rows) + 1]
    return bytes(content[within[0] : within[-1]])


def _joined(*columns: str | Strings) -> Strings:
    """Each row's strings as one; what is no array is the same in each row."""
    # in Arrow, because a loop over a million cells takes seconds
    typed = [pa.scalar(column, pa.large_string()) if isinstance(column, str) else column for column in columns]
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()))


def _texts(counts: npt.NDArray[np.int64]) -> Strings:
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
    "records": 1841, "cells": [{"A": "no", "B": "yes", "count": 3}, ...]}; `labels` and `about` where they are given
    """
    told = answer.texts.of(answer.names).told
    content = {
        "title": answer.title,
        "variables": answer.names,
        "categories": {variable.name: variable.categories for variable in answer.variables},
        "records": answer.records,
        **told,
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
        "dimension": {variable.name: _dimension(variable, answer.labels) for variable in variables},
        **_extension(answer.texts.about),
    }
    notes = list(answer.texts.about.notes)
    if answer.shape.zeros or 2 * answer.cells() >= answer.space.cells:
        content |= {"note": notes} if notes else {}
        dense = Answer(answer.title, answer.marginal, Shape(zeros=True, totals=answer.shape.totals))
        values = ((codes[:, :0], texts) for codes, texts in _listed(dense, cells))
        return _written(_Text(_unclosed(content) + ',"value":[', "]}\n", between=","), values)
    if not answer.space.fits:
        raise FormatError(f"JSON-stat numbers cells, and {answer.space.cells} are too many; take CSV, JSON or Parquet")
    content["note"] = ["Cells that have no value have no records.", *notes]
    form = _Text(_unclosed(content) + ',"value":{', "}}\n", between=",")
    return _written(form, _numbered(answer, cells))


def _dimension(variable: Variable, labels: Labels) -> dict[str, object]:
    own, called = labels.of(variable.name), dict(zip(variable.categories, labels.categories(variable), strict=True))
    dimension: dict[str, object] = {
        "label": labels.variable(variable.name),
        "category": {"index": variable.categories, "label": called},
    }
    if own.note:
        dimension["note"] = [own.note]
    if own.unit:
        dimension["extension"] = {"unit": own.unit}
    return dimension


def _extension(about: PublicationConfig) -> dict[str, object]:
    """The source, and what JSON-stat has no name for."""
    rest = {what: text for what, text in about.told.items() if what not in ("source", "notes")}
    return ({"source": about.source} if about.source else {}) | ({"extension": rest} if rest else {})


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
    opened = Markup('<?xml version="1.0" encoding="UTF-8"?>\n<table title="{}" records="{}">\n')
    described = [*_about(answer.texts.about), *(_described(variable, answer.labels) for variable in answer.variables)]
    head = opened.format(answer.title, answer.records) + Markup("").join(part + "\n" for part in described)
    form = _Text(head, "</table>\n", words, "<cell>", "<count>", "</count></cell>\n")
    return _written(form, _listed(answer, cells))


def _about(about: PublicationConfig) -> Iterator[Markup]:
    for what, text in about.told.items():
        yield from (element("note", note) for note in about.notes) if what == "notes" else [element(what, text)]


def _described(variable: Variable, labels: Labels) -> Markup:
    own = labels.of(variable.name)
    categories = [element("category", c, label=own.categories.get(c)) for c in variable.categories]
    return element("variable", *categories, name=variable.name, label=own.label, unit=own.unit, note=own.note)


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _check_xml(answer: Answer) -> None:
    about, labels = answer.texts.about, answer.labels
    said = [("the title", answer.title), *(("publication", t) for t in (*about.facts.values(), *about.notes))]
    for variable in answer.variables:
        texts = (variable.name, *variable.categories, *labels.of(variable.name).texts)
        said += [(f"variable {variable.name!r}", text) for text in texts]
    for what, text in said:
        if _NOT_XML.search(text):
            raise FormatError(f"{what} has a character that XML has not; take CSV, JSON or Parquet")


# Text


def _txt(answer: Answer, cells: int) -> Iterator[bytes]:
    """Title, number of records, and aligned columns between two spaces, below a line that shows how wide they are.

    What the table is of comes after it.
    """
    called, categories = _called(answer), [answer.labels.categories(v) for v in answer.variables]
    widths = [max(map(_wide, (name, *labels))) for name, labels in zip(called, categories, strict=True)]
    figures = max(len(COUNT), len(str(answer.records)))
    words = [[_padded(label, width) for label in labels] for labels, width in zip(categories, widths, strict=True)]
    names = "".join(map(_padded, called, widths)) + COUNT.rjust(figures)
    rule = "  ".join("-" * width for width in (*widths, figures))
    head = f"{answer.title}\n{_of_what(answer)}\n\n{names}\n{rule}\n"
    aligned = ((codes, pc.utf8_lpad(texts, figures)) for codes, texts in _listed(answer, cells))
    said = _foot(answer)
    foot = "".join(f"{text}\n" for text in ("", *said)) if said else ""
    return _written(_Text(head, foot, words, end="\n"), aligned)


def _called(answer: Answer) -> list[str]:
    """What its variables are called."""
    return [answer.labels.variable(name) for name in answer.names]


def _foot(answer: Answer) -> list[str]:
    """What people are told below a table: of its variables, and of the whole publication."""
    own = [(answer.labels.variable(name), answer.labels.of(name)) for name in answer.names]
    said = [(name, ", ".join(filter(None, (labels.note, labels.unit)))) for name, labels in own]
    about = answer.texts.about
    return [*(f"{what}: {text}" for what, text in (*said, *about.facts.items()) if text), *about.notes]


def _wide(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _wide(text) + 2)


def _of_what(answer: Answer) -> str:
    """`A by B: 1,841 records`."""
    return ": ".join(filter(None, [" by ".join(_called(answer)), f"{answer.records:,} records"]))


# HTML


def _html(answer: Answer, cells: int) -> Iterator[bytes]:
    """A table for a page, without the page.

    The last of two or more variables goes across, in which cells without records are 0, unless it is too wide.
    """
    crossed = len(answer.variables) > 1 and len(answer.variables[-1].categories) <= MAX_ACROSS
    down = answer.variables[:-1] if crossed else answer.variables
    labels = answer.labels
    header = _header_across(down, answer.variables[-1], labels) if crossed else _header(down, labels)
    caption = element("caption", element("strong", answer.title), Markup("<br>"), _of_what(answer))
    head = Markup('<table class="counts">\n{}\n{}\n<tbody>\n').format(caption, header)
    words = [_headings(variable, labels, "row") for variable in down]
    start = "<tr>" if down else '<tr><th scope="row">All records</th>'
    foot = Markup("").join(element("p", text, class_="soft") + "\n" for text in _foot(answer))
    form = _Text(head, Markup("</tbody>\n</table>\n") + foot, words, start, "<td>", "</td></tr>\n")
    return _written(form, _across(answer, cells) if crossed else _listed(answer, cells))


def _headings(variable: Variable, labels: Labels, scope: str) -> list[Markup]:
    return [
        element("th", label, scope=scope, class_="total" if category == TOTAL else None)
        for category, label in zip(variable.categories, labels.categories(variable), strict=True)
    ]


def _header(down: Iterable[Variable], labels: Labels) -> Markup:
    names = [*(labels.variable(variable.name) for variable in down), COUNT]
    if len(names) == 1:  # of the grand total, which says itself what it is
        return Markup("")
    return element("thead", element("tr", *(element("th", name, scope="col") for name in names)))


def _header_across(down: Iterable[Variable], last: Variable, labels: Labels) -> Markup:
    names = [element("th", labels.variable(variable.name), scope="col", rowspan=2) for variable in down]
    above = element("th", labels.variable(last.name), scope="colgroup", colspan=len(last.categories))
    return element("thead", element("tr", *names, above), element("tr", *_headings(last, labels, "col")))


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
