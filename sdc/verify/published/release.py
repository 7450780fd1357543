"""Read release/ back and compare it with the table and the certificate, without the writers' code."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sdc import run_format as names
from sdc.verify.core.levels import SubTable, check, keys_of, size_of
from sdc.verify.core.proof import EvidenceFolder, Fact, folded, is_within
from sdc.verify.core.weighted import NO_TOTALS, Totals, read_totals, rounded
from sdc.verify.published.formats import Cell, Cells, check_formats, stem_of, totals_of
from sdc.verify.published.page import why_not_of
from sdc.verify.published.pxapi import is_of_api
from sdc.verify.published.signed import check_signature, check_statement, check_sums, digest_of, files_below, key_of
from sdc.verify.published.texts import check_texts, texts_by, texts_in


def check_release(evidence: EvidenceFolder) -> tuple[list[SubTable], bool]:
    """Check that release/ has exact marginals and rounded totals of weights only; return its sub-tables, and if it has
    counts.

    Each sub-table is there at least as CSV or Parquet.
    """
    totals = read_totals(evidence)
    metadata = evidence.read_json(names.RELEASE, names.METADATA)
    listed_tables = [resource for resource in metadata["resources"] if names.SUB_TABLE in resource]
    tables = [resource for resource in listed_tables if names.IN_PART not in resource]
    public = evidence.levels.subtables([table[names.SUB_TABLE] for table in tables])
    # a level tried for recoding may follow from an earlier publication
    evidence.hidden -= evidence.tried.intersection([v for of in public for v in evidence.levels.finest(of)])
    listed_cells = _check_parts(evidence, metadata, [one for one in listed_tables if names.IN_PART in one], public)
    others = [one for one in metadata["resources"] if one["path"] in names.OF_ALL_TABLES or is_of_api(one)]
    listed = {names.METADATA, names.DICTIONARY, names.GUIDE, *(file["path"] for file in [*listed_tables, *others])}
    listed |= {*names.CATALOGUES, names.INDEX, names.SUMS, *names.SIGNED}
    check(metadata["records"] == evidence.total, f"{metadata['records']} records, the table has {evidence.total}")
    check(files_below(evidence.path.parent) <= listed, "a file is not a table that it lists")
    # computed once for all files of a sub-table
    marginal = lru_cache(maxsize=1)(lambda subtable: _listed(evidence, subtable, metadata))
    for file in [*listed_tables, *others]:
        same = names.SHA256 + digest_of(evidence.file(names.RELEASE, file["path"])) == file["hash"]
        check(same, f"{evidence.path} is not the exact marginal of the table")
    read = [(t["path"], of) for t, of in zip(tables, public, strict=True) if names.is_read(t["path"])]
    counted = [_is_counted(evidence, path, of, marginal(of), totals) for path, of in read]
    unread = [evidence.levels.label(subtable) for subtable in {*public} - {subtable for _, subtable in read}]
    check(not unread, f"no CSV or Parquet file is of {min(unread, default='')}, so that it cannot be verified")
    if all(counted):
        for stem, of in {stem_of(path): of for path, of in read}.items():
            *columns, counts = marginal(of).values()
            cells = zip(zip(*columns, strict=True), map(int, counts), strict=True)
            listed_cells[stem] = evidence.levels.finest(of), dict(cells)
        check_formats(partial(evidence.file, names.RELEASE), [*listed_tables, *others], listed_cells)
    check(metadata.get("weighted") == _metadata_of(totals), "its entry on weights is wrong")
    shown = [*public, *(fact.view for fact in evidence.in_part.facts)]
    own = {v for v, c in evidence.categories.items() if any(" or " in label or " to " in label for label in c)}
    own |= frozenset[str]().union(*(fact.view for fact in evidence.in_part.facts))
    own &= frozenset[str]().union(*shown) & frozenset[str]().union(
        *(evidence.levels.implied[v] for v in evidence.listed)
    )
    lists = [] if evidence.recorded_lists is None else [v for v in evidence.categories if v in own - evidence.hidden]
    check(metadata.get(names.CODE_LISTS, []) == lists, "its code lists are wrong")
    check(metadata.get(names.LEVELS, []) == _levels(evidence, shown), "its levels are wrong")
    _check_sums(evidence)
    page = evidence.file(names.RELEASE, names.INDEX)
    check(not (why := why_not_of(page.read_text(encoding="utf-8"), metadata)), f"{evidence.path} {why}")
    _check_texts(evidence, metadata, frozenset[str]().union(*shown) - evidence.hidden)
    # beside weights, no file at all has no counts
    return public, all(counted) and bool(counted or totals is NO_TOTALS)


def _check_parts(
    evidence: EvidenceFolder, metadata: dict[str, Any], resources: list[dict[str, Any]], public: list[SubTable]
) -> dict[str, tuple[list[str], Cells]]:
    """Each suppressed table is published as CSV or Parquet with all its cells but the suppressed ones.

    Returns variables and cells by stem.
    """
    listed = dict[str, tuple[list[str], Cells]]()
    views = {evidence.levels.closed(fact.view - evidence.hidden): fact for fact in evidence.in_part.facts}
    totals, zeros = (metadata.get(what) is True for what in (names.TOTALS, names.ZEROS))
    found = evidence.levels.subtables([resource[names.SUB_TABLE] for resource in resources])
    check({*found} == {*views}, "the suppressed tables are not those of the certificate")
    rounded = {evidence.levels.closed(view - evidence.hidden): own for view, own in evidence.in_part.rounded.items()}
    suppressed = {view: fact for view, fact in views.items() if view not in rounded}
    read = {view for resource, view in zip(resources, found, strict=True) if names.is_read(resource["path"])}
    check(read == {*views}, "a suppressed table is missing as CSV or Parquet, so that it cannot be verified")
    for resource, view in zip(resources, found, strict=True):
        own = evidence.levels.finest(view)
        size = int(np.prod([len(evidence.categories[v]) for v in own]))
        content: dict[str, Any] = {"cells": size, names.WITHHELD_STATUS: len(views[view].cells[own[0]])}
        if view in rounded:
            margins = [evidence.levels.finest(margin - evidence.hidden) for margin in rounded[view].margins]
            content = {"cells": size, names.ROUNDED_TO: rounded[view].base, names.MARGINS: margins}
        check(resource[names.IN_PART] == content, f"{resource['path']}: its numbers of cells are wrong")
        if not names.is_read(resource["path"]):
            continue
        columns = evidence.read_columns(names.RELEASE, resource["path"])
        written = names.in_csv if evidence.path.suffix == ".csv" else str
        every = product(*([*evidence.categories[v], *([names.TOTAL] if totals else [])] for v in own))
        if view in rounded:
            cells = ([evidence.categories[v][c] for c in views[view].cells[v]] for v in own)
            near = _added(zip(*cells, views[view].high - rounded[view].base + 1, strict=True), totals)
            expected = [(*map(written, cell), str(near[cell])) for cell in every if zeros or near[cell]]
            measures = [f"{names.ROUNDED_COUNT}{rounded[view].base}"]
            listed[stem_of(resource["path"])] = own, {**near}
        else:
            listed_cells = _listed_in_part(evidence, view, suppressed, public, totals)
            shown = {cell: listed_cells.get(cell, 0) for cell in every if zeros or listed_cells.get(cell, 0) != 0}
            content_of = {cell: ("", names.WITHHELD_STATUS) if n is None else (str(n), "") for cell, n in shown.items()}
            expected = [(*map(written, cell), *content) for cell, content in content_of.items()]
            measures = [names.COUNT, names.STATUS]
            listed[stem_of(resource["path"])] = own, listed_cells
        check([*columns] == [*own, *measures], f"{evidence.path} has other columns")
        texts = (["" if x is None else str(x) for x in column.to_pylist()] for column in columns.values())
        check([*zip(*texts, strict=True)] == expected, f"{evidence.path} is not the suppressed marginal")
    return listed


def _listed_in_part(
    evidence: EvidenceFolder, view: SubTable, parts: Mapping[SubTable, Fact], public: list[SubTable], totals: bool
) -> dict[Cell, int | None]:
    """The count of each cell with records and of each listed total; None if suppressed.

    A total is given if none of its cells is suppressed, or if another public sub-table gives it.
    """
    own = evidence.levels.finest(view)
    listed_cells: dict[Cell, int | None] = {**_added(zip(*_marginal(evidence, view).values(), strict=True), totals)}
    hidden = zip(*([evidence.categories[v][c] for c in parts[view].cells[v]] for v in own), strict=True)
    suppressed = {total for cell in hidden for total in totals_of(cell, totals)}
    smaller = [one for one in parts if {*evidence.levels.finest(one)} < {*own}]
    for other in smaller:
        place = [own.index(v) for v in evidence.levels.finest(other)]
        listed = _listed_in_part(evidence, other, parts, public, totals)
        without = [k for k in range(len(own)) if k not in place]
        suppressed = {
            cell
            for cell in suppressed
            if any(cell[k] != names.TOTAL for k in without) or listed.get(tuple(cell[k] for k in place), 0) is None
        }
    for total in suppressed:
        variables = [v for v, category in zip(own, total, strict=True) if category != names.TOTAL]
        if not is_within(evidence.levels.closed(frozenset(variables)), [frozenset(), *public]):
            listed_cells[total] = None
    return listed_cells


def _added(rows: Iterable[tuple[Any, ...]], totals: bool) -> Counter[Cell]:
    """The count of each cell and of each listed total, from the categories and the count of each cell."""
    found = Counter[Cell]()
    for *cell, count in rows:
        for total in totals_of(cell, totals):
            found[total] += int(count)
    return found


def _check_texts(evidence: EvidenceFolder, metadata: dict[str, Any], published: SubTable) -> None:
    """Labels, titles and texts in each file are those of the config in the manifest."""
    config = evidence.read_json(names.MANIFEST, version=names.MANIFEST_FORMAT)["config"]
    evidence.file(names.RELEASE, names.METADATA)
    categories = {v: own for v, own in evidence.categories.items() if v in published}
    listed_cells, own = texts_by(metadata), texts_in(config, categories)
    same = listed_cells == own._replace(variables={v: own.variables[v] for v in listed_cells.variables})
    check(same, "it has other labels, titles or texts than the config")
    check_texts(partial(evidence.file, names.RELEASE), metadata, own)


def _levels(evidence: EvidenceFolder, public: list[SubTable]) -> list[dict[str, Any]]:
    """Each published level by each finest published variable that implies it: which category is in which."""
    published, found = frozenset[str]().union(*public) - evidence.hidden, list[dict[str, Any]]()
    for axis in evidence.axes:
        for fine in evidence.levels.finest(published & evidence.levels.implied[axis]):
            for level in (v for v in evidence.categories if v in published & evidence.levels.implied[fine] - {fine}):
                within = dict(enumerate(evidence.levels.group(fine, level).tolist()))
                categories = {evidence.categories[fine][c]: evidence.categories[level][g] for c, g in within.items()}
                found.append({"variable": level, "of": fine, "categories": categories})
    return found


def _check_sums(evidence: EvidenceFolder) -> None:
    """The checksums list every other file; the signatures, if any, are of the checksums."""
    folder = evidence.file(names.RELEASE, names.SUMS).parent
    listed = check_sums(folder)
    if not any((folder / name).exists() for name in names.SIGNED):
        return
    key = key_of(evidence.file(names.RELEASE, names.PUBLIC_KEY).read_bytes())
    evidence.file(names.RELEASE, names.SIGNATURE)
    check_signature(folder, key, f"the key in {names.PUBLIC_KEY}")
    evidence.file(names.RELEASE, names.STATEMENT)
    check_statement(folder, key, listed)


def _is_counted(
    evidence: EvidenceFolder, path: str, subtable: SubTable, marginal: dict[str, list[str]], totals: Totals
) -> bool:
    """Whether a file has counts; its content is compared value by value."""
    columns = evidence.read_columns(names.RELEASE, path)
    written = names.in_csv if evidence.path.suffix == ".csv" else str
    expected = {v: [*map(written, column)] for v, column in marginal.items()}
    if names.WEIGHTED_TOTAL in columns:
        expected[names.WEIGHTED_TOTAL] = _totals_of(evidence, totals, subtable)
        if names.COUNT not in columns:
            del expected[names.COUNT]
    is_exact = {v: [*map(str, column)] for v, column in columns.items()} == expected
    check(is_exact, f"{evidence.path} is not the exact marginal of the table")
    return names.COUNT in columns


def _metadata_of(totals: Totals) -> dict[str, int] | None:
    if totals.weights is None:
        return None
    found = {"round": totals.base // names.UNIT}
    if frozenset() in totals.of:
        found["total"] = rounded(int(totals.weights.sum()), totals.base) // names.UNIT
    return found


def _listed(evidence: EvidenceFolder, subtable: SubTable, metadata: dict[str, Any]) -> dict[str, list[str]]:
    cells = _marginal(evidence, subtable)
    totals, zeros = (metadata.get(what) is True for what in (names.TOTALS, names.ZEROS))
    if not totals and not zeros:
        return cells
    added = _added(zip(*cells.values(), strict=True), totals)
    every = product(*([*evidence.categories[v], *([names.TOTAL] if totals else [])] for v in cells if v in subtable))
    rows = [(*cell, str(added[cell])) for cell in every if zeros or cell in added]
    return dict(zip(cells, map(list, zip(*rows, strict=True)), strict=True)) if rows else cells


def _totals_of(evidence: EvidenceFolder, totals: Totals, subtable: SubTable) -> list[str]:
    """The expected totals of a sub-table, for each cell with records, in order."""
    path: Path = evidence.path
    check(subtable in totals.of, f"{path} has totals of weights, which were not judged")
    columns = evidence.levels.columns(evidence.table, subtable)
    sums = folded(np.add, columns, 0 * totals.weights, totals.weights)
    group = keys_of(columns, 0 * totals.weights)
    _, first = np.unique(group, return_index=True)
    return [str(total // names.UNIT) for total in rounded(sums[first], totals.base)]


def _marginal(evidence: EvidenceFolder, subtable: SubTable) -> dict[str, list[str]]:
    columns = {v: evidence.table[v] for v in evidence.levels.finest(subtable)}
    group = keys_of(columns.values(), 0 * evidence.counts)
    rows, counts = np.full(size_of(group), -1), np.zeros(size_of(group), np.int64)
    rows[group] = np.arange(len(group))  # some row of each cell
    np.add.at(counts, group, evidence.counts)
    named = {v: [evidence.categories[v][code] for code in codes[rows[rows >= 0]]] for v, codes in columns.items()}
    return {**named, names.COUNT: [*map(str, counts[rows >= 0])]}
