"""Text files of records, split by a kernel that accounts for every byte of all columns.

A record is one line, so that files can be cut at line ends. Ambiguous content is refused with file and line: unclosed
or inner quotation marks, rows of another width, rows without values, a second header. Empty lines are skipped if there
are several columns.
"""

from __future__ import annotations

import bz2
import codecs
import csv as standard
import gzip
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sdc.data.child import FoundLayout, RecordFile, is_small, narrow
from sdc.data.text_kernel import AFTER_QUOTE, NO_VALUE, NOT_CLOSED, WIDTH, Split, compiled, outputs, split
from sdc.model.errors import InputError

_BLOCK = 1 << 20  # bytes that are split at a time
_LONGEST = 1 << 24  # bytes of a line
_UNPACKED, _TIMES = 1 << 30, 250  # bytes of any compressed file, and the maximum ratio of a larger one
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_LINES = 100  # used to guess the delimiter
_ROWS, _FEW, _VALUES = 1 << 17, 1 << 10, 1 << 16  # of a batch, and of its distinct values in a column, first and last
_QUOTED = 80  # bytes of a line in a detail
_AS_UTF8 = ("utf-8", "utf-8-sig")
_SIGNS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OTHERS = {  # how files begin that are not text of records, in small letters
    b"pk\x03\x04": "a ZIP archive or an Excel file",
    b"\x1f\x8b": "a file packed by gzip",
    b"bzh91ay&sy": "a file packed by bzip2",
    b"\xfd7zxz\0": "a file packed by xz",
    b"\x28\xb5\x2f\xfd": "a file packed by zstd",
    b"par1\x15": "a Parquet file",
    b"$fl2": "a file of SPSS",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"%pdf-": "a PDF file",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS",
}
_LATIN = ("cp1252", "iso8859-1", "iso8859-15")  # in which almost any text of UTF-8 becomes other text
_ITS_OWN = "; name the file's own as table.csv.encoding"
_HOW = "; double the quotation marks inside values, or set csv: {quote: none} if the file is written without quoting"


class Text(NamedTuple):
    """The format of a text file: delimiter, encoding, and quotation mark or none."""

    delimiter: str
    encoding: str
    quote: str


def text_layout(part: RecordFile, csv: Text) -> FoundLayout:
    """The columns, all of them text, and the bytes of the file if ranges of them can be read separately."""
    can_be_cut = not part.suffix.endswith(_PACKED) and "\n".encode(csv.encoding) == b"\n"
    return tuple((name, pa.string()) for name in _header_of(part, csv)), (), part.size if can_be_cut else None


def _header_of(part: RecordFile, csv: Text) -> list[str]:
    """The column names in the first non-empty line."""
    for lines in _blocks(part, csv, None):
        if at := _first(lines.text):
            begun = lines.text[at.start : at.start + _QUOTED].lower()
            if what := next((what for sign, what in _OTHERS.items() if begun.startswith(sign)), None):
                raise InputError(f"{part} begins as {what} does; give the data, in a file whose suffix says its kind")
            return _names(lines, at)
    raise InputError(f"{part} is empty; give a file with a header and records")


def guessed(part: RecordFile, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that `given` lacks, guessed from the first lines, for a proposal; see `init`.

    The encoding, and the delimiter that splits all lines into the same number of fields, the more the better.
    """
    first = next(iter(_bytes(part, None)), b"")
    sign = next((sign for sign in _SIGNS[1:] if first.startswith(sign)), None)
    encodings = ["utf-16"] if sign else ["utf-8", "cp1252", "latin-1"]
    found = {"encoding": next(e for e in encodings if _is_encoded(first, e)), **given}
    lines = [line for line in first.decode(found["encoding"], "replace").splitlines()[:_LINES] if line]
    lines = lines[:-1] or lines  # the last one may be cut

    def fields(delimiter: str) -> int:
        widths = {len(row) for row in standard.reader(lines, delimiter=delimiter)}
        return widths.pop() if len(widths) == 1 else 0

    by_width = max(["\t" if part.suffix.startswith(".tsv") else ",", ",", ";", "\t", "|"], key=fields)
    return {"delimiter": by_width, **found}


def _is_encoded(content: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeError:
        return False
    return True


def text_batches(
    part: RecordFile, columns: Sequence[str], csv: Text, span: range | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of the lines that begin in a range of bytes, each column as a dictionary, null for missing values.

    InputError with the line for ambiguous content.
    """
    names = [] if span is None or span.start == 0 else _header_of(part, csv)
    run: Split = split if is_small(part) else compiled()
    values = _FEW
    room = outputs(len(columns), _ROWS, values)
    marks = ord(csv.delimiter), -1 if csv.quote == "none" else ord(csv.quote)
    for lines in _blocks(part, csv, span):
        data, position = lines.text if run is split else np.frombuffer(lines.text, np.uint8), 0
        if not names and (first := _first(lines.text)):
            # one line end only: in a file of one column the next line may be empty
            names, position = _names(lines, first), first.stop + _line_end(lines.text[first.stop : first.stop + 2])
        if not names:
            continue
        places = np.full(len(names), -1)
        places[[names.index(column) for column in columns]] = np.arange(len(columns))
        while position < len(data):
            room.slots.fill(0)
            room.known.fill(0)
            into = room.codes, room.slots, room.edges, room.known, room.starts
            rows, position, problem, about = run(data, position, *marks, places, *into)
            if problem:
                raise lines.error_at(position, _message(problem, about, names))
            edges = [room.edges[v, :n].tolist() for v, n in enumerate(room.known)]
            yield _Batch(lines, room.codes[:, :rows], edges, room.starts).arrow(columns, names)
            if max(map(len, edges), default=0) == values < _VALUES:  # the reason of the early end
                values *= 4
                room = outputs(len(columns), _ROWS, values)


@dataclass(frozen=True)
class _Lines:
    """Whole lines of a part in UTF-8, after a number of blocks of the range."""

    part: RecordFile
    csv: Text
    span: range | None
    text: bytes
    blocks: int

    def error_at(self, position: int, what: str) -> InputError:
        """The error with the line at a position."""
        # lines are counted only here: that takes longer than splitting them
        start = 0 if self.span is None else self.span.start
        before = _whole_lines(self.part, self.csv, range(start)) if start else iter([b""])
        own = islice(_whole_lines(self.part, self.csv, self.span), self.blocks)
        line = 1 + sum(map(_line_ends, chain(before, own, [self.text[:position]])))
        begun = self.text[position : position + _QUOTED].split(b"\n")[0].rstrip().decode(errors="replace")
        return InputError(f"{self.part}, line {line}: {what}", f"line {line}: it begins {begun!r}")

    def fields(self, line: bytes) -> list[str]:
        """The fields of a line or header."""
        quoting: Any = {"quoting": standard.QUOTE_NONE} if self.csv.quote == "none" else {"quotechar": self.csv.quote}
        return next(standard.reader([line.decode()], delimiter=self.csv.delimiter, strict=True, **quoting))


@dataclass(frozen=True)
class _Batch:
    """Records of some lines from the kernel."""

    lines: _Lines
    codes: npt.NDArray[np.int32]
    edges: list[list[list[int]]]
    starts: npt.NDArray[np.int32]

    def arrow(self, columns: Sequence[str], names: Sequence[str]) -> pa.RecordBatch:
        values = [self._values(v, column) for v, column in enumerate(columns)]
        self._check_headers(values, columns, names)
        arrays = []
        for codes, own in zip(self.codes, values, strict=True):
            is_there = np.array([value is not None for value in own], np.bool_)
            arrays.append(narrow(codes, pa.array(own, pa.string()), None if is_there.all() else is_there[codes]))
        return pa.record_batch(arrays, names=list(columns))

    def _values(self, v: int, column: str) -> list[str | None]:
        text, quote, found = self.lines.text, self.lines.csv.quote, list[str | None]()
        for code, (begin, end) in enumerate(self.edges[v]):
            try:
                value = text[begin:end].decode()
            except UnicodeDecodeError:
                raise self._error(v, code, column, f"bytes that are not {self.lines.csv.encoding}") from None
            if _is_of_utf8(value, self.lines.csv.encoding):
                raise self._error(v, code, column, f"text in UTF-8, and csv.encoding is {self.lines.csv.encoding}")
            if quote != "none" and value.startswith(quote):
                value = value[1:-1].replace(quote * 2, quote)
            found.append(value or None)
        return found

    def _error(self, v: int, code: int, column: str, what: str) -> InputError:
        rows = np.flatnonzero(self.codes[v] == code)
        what = f"column {column!r} has {what}{_ITS_OWN}"
        return self.lines.error_at(int(self.starts[rows[0]]) if len(rows) else 0, what)

    def _check_headers(self, values: list[list[str | None]], columns: Sequence[str], names: Sequence[str]) -> None:
        """InputError for a repeated header line."""
        same = _plain if len(names) > 1 else str  # with one column, a value may well resemble its name
        alike = np.ones(self.codes.shape[1], np.bool_)
        for codes, own, column in zip(self.codes, values, columns, strict=True):
            called = [code for code, value in enumerate(own) if value is not None and same(value) == same(column)]
            if not called:
                return
            alike &= np.isin(codes, called)
        for row in np.flatnonzero(alike).tolist():
            start = int(self.starts[row])
            line = self.lines.text[start:].split(b"\n", 1)[0].split(b"\r", 1)[0]
            if list(map(same, self.lines.fields(line))) == list(map(same, names)):
                raise self.lines.error_at(start, "the line repeats the names of the columns; delete it")


def _plain(name: str) -> str:
    return name.strip().casefold()


def _message(problem: int, about: int, names: Sequence[str]) -> str:
    if problem == WIDTH:
        return f"it has {about} fields, and the header has {len(names)}; correct the line, or quote what it separates"
    if problem == NO_VALUE:
        return "the line is empty; delete it"
    where = f"column {names[about]!r}" if about < len(names) else f"field {about + 1}"
    if problem == NOT_CLOSED:
        return f"{where} has a quotation mark that is not closed in its line{_HOW}"
    what = "text after its closing quotation mark" if problem == AFTER_QUOTE else "a quotation mark inside its value"
    return f"{where} has {what}{_HOW}"


def _is_of_utf8(value: str, encoding: str) -> bool:
    """Whether a text read in an encoding of one byte a letter is one in UTF-8: every letter beyond ASCII would be.

    In an encoding of fewer Latin letters it must also be one that the encoding has: Её in cp1251 is none in UTF-8.
    """
    try:
        if value.isascii() or len(own := value.encode(encoding)) != len(value):
            return False
        found = own.decode()
        return found.isprintable() and (encoding in _LATIN or len(found.encode(encoding)) < len(own))
    except UnicodeError:
        return False


# Lines


def _first(text: bytes) -> range | None:
    start = len(text) - len(text.lstrip(b"\r\n"))
    line = text[start:].split(b"\n", 1)[0].split(b"\r", 1)[0]
    return range(start, start + len(line)) if line else None


def _names(lines: _Lines, at: range) -> list[str]:
    line, encoding = lines.text[at.start : at.stop], lines.csv.encoding
    try:
        names = lines.fields(line)
        if b"\0" in line:
            problem = f"it has bytes of 0, as text in UTF-16 has, and csv.encoding is {encoding}{_ITS_OWN}"
        elif line.lower().startswith(b"sep="):
            problem = "the line names the delimiter for Excel; delete it, and set table.csv.delimiter"
        elif any(_is_of_utf8(name, encoding) for name in names):
            problem = f"the names of the columns are text in UTF-8, and csv.encoding is {encoding}{_ITS_OWN}"
        else:
            return names
    except UnicodeDecodeError:
        problem = f"the names of the columns are not {encoding}{_ITS_OWN}"
    except standard.Error:
        problem = f"the names of the columns have a quotation mark that is not closed in its line{_HOW}"
    raise lines.error_at(at.start, problem)


def _line_end(text: bytes) -> int:
    return 2 if text == b"\r\n" else len(text[:1])


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _blocks(part: RecordFile, csv: Text, span: range | None) -> Iterator[_Lines]:
    for number, text in enumerate(_whole_lines(part, csv, span)):
        yield _Lines(part, csv, span, text, number)


def _whole_lines(part: RecordFile, csv: Text, span: range | None) -> Iterator[bytes]:
    rest, blocks = b"", 0
    for content in _contents(part, csv, span):
        # without usual line ends, all may end as on old Macs; the last byte may be the first of two
        cut = content.rfind(b"\n") + 1 or content.rfind(b"\r", 0, -1) + 1
        if cut:
            yield rest + content[:cut]
            rest, blocks = content[cut:], blocks + 1
            continue
        rest += content
        if len(rest) > _LONGEST:
            what = f"it has more than {_LONGEST >> 20} MiB; check that it is a text file, and table.csv"
            raise _Lines(part, csv, span, rest, blocks).error_at(0, what)
    if rest:
        yield rest


def _contents(part: RecordFile, csv: Text, span: range | None) -> Iterator[bytes]:
    """The bytes of a part in UTF-8; invalid bytes stay and are reported where they are used."""
    encode = codecs.getincrementaldecoder(csv.encoding)("surrogateescape").decode
    try:
        for number, content in enumerate(_bytes(part, span)):
            if number == 0 and (span is None or span.start == 0):
                content = _without_sign(content, part, csv)
            yield content if csv.encoding in _AS_UTF8 else encode(content).encode("utf-8", "surrogateescape")
        encode(b"", True)
    except UnicodeError:
        raise InputError(f"{part} is not {csv.encoding}; name its encoding as table.csv.encoding") from None


def _without_sign(content: bytes, part: RecordFile, csv: Text) -> bytes:
    """The text without a UTF-8 byte order mark; InputError for that of another encoding."""
    is_utf8, sign = csv.encoding in _AS_UTF8, next(filter(content.startswith, _SIGNS), b"")
    if sign and is_utf8 != (sign == codecs.BOM_UTF8) and not csv.encoding.startswith(("utf-16", "utf-32")):
        begun = "UTF-8" if sign == codecs.BOM_UTF8 else "UTF-16"
        raise InputError(f"{part} begins as files in {begun} do, and table.csv.encoding = {csv.encoding!r}; correct it")
    return content.removeprefix(codecs.BOM_UTF8) if is_utf8 else content


def _bytes(part: RecordFile, span: range | None) -> Iterator[bytes]:
    with part.opened() as source, _unpacked(source, part.suffix) as file:
        at, last = 0, b"\n"
        if span is not None and span.start:
            at = span.start - 1
            file.seek(at)
            at += sum(map(len, _line(file)))
        while content := file.read(_BLOCK if span is None else max(0, min(_BLOCK, span.stop - at))):
            at, last = at + len(content), content[-1:]
            if at > _UNPACKED and part.suffix.endswith(_PACKED) and at > _TIMES * (part.size or at):
                raise InputError(
                    f"{part} unpacks to more than {_TIMES} times its size, {at >> 20} MiB by now; unpack it and look "
                    "what it is"
                )
            yield content
        if span is not None and last != b"\n":
            yield from _line(file)


def _line(file: IO[bytes]) -> Iterator[bytes]:
    size = 0
    while (content := file.readline(_BLOCK)) and size <= _LONGEST:
        size = 0 if b"\r" in content else size + len(content)
        yield content
        if content.endswith(b"\n"):
            return


class _Streams:
    """A file of packed streams. Those of the standard library end without a word at what is no stream after one."""

    def __init__(self, file: IO[bytes], new: Callable[[], Any]) -> None:
        self._file, self._new, self._stream = file, new, new()

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end alone; EOFError for a stream that is cut short."""
        found = bytearray()
        while len(found) < size:
            rest = self._stream.unused_data
            if self._stream.eof:
                if not (rest := rest or self._file.read(_BLOCK)):
                    break
                if rest.startswith(b"\0"):
                    name = getattr(self._file, "name", "a packed file")
                    raise InputError(f"{name} has zero bytes after a packed stream; unpack it and pack it again")
                self._stream = self._new()
            elif self._stream.needs_input and not (rest := self._file.read(_BLOCK)):
                raise EOFError("the file ends before the end of its stream")
            found += self._stream.decompress(rest, size - len(found))
        return bytes(found)


@contextmanager
def _unpacked(source: str | IO[bytes], suffix: str) -> Iterator[Any]:
    openers: dict[str, Callable[[Any], Any]] = {
        ".gz": gzip.open,
        ".zst": lambda packed: pa.CompressedInputStream(packed, "zstd"),
        "": partial(open, mode="rb"),
    }
    packed = next(filter(suffix.endswith, _PACKED), "")
    if new := {".bz2": bz2.BZ2Decompressor, ".xz": lzma.LZMADecompressor}.get(packed):
        with open(source, "rb") if isinstance(source, str) else source as file:
            yield _Streams(file, new)
    elif packed or isinstance(source, str):
        with openers[packed](source) as file:
            yield file
    else:
        yield source
