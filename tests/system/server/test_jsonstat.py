"""JSON-stat of released sub-tables, read back by a library of others."""

from __future__ import annotations

import pytest
from hypothesis import given

from sdc.server.web.answers import Answer
from tests.unit.server.test_answers import CHUNKS, answers, expected, written

pyjstat = pytest.importorskip("pyjstat.pyjstat")


@given(answers(), CHUNKS)
def test_what_is_read_back_is_what_was_counted(answer: Answer, chunk: int) -> None:
    frame = pyjstat.Dataset.read(written(answer, "jsonstat", chunk).decode()).write("dataframe", naming="id")
    rows = [(*row[:-1], 0 if row[-1] is None or row[-1] != row[-1] else int(row[-1])) for row in frame.values.tolist()]
    assert [row for row in rows if row[-1] or answer.shape.zeros] == expected(answer)
