"""What a release has beside its tables: a page to browse, catalogues for programs, checksums, and what signs them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdc.page_templates import page_templates
from sdc.publish.formats import FORMATS
from sdc.publish.schema_org import croissant, media_of, ro_crate
from sdc.publish.signature import SigningKey
from sdc.publish.statement import checker, descriptor, of_file, passed
from sdc.run_format import (
    CATALOGUE,
    CROISSANT,
    IN_PART,
    INDEX,
    OF_SUMS,
    PUBLIC_KEY,
    RO_CRATE,
    ROUNDED_TO,
    SHA256,
    SIGNATURE,
    STATEMENT,
    SUB_TABLE,
    SUMS,
    WITHHELD_STATUS,
)

_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "spdx": "http://spdx.org/rdf/terms#",
    "foaf": "http://xmlns.com/foaf/0.1/",
}
_TEMPLATES = page_templates("sdc.publish")


def catalogue_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The catalogues and the page, by name, from what the release says of itself and nothing else."""
    catalogues = {CATALOGUE: _dcat(metadata), CROISSANT: croissant(metadata), RO_CRATE: ro_crate(metadata)}
    texts = {name: json.dumps(content, ensure_ascii=False, indent=1) + "\n" for name, content in catalogues.items()}
    return {**texts, INDEX: _page(metadata)}


def sums_files(folder: Path, key: SigningKey | None, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The checksums of all files that are there, and what signs them, by name."""
    files = [of_file(path, path.name) for path in sorted(folder.iterdir()) if path.name not in OF_SUMS]
    # as sha256sum has them, so that `sha256sum -c SHA256SUMS` checks a download
    sums = "".join(f"{file['digest']['sha256']}  {file['name']}\n" for file in files)
    if key is None:
        return {SUMS: sums}
    said = {what: metadata[what] for what in ("title", "period") if what in metadata}
    of_sums = descriptor(SUMS, hashlib.sha256(sums.encode()).hexdigest(), said)
    statement = passed(key, [of_sums, *files], [checker()])
    return {SUMS: sums, SIGNATURE: key.signature(sums.encode()), PUBLIC_KEY: key.public, STATEMENT: statement}


def _labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What variables are called, of those that have a label."""
    fields = (field for one in metadata["resources"] for field in one.get("schema", {}).get("fields", ()))
    return {field["name"]: field["title"] for field in fields if field.get("title")}


def _dcat(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """DCAT 3: a catalogue of one dataset, each file a distribution."""
    dataset: dict[str, Any] = {
        "@type": "dcat:Dataset",
        "dcterms:title": metadata["title"],
        "dcterms:description": metadata["description"],
        "dcterms:identifier": metadata["name"],
        **_told(metadata),
        "dcat:distribution": [_distribution(resource) for resource in metadata["resources"]],
    }
    return {
        "@context": _CONTEXT,
        "@type": "dcat:Catalog",
        "dcterms:title": metadata["title"],
        "dcat:dataset": [dataset],
    }


def _told(metadata: Mapping[str, Any]) -> dict[str, Any]:
    licences = [one.get("path") or one.get("title") or one["name"] for one in metadata.get("licenses", ())]
    contact = [{"@type": "foaf:Agent", "foaf:name": one["title"]} for one in metadata.get("contributors", ())]
    told = {
        "dcterms:temporal": metadata.get("period"),
        "dcterms:issued": metadata.get("published"),
        "dcterms:source": [one["title"] for one in metadata.get("sources", ())],
        "dcterms:license": licences,
        "dcat:contactPoint": contact,
        "dcat:keyword": sorted({name for one in metadata["resources"] for name in one.get(SUB_TABLE, ())}),
    }
    return {key: value for key, value in told.items() if value}


def _distribution(resource: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": "dcat:Distribution", "dcat:downloadURL": resource["path"]}
    if (media := media_of(resource)) is not None:
        found["dcat:mediaType"] = media
    if SUB_TABLE in resource:
        found["dcterms:title"] = f"by {', '.join(resource[SUB_TABLE])}" + _in_part(resource)
    if "hash" in resource:
        checksum = {"spdx:algorithm": "SHA256", "spdx:checksumValue": resource["hash"].removeprefix(SHA256)}
        found |= {"dcat:byteSize": resource["bytes"], "spdx:checksum": {"@type": "spdx:Checksum", **checksum}}
    return found


def _in_part(resource: Mapping[str, Any]) -> str:
    """How much of a table is withheld, where some of it is."""
    told = resource.get(IN_PART)
    if told is None:
        return ""
    if ROUNDED_TO in told:
        return f" (rounded to multiples of {told[ROUNDED_TO]:,})"
    return f" (in part: {told[WITHHELD_STATUS]:,} of {told['cells']:,} cells withheld)"


def _page(metadata: Mapping[str, Any]) -> str:
    """A table of the tables, to be sorted and searched in, with links to their files; nothing is from elsewhere."""
    tables: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    others = []
    for resource in metadata["resources"]:
        if SUB_TABLE in resource:
            tables.setdefault(tuple(resource[SUB_TABLE]), []).append(resource)
        else:
            others.append(resource)
    called = _labels(metadata)
    rows = [
        ((", ".join(called.get(name, name) for name in names) or "total") + _in_part(files[0]), len(names), files)
        for names, files in tables.items()
    ]
    labels = {name: one.label for name, one in FORMATS.items()}
    said = {"Population": "population", "Period": "period", "Published": "published"}
    facts = [(what, metadata[key]) for what, key in said.items() if metadata.get(key)]
    for what, key in (("Source", "sources"), ("Licence", "licenses"), ("Contact", "contributors")):
        facts += [(what, one.get("title") or one.get("path") or one["name"]) for one in metadata.get(key, ())]
    return _TEMPLATES.get_template("index.html.j2").render(
        metadata=metadata, rows=rows, labels=labels, facts=facts, others=others, catalogue=CATALOGUE, sums=SUMS
    )
