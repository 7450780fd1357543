"""The panels of `sdc --help`: each groups the commands of one kind of work, under a heading that says for whom."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

BUILD, INSPECT, PROTECT, PUBLISH, SERVE, MAINTAIN = PANELS = (
    "Build a release (statisticians)",
    "Inspect tables, releases and runs (statisticians, auditors)",
    "Protect one table (statisticians)",
    "Publish and verify (publishers, auditors)",
    "Serve tables on request (operators of a server, auditors)",
    "Maintain an installation (administrators)",
)


def _panel(command: Any) -> str:
    return str(command.rich_help_panel)


class Panels(TyperGroup):
    """Lists the commands panel by panel, as plain text, with the whole first sentence of each."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict(sorted(self.commands.items(), key=lambda item: PANELS.index(_panel(item[1]))))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for panel in PANELS:
            rows = [
                (name.ljust(width), command.get_short_help_str(limit=formatter.width))
                for name, command in self.commands.items()
                if _panel(command) == panel
            ]
            with formatter.section(panel):
                formatter.write_dl(rows)
