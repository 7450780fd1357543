"""The sections of a config about what was published before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictBool, model_validator

from sdc.config.values import Category, Groups, Placed, Positive, Section, Text
from sdc.run_format import TOTAL


class RelatedVariableConfig(Section):
    """How a variable of an earlier publication is one of the table: by its name, and which categories are in each."""

    of: Text | None = None
    """the variable of the table, where it is not called the same"""
    groups: Groups | None = None
    """its category: [categories of the table]; "*" for all others in one at most"""


class RecordKeyConfig(Section):
    """What shows that records are others: a column that names them, in the table's file and in that of the others."""

    column: Text
    """the column of record identifiers, called so in both"""
    records: Placed
    """the records that the publication is of: a file, a folder of parts, a glob or a URL"""


class EarlierConfig(Section):
    """A publication that readers have already, and how its records relate to those of the table."""

    folder: Placed | None = None
    """a published folder or file, relative to the config, as CSV, Parquet, JSON-stat or PX"""
    entry: Positive | None = None
    """the number of an entry of the ledger, instead of a folder"""
    variables: dict[Text, RelatedVariableConfig] = {}
    """by name in the publication: of and groups, where name or categories differ"""
    where: dict[Text, Annotated[tuple[Category, ...], Field(min_length=1)]] = {}
    """variable: [categories]; it is of the records that have these alone, default of all"""
    disjoint: StrictBool = False
    """true or false: it is of other records, none of which is in the table; refused where its total or its margins are
    those of the table or of one category, unless a key shows it"""
    key: RecordKeyConfig | None = None
    """a section with column and records, which shows that a disjoint publication is of others"""
    total: Category = TOTAL
    """the category that stands for all others of a variable, whose counts are sums"""
    not_totals: dict[Text, tuple[Category, ...]] = {}
    """a list of its categories for each variable that are not totals, though they are called so"""
    code_lists: tuple[Text, ...] = ()
    """of what does not say it, as files by themselves and what version 0.1 published: variables whose categories are
    from a code list, so that one of them may have no record"""

    @model_validator(mode="after")
    def _one_subject(self) -> EarlierConfig:
        if (self.folder is None) == (self.entry is None):
            raise ValueError("give either folder or entry")
        if self.disjoint and (self.where or self.variables):
            raise ValueError("disjoint declares that all records are others; leave where and variables out")
        if self.key is not None and not self.disjoint:
            raise ValueError("key shows that all records are others; add disjoint: true, or leave key out")
        return self

    @property
    def label(self) -> str:
        """As messages name it."""
        return f"entry {self.entry}" if self.folder is None else self.folder

    @property
    def lists_alone(self) -> bool:
        """Whether code lists are all that is said of an entry, which is of the table then."""
        return self.entry is not None and bool(self.code_lists) and not (self.disjoint or self.where or self.variables)

    @property
    def words(self) -> str:
        """What is said of its records and categories; nothing where it is of all records, as they are."""
        said = ["of other records, none of which is in this table"] if self.disjoint else []
        if self.key is not None:
            said.append(f"tested by the column {self.key.column}")
        if self.where:
            chosen = (f"{name} = {' or '.join(own)}" for name, own in self.where.items())
            said.append(f"of the records with {' and '.join(chosen)} alone")
        if self.code_lists:
            said.append(f"with categories of {', '.join(self.code_lists)} from a code list")
        for name, relation in self.variables.items():
            groups = "" if relation.groups is None else f", grouped as {', '.join(relation.groups)}"
            said.append(f"its {name} is {relation.of or name}{groups}")
        return f"{Path(self.label).name}: {'; '.join(said)}" if said else ""
