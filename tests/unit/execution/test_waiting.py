"""What is said while workers are waited for."""

from sdc.events import EXECUTION, EventText, heard
from sdc.execution.connection import Waiting


def test_what_is_waited_for_is_told_once_a_minute_and_when_it_changes() -> None:
    now, lines = [0.0], list[str]()
    with heard(EventText(lines.append), EXECUTION):
        waiting = Waiting(100, lambda: now[0])
        for at in range(0, 80, 10):
            now[0] = at
            waiting.emit("no worker yet", "Priority" if at == 70 else "Resources")
    assert lines == [
        "no worker yet (Resources); waiting, 0 s of 100 s",
        "no worker yet (Resources); waiting, 60 s of 100 s",
        "no worker yet (Priority); waiting, 70 s of 100 s",
    ]
    assert waiting.seconds_left == 30
