"""PxWebApi 2 (PxTools/PxApiSpecs, version 2.0) of what is released: list, metadata and selections of tables.

A selection is a view of a public table. It is not a request: nothing is decided, and nothing becomes public by it.
Problems have the types and titles of PxTools/PxWebApi.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain, islice
from math import prod

import numpy as np
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.keys import KeySpace
from sdc.model.recent import Recent
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.publish.formats import CountTable
from sdc.publish.formats import pxapi as documents
from sdc.publish.formats.csv import csv
from sdc.publish.formats.parquet import parquet
from sdc.publish.formats.px import px
from sdc.publish.formats.pxapi import LANGUAGE, Document
from sdc.publish.formats.table import NO_COUNT, Pieces
from sdc.publish.formats.xlsx import xlsx
from sdc.server.service.outcome import SuppressedAnswer
from sdc.server.service.service import Service
from sdc.server.web.answers import PARQUET, XLSX, Answer, Shape, in_file
from sdc.server.web.api import estimated_cells, has_it, public_of
from sdc.server.web.gateway import READS_PER_REQUEST
from sdc.server.web.problems import PX_PREFIX
from sdc.server.web.px_selection import NO_TABLE, Chosen, Codes, fail, number_of, places_of, queried, sent, with_names

MOST_SELECTED = 100_000  # cells of an answer; pxwebpy splits larger selections
MOST_LISTED = 5_000  # tables
PAGE_SIZE, KEPT_BYTES = 20, 256 << 20

OUTPUTS: Mapping[str, tuple[str, str, Callable[[CountTable], Pieces] | None]] = {
    documents.JSON_STAT: ("application/json", "json", None),
    "csv": ("text/csv; charset=utf-8", "csv", csv),
    "px": ("text/plain; charset=utf-8", "px", px),
    "xlsx": (XLSX, "xlsx", lambda table: xlsx([table])),
    "parquet": (PARQUET, "parquet", parquet),
}
"""Media type, suffix and writer of each output format; JSON-stat has one of its own."""


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A public table with its listed cells, which are made with it, and not in the loop of events.

    eliminates  whether sums over each of its variables are public: those of a suppressed table are not
    """

    table: CountTable
    eliminates: bool

    def __post_init__(self) -> None:
        _ = self.table.with_records  # kept from then on

    @property
    def size(self) -> int:
        return sum(own.nbytes for own in self.table.with_records)

    def selected(self, places: Sequence[Codes], called: Mapping[str, str]) -> CountTable:
        """The table of the categories at these places of each variable, every cell listed.

        called  names and labels of the variables: a level stands where its variable stood
        """
        table, space = self.table, KeySpace(tuple(map(len, places)))
        inside = space.unpack(np.arange(space.cells))
        cells = (
            np.stack([own[column] for own, column in zip(places, inside.T, strict=True)], axis=1) if places else inside
        )
        codes, counts = table.with_records
        own = np.append(counts, 0)[table.space.matching(codes, cells)]  # 0 for cells that are not listed
        dimensions = tuple(
            replace(one, name=name, label=label, categories=_at(one.categories, place), labels=_at(one.labels, place))
            for one, place, (name, label) in zip(table.dimensions, places, called.items(), strict=True)
        )
        suppressed = None if table.withheld is None else inside[own == NO_COUNT]
        shown = replace(table, dimensions=dimensions, codes=inside[own > 0], counts=own[own > 0], zeros=True)
        return replace(shown, withheld=suppressed, within=(), whole=None)


def _at(texts: Sequence[str], places: Codes) -> tuple[str, ...]:
    return tuple(texts[place] for place in places)


@dataclass(frozen=True)
class PxApi:
    """The addresses below /pxapi/v2; `now` is for tables of the past days."""

    service: Service
    settings: ServerConfig
    now: Callable[[], datetime]
    kept: Recent[tuple[SubTable, SuppressedTable | None], PublicTable] = field(
        default_factory=lambda: Recent(KEPT_BYTES, lambda found: found.size)
    )
    lists: dict[int, list[tuple[SubTable, str]]] = field(default_factory=dict)

    @property
    def most_cells(self) -> int:
        return min(MOST_SELECTED, self.settings.limits.cells)

    # The documents

    async def config(self, request: Request) -> Response:
        """The limits and formats."""
        calls = READS_PER_REQUEST * self.settings.limits.requests_a_minute
        about = self.service.texts.about
        return _answer(request, documents.config(about, self.most_cells, calls, 60, [*OUTPUTS]))

    async def tables(self, request: Request) -> Response:
        """A page of the public tables whose metadata have every word of the query."""
        size, number = number_of(request, "pageSize", PAGE_SIZE), number_of(request, "pageNumber", 1)
        words, days = {*request.query_params.get("query", "").casefold().split()}, number_of(request, "pastDays", 0)
        found = [one for one, texts in self._listed() if all(word in texts for word in words)]
        if days and not self._is_updated(days):
            found = []
        if number > max(1, -(-len(found) // size)):
            fail("page", f"there is no page {number} of {size} tables each")
        base = self._address(request, "tables/")
        entries = [self._entry(one, base) for one in found[(number - 1) * size : number * size]]
        return _answer(request, documents.listing(entries, number, size, len(found)))

    async def table(self, own_id: str, request: Request) -> Response:
        """What the list says of a table."""
        subtable = self._sub_table(own_id)
        await self._public(subtable)
        return _answer(request, {**self._entry(subtable, self._address(request, "tables/")), "language": LANGUAGE})

    async def metadata(self, own_id: str, request: Request) -> Response:
        """Variables and categories: a dataset of JSON-stat without values."""
        found = await self._public(self._sub_table(own_id))
        return await run_in_threadpool(lambda: _answer(request, documents.metadata(self._head(request, found))))

    async def default_selection(self, own_id: str, request: Request) -> Response:
        """What is answered without a selection: every cell, or as many categories as fit."""
        found = await self._public(self._sub_table(own_id))
        names = [one.name for one in documents.dimensions_of(found.table)]
        chosen = self._default(found.table)
        selection = [
            {"variableCode": v, "codelist": None, "valueCodes": [*values]} for v, (_, values) in chosen.items()
        ]
        many = len(found.table.dimensions)
        link = {"rel": "self", "hreflang": LANGUAGE, "href": str(request.url)}
        placement = {"heading": names[many:], "stub": names[:many]}
        content = {"language": LANGUAGE, "selection": selection, "placement": placement, "links": [link]}
        return _answer(request, content)

    def codelist(self, own_id: str, request: Request) -> Response:
        """The categories of a level, and which of a variable's are in each."""
        schema, named = self.service.schema, self.service.state.named
        coarser = {v: st.members(schema.levels.coarser[v] & named) for v in st.members(named)}
        pairs = [(fine, level) for fine, levels in coarser.items() for level in levels]
        lists = {documents.codelist_id(*(schema.names[v] for v in pair)): pair for pair in pairs}
        if own_id not in lists:
            fail("codelist", "there is no code list of this id")
        fine, level = lists[own_id]
        groups = [schema.levels.groups[v].tolist() for v in (fine, level)]
        within = defaultdict[int, list[str]](list)
        for one, coarse in sorted({*zip(*groups, strict=True)}):
            within[coarse].append(schema.variables[fine].categories[one])
        own, labels = schema.variables[level], self.service.texts.labels
        listed = enumerate(zip(own.categories, labels.categories(own), strict=True))
        values = [{"code": name, "label": label, "valueMap": within[code]} for code, (name, label) in listed]
        content = {
            **self._codelist(request, schema.names[fine], own.name),
            "language": LANGUAGE,
            "languages": [LANGUAGE],
            "elimination": False,
            "values": values,
        }
        return _answer(request, content)

    async def data(self, own_id: str, request: Request) -> Response:
        """The cells of a selection, or without one of the default selection."""
        subtable = self._sub_table(own_id)
        found = await self._public(subtable)
        wanted = await sent(request) if request.method == "POST" else queried(request)
        writer = _output(request)
        if not any(values for _, values in wanted.values()):
            wanted = self._default(found.table)
        return await self._selected(request, subtable, found, wanted, writer)

    async def _selected(
        self, request: Request, subtable: SubTable, found: PublicTable, wanted: Chosen, output: str
    ) -> Response:
        schema, dimensions = self.service.schema, documents.dimensions_of(found.table)
        wanted = with_names(wanted, dimensions, documents.time_of(found.table))
        own = {one.name: wanted.get(one.name, (None, ())) for one in found.table.dimensions}
        levels = {v: self._level(found, v, listed) for v, (listed, _) in own.items() if listed}
        left_out = [v for v, (_, values) in own.items() if not values]
        if left_out and not found.eliminates:
            fail("missing", f"choose values of {left_out[0]!r}: it cannot be left out of this table")
        labels = {one.name: one.label for one in dimensions}
        for one in dimensions[len(own) :]:
            if values := wanted.get(one.name, (None, ()))[1]:
                places_of(one, values)
        if left_out or levels:
            # of a whole table every sum is public
            found = await self._public(st.named([levels.get(v, v) for v in own if v not in left_out], schema))
        of_level = {level: v for v, level in levels.items()}
        names = [of_level.get(one.name, one.name) for one in found.table.dimensions]
        own_id = documents.table_id(st.names(subtable, schema))

        def written() -> Response:
            places = [places_of(one, own[v][1]) for v, one in zip(names, found.table.dimensions, strict=True)]
            if (cells := prod(map(len, places))) > self.most_cells:
                fail("cells", f"{cells} cells are selected, at most {self.most_cells} are answered at once")
            selected = found.selected(places, {v: labels[v] for v in names})
            return _written(request, selected, output, own_id, eliminates=found.eliminates)

        return await run_in_threadpool(written)

    # What is public

    def _sub_table(self, own_id: str) -> SubTable:
        """Of an id; Problem for none, the same as for a table that is not released."""
        names = documents.names_in(own_id) or []
        if len({*names}) < len(names) or not names or not {*names} <= {*self.service.schema.names}:
            fail("table", NO_TABLE)
        subtable = st.named(names, self.service.schema)
        # of two spellings one is an id
        if documents.table_id(st.names(subtable, self.service.schema)) != own_id:
            fail("table", NO_TABLE)
        return subtable

    async def _public(self, subtable: SubTable) -> PublicTable:
        """What is public of a sub-table, whole or suppressed; Problem where nothing is."""
        if not subtable:
            return PublicTable(self._table(subtable, self.service.records), eliminates=True)
        part = None if subtable in self.service.state.released else self.service.state.part(subtable)
        is_known = subtable in self.service.state.released or part is not None
        if is_known and (kept := self.kept.peek((subtable, part))) is not None:
            return kept
        most = self.settings.limits.cells
        if estimated_cells(subtable, self.service.schema, self.service.records, Shape()) > most:
            if is_known:
                fail("cells", f"the table may have more than {most} cells, which this server does not count")
            fail("table", NO_TABLE)
        public = await run_in_threadpool(public_of, self.service, subtable)
        if public is None:
            fail("table", NO_TABLE)
        is_whole = not isinstance(public, SuppressedAnswer)
        found = await run_in_threadpool(lambda: PublicTable(self._table(subtable, public), is_whole))
        return self.kept.get((subtable, part), lambda: found) if is_whole == (part is None) else found

    def _table(self, subtable: SubTable, public: Table | SuppressedAnswer | int) -> CountTable:
        table = Answer(self.service.title, public, Shape(), self.service.texts).table
        return replace(in_file(table), title=self._title(subtable))

    def _title(self, subtable: SubTable) -> str:
        called = ", ".join(self._labels(subtable))
        return f"{self.service.title}: {called}" if called else self.service.title

    def _labels(self, subtable: SubTable) -> list[str]:
        return [self.service.texts.labels.variable(name) for name in st.names(subtable, self.service.schema)]

    def _listed(self) -> list[tuple[SubTable, str]]:
        """The frontier and suppressed tables, then what is within them, as far as a list goes; each with its texts."""
        state, schema, about = self.service.state, self.service.schema, self.service.texts.about
        if state.version not in self.lists:
            largest = [*state.released.frontier, *state.suppressed_tables.views]
            within = chain.from_iterable(st.subsets(one, schema) for one in state.released.frontier)
            found = dict.fromkeys(islice(chain(largest, within), 4 * MOST_LISTED + len(largest)))
            listed = [(one, st.names(one, schema)) for one in found if one][:MOST_LISTED]
            facts = " ".join(about.facts.values())
            self.lists.clear()
            self.lists[state.version] = [
                (one, " ".join((*names, self._title(one), documents.table_id(names), facts)).casefold())
                for one, names in listed
            ]
        return self.lists[state.version]

    def _is_updated(self, days: int) -> bool:
        day = self.service.texts.about.published
        return day is not None and datetime.fromisoformat(day).date() >= (self.now() - timedelta(days)).date()

    def _entry(self, subtable: SubTable, base: str) -> Document:
        names, about = st.names(subtable, self.service.schema), self.service.texts.about
        labels = [*self._labels(subtable), "contents", *(["time"] if about.period else [])]
        return documents.entry(documents.table_id(names), self._title(subtable), labels, about, base)

    def _head(self, request: Request, found: PublicTable) -> Document:
        names = [one.name for one in found.table.dimensions]
        levels = {name: own for name in names if (own := self._levels(found, name).values())}
        lists = {name: [self._codelist(request, name, level) for level in own] for name, own in levels.items()}
        own_id = documents.table_id(names)
        return documents.head(found.table, own_id, eliminates=found.eliminates, codelists=lists)

    def _codelist(self, request: Request, variable: str, level: str) -> Document:
        own_id = documents.codelist_id(variable, level)
        link = {"rel": "metadata", "hreflang": LANGUAGE, "href": self._address(request, f"codelists/{own_id}")}
        label = self.service.texts.labels.variable(level)
        return {"id": own_id, "label": label, "type": "Aggregation", "links": [link]}

    def _level(self, found: PublicTable, variable: str, own_id: str | None) -> str:
        """The level of a code list; Problem for a list that the table has not."""
        if (level := self._levels(found, variable).get(own_id or "")) is None:
            fail("its codelist", f"{variable!r} has no code list of this id here")
        return level

    def _levels(self, found: PublicTable, variable: str) -> dict[str, str]:
        """The levels of a variable by the ids of their code lists; none where sums are not public."""
        schema = self.service.schema
        levels = st.members(schema.levels.coarser[schema.index(variable)]) if found.eliminates else ()
        return {documents.codelist_id(variable, schema.names[v]): schema.names[v] for v in levels}

    def _default(self, table: CountTable) -> Chosen:
        dimensions = documents.dimensions_of(table)
        sizes = [len(one.categories) for one in dimensions]
        while prod(sizes) > self.most_cells:
            longest = sizes.index(max(sizes))
            sizes[longest] = max(1, min(sizes[longest] - 1, self.most_cells * sizes[longest] // prod(sizes)))
        return {one.name: (None, one.categories[:size]) for one, size in zip(dimensions, sizes, strict=True)}

    def _address(self, request: Request, path: str) -> str:
        return f"{self.settings.url or str(request.base_url).rstrip('/')}{PX_PREFIX}/{path}"


# Answers


def _written(request: Request, table: CountTable, output: str, own_id: str, *, eliminates: bool) -> Response:
    media_type, suffix, write = OUTPUTS[output]
    if write is None:
        content = documents.head(table, own_id, eliminates=eliminates)
        return _bytes(request, b"".join(documents.dataset(content, table)), media_type)
    try:
        body = b"".join(write(table))
    except ReleaseError as error:
        fail("format", f"{str(error).partition(';')[0]}; take {documents.JSON_STAT}, csv or parquet")
    name = {"content-disposition": f'attachment; filename="{own_id[:80].replace("~", "_")}.{suffix}"'}
    return _bytes(request, body, media_type, name)


def _output(request: Request) -> str:
    wanted = request.query_params.get("outputFormat") or documents.JSON_STAT
    if wanted not in OUTPUTS:
        fail("format", f"there is no format {wanted[:40]!r}; there are {', '.join(OUTPUTS)}")
    params = {one for text in request.query_params.getlist("outputFormatParams") for one in text.split(",") if one}
    if others := params - {"UseCodes"}:
        fail("format", f"{min(others)[:40]!r} is not available; tables have codes")
    return wanted


def _answer(request: Request, content: Document) -> Response:
    return _bytes(request, documents.dumped(content).encode(), "application/json")


def _bytes(request: Request, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    """With its tag; what is public may become more, so that clients ask again."""
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    own = {"etag": tag, "cache-control": "no-cache", **(headers or {})}
    if request.method == "GET" and has_it(request, tag):
        return Response(status_code=304, headers=own)
    return Response(body, headers=own, media_type=media_type)


def px_routes(service: Service, settings: ServerConfig, now: Callable[[], datetime]) -> APIRouter:
    """All addresses below /pxapi/v2. Their document is that of PxTools/PxApiSpecs."""
    api, router = PxApi(service, settings, now), APIRouter(prefix=PX_PREFIX, include_in_schema=False)
    for path, called, methods in (
        ("/config", api.config, ["GET"]),
        ("/tables", api.tables, ["GET"]),
        ("/tables/{own_id}", api.table, ["GET"]),
        ("/tables/{own_id}/metadata", api.metadata, ["GET"]),
        ("/tables/{own_id}/defaultselection", api.default_selection, ["GET"]),
        ("/tables/{own_id}/data", api.data, ["GET", "POST"]),
        ("/codelists/{own_id}", api.codelist, ["GET"]),
    ):
        router.add_api_route(path, called, methods=methods, response_class=Response, response_model=None)
    return router
