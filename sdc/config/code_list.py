"""A code list: labels of variables and categories in a CSV file with the columns variable, category, label."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from sdc.config.publication import LabelsConfig
from sdc.model.errors import ConfigError

COLUMNS = ("variable", "category", "label")
Row: TypeAlias = tuple[str, str, str]


def with_code_list(labels: LabelsConfig, path: Path) -> LabelsConfig:
    """The labels with those of the file, which is no longer named: what is in it counts, and not where it lies.

    ConfigError where the file is no code list, or labels what has a label already.
    """
    content = labels.model_dump(exclude={"code_list"})
    for line, (variable, category, label) in _rows(path):
        section = content["variables"].setdefault(variable, {})
        place, key = (section.setdefault("categories", {}), category) if category else (section, "label")
        if place.get(key) is not None:
            what = f"category {category!r} of variable {variable!r}" if category else f"variable {variable!r}"
            raise ConfigError(f"code list {path}, line {line}: {what} has the label {place[key]!r} already; drop one")
        place[key] = label
    return LabelsConfig.model_validate(content)


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            if tuple(header := next(lines, [])) != COLUMNS:
                raise ConfigError(f"code list {path} has the columns {header}; give it {', '.join(COLUMNS)}")
            yield from ((lines.line_num, _row(row, path, lines.line_num)) for row in lines if row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"code list {path} cannot be read: {error}; give a CSV file in UTF-8") from error


def _row(row: list[str], path: Path, line: int) -> Row:
    if len(row) != len(COLUMNS) or not row[0] or not row[2]:
        raise ConfigError(
            f"code list {path}, line {line} is {row}; give a variable, a category or nothing for the variable itself, "
            "and a label"
        )
    variable, category, label = row
    return variable, category, label
