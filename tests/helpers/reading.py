"""Records read by the process of a test: each refusal ends the child that reads, and another takes long to start."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sdc.data.child import RecordFile
from sdc.data.reader import MOST, READER, Reader
from sdc.data.source import SourcePart, is_url, readable
from sdc.model.errors import InputError

BY_CHILDREN = ("tests/system/", "tests/unit/data/test_reader.py", "tests/unit/data/test_awkward.py")
"""Where children are what is tested, or read what may harm a process."""


def each_here(
    function: Callable[..., Any], pieces: Sequence[tuple[SourcePart, Sequence[Any]]], room: int = MOST
) -> Iterator[tuple[SourcePart, Any]]:
    """`READER.each` of files, in this process."""
    if any(is_url(part.url) for part, _ in pieces):
        yield from Reader.each(READER, function, pieces, room)
        return
    for part, arguments in pieces:
        try:
            with readable(part.url):
                found = function(RecordFile(part.url, part.size, part.suffix), *arguments)
                if isinstance(found, Iterator):
                    yield from ((part, batch) for batch in found)
                    found = None
        except InputError as refusal:
            part.require_unchanged(refusal)
            raise
        part.require_unchanged()
        yield part, found
