"""The formats that a released sub-table is written in, and which of them a request is answered with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sdc.model.errors import SdcError


class FormatError(SdcError):
    """A format that is not had, or that cannot hold the sub-table as it was asked for."""


@dataclass(frozen=True)
class AnswerFormat:
    """How a sub-table is written: the end of its address, what HTTP calls it, and what a page calls it."""

    suffix: str
    media_type: str
    label: str

    @property
    def range(self) -> str:
        """The media type as `Accept` names it, without parameters."""
        return self.media_type.partition(";")[0]


_ALL = (
    AnswerFormat("json", "application/json", "JSON"),
    AnswerFormat("html", "text/html; charset=utf-8", "HTML"),
    AnswerFormat("txt", "text/plain; charset=utf-8", "Text"),
    AnswerFormat("csv", "text/csv; charset=utf-8", "CSV"),
    AnswerFormat("xml", "application/xml", "XML"),
    # registered nowhere; this is what clients of statistical offices ask for
    AnswerFormat("jsonstat", "application/json-stat+json", "JSON-stat"),
    AnswerFormat("parquet", "application/vnd.apache.parquet", "Parquet"),
    AnswerFormat("px", "application/x-pc-axis; charset=utf-8", "PX"),
    AnswerFormat("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "Excel"),
)

FORMATS: Mapping[str, AnswerFormat] = MappingProxyType({format.suffix: format for format in _ALL})
"""All formats by suffix; of those that a client likes equally well it gets the first."""


def format_of(suffix: str | None, accept: str) -> AnswerFormat:
    """The format by the suffix of the address where it has one, else the one that the header `Accept` likes best.

    JSON where the header says nothing or `*/*`: a browser says that it wants HTML. FormatError where the format is
    unknown, or the header names none that is had; media ranges that cannot be read count for nothing.
    """
    if suffix is not None:
        if suffix not in FORMATS:
            raise FormatError(f"there is no format {suffix[:40]!r}; there are {', '.join(FORMATS)}")
        return FORMATS[suffix]
    ranges = dict(_ranges(accept.strip() or "*/*"))
    best = max(_ALL, key=lambda format: _quality(format, ranges))
    if not _quality(best, ranges):
        had = ", ".join(format.range for format in _ALL)
        raise FormatError(f"Accept: {accept[:200]!r} names no format that is had; there are {had}")
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Media ranges with their weights; RFC 9110, section 12.5.1."""
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weights = [value for key, _, value in (p.partition("=") for p in parameters) if key.strip() == "q"]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            continue
        if 0 <= weight <= 1:
            yield name, weight


def _quality(format: AnswerFormat, ranges: Mapping[str, float]) -> float:
    """The weight of the range that fits best, and not the largest: `text/*, text/csv;q=0` is all text but CSV."""
    fitting = (format.range, format.range.partition("/")[0] + "/*", "*/*")
    return next((ranges[name] for name in fitting if name in ranges), 0.0)
