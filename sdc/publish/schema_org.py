"""The same of a release as its catalogue says, in words of schema.org: Croissant 1.0, and RO-Crate 1.1.

https://docs.mlcommons.org/croissant/docs/croissant-spec.html, https://www.researchobject.org/ro-crate/specification/1.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from sdc.run_format import RO_CRATE, SHA256, SUB_TABLE, is_read

Entity: TypeAlias = dict[str, Any]
MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "csvw": "application/csvm+json",
    "json-stat": "application/json",
    "px": "text/plain",
    "sdmx-csv": "application/vnd.sdmx.data+csv",
    "xml": "application/xml",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
STRUCTURE = ".sdmx.json"
PARQUET = "application/x-parquet"  # as readers of Croissant call it
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            "citeAs",
            "column",
            "equivalentProperty",
            "extract",
            "field",
            "fileObject",
            "fileProperty",
            "fileSet",
            "format",
            "includes",
            "isArray",
            "isLiveDataset",
            "jsonPath",
            "key",
            "md5",
            "parentField",
            "path",
            "recordSet",
            "references",
            "regex",
            "repeated",
            "replace",
            "samplingRate",
            "separator",
            "source",
            "subField",
            "transform",
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}


def media_of(resource: Mapping[str, Any]) -> str | None:
    """What kind of file it is, None of a kind that has no name."""
    if resource["path"].endswith(STRUCTURE):
        return "application/vnd.sdmx.structure+json"
    return MEDIA.get(resource.get("format", ""))


def croissant(metadata: Mapping[str, Any]) -> Entity:
    """Each file with a digest, and of each table its columns, as read from Parquet or else CSV."""
    files = [one for one in metadata["resources"] if "hash" in one]
    # the last of each table, which is Parquet where there is one
    in_order = sorted((one for one in files if is_read(one["path"])), key=lambda one: str(one["format"]))
    read = {tuple(one[SUB_TABLE]): one for one in in_order}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        **_about(metadata),
        "publisher": [{"@type": "sc:Organization", "name": name} for name in _contacts(metadata)],
        "license": [one.get("path") or one.get("title") or one["name"] for one in metadata.get("licenses", ())],
        "distribution": [_file_object(one) for one in files],
        "recordSet": [_record_set(one) for one in read.values()],
    }


def ro_crate(metadata: Mapping[str, Any]) -> Entity:
    """The folder, its files and who answers for it; the file of this is in the folder too, by the name it must have."""
    folder = {"@id": "./", "@type": "Dataset", **_about(metadata)}
    told = [*_licences(metadata), *_publishers(metadata)]
    for what, kind in (("license", "CreativeWork"), ("publisher", "Organization")):
        if found := [{"@id": one["@id"]} for one in told if one["@type"] == kind]:
            folder[what] = found
    files = [{"@id": _id(one), "@type": "File", **_file(one)} for one in metadata["resources"]]
    folder["hasPart"] = [{"@id": one["@id"]} for one in files]
    own = {"@id": RO_CRATE, "@type": "CreativeWork", "about": {"@id": "./"}}
    own["conformsTo"] = {"@id": "https://w3id.org/ro/crate/1.1"}
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": [own, folder, *files, *told]}


def _about(metadata: Mapping[str, Any]) -> Entity:
    """What both say of the whole; without what is not given."""
    told = {
        "name": metadata["title"],
        "description": metadata["description"],
        "identifier": metadata["name"],
        "datePublished": metadata.get("published"),
        "temporalCoverage": metadata.get("period"),
        "keywords": sorted({name for one in metadata["resources"] for name in one.get(SUB_TABLE, ())}),
    }
    return {what: text for what, text in told.items() if text}


def _id(resource: Mapping[str, Any]) -> str:
    return quote(resource["path"])


def _file(resource: Mapping[str, Any]) -> Entity:
    """What it is called and what it is; its digest where it has one."""
    found: Entity = {"name": resource["path"], "contentUrl": _id(resource)}
    found["encodingFormat"] = media_of(resource) or "application/octet-stream"
    if "hash" in resource:
        found |= {"contentSize": f"{resource['bytes']} B", "sha256": resource["hash"].removeprefix(SHA256)}
    return found


def _file_object(resource: Mapping[str, Any]) -> Entity:
    found = {"@type": "cr:FileObject", "@id": _id(resource), **_file(resource)}
    return {**found, "encodingFormat": PARQUET} if resource["format"] == "parquet" else found


def _record_set(resource: Mapping[str, Any]) -> Entity:
    """A record is a cell, and its key are the categories."""
    own, fields = _id(resource).split(".", 1)[0], resource["schema"]["fields"]
    return {
        "@type": "cr:RecordSet",
        "@id": own,
        "name": f"by {', '.join(resource[SUB_TABLE])}",
        "key": [{"@id": f"{own}/{quote(one['name'], safe='')}"} for one in fields if "constraints" in one],
        "field": [_field(own, one, _id(resource)) for one in fields],
    }


def _field(record_set: str, field: Mapping[str, Any], file: str) -> Entity:
    source = {"fileObject": {"@id": file}, "extract": {"column": field["name"]}}
    kind = "sc:Integer" if field["type"] == "integer" else "sc:Text"
    described = {"description": field["title"]} if field.get("title") else {}
    own = f"{record_set}/{quote(field['name'], safe='')}"
    return {"@type": "cr:Field", "@id": own, "name": field["name"], **described, "dataType": kind, "source": source}


def _contacts(metadata: Mapping[str, Any]) -> Iterator[str]:
    return (one["title"] for one in metadata.get("contributors", ()))


def _publishers(metadata: Mapping[str, Any]) -> Iterator[Entity]:
    for number, name in enumerate(_contacts(metadata), start=1):
        yield {"@id": f"#publisher-{number}", "@type": "Organization", "name": name}


def _licences(metadata: Mapping[str, Any]) -> Iterator[Entity]:
    for one in metadata.get("licenses", ()):
        name = one.get("title") or one.get("path") or one["name"]
        yield {"@id": one.get("path") or f"#{quote(one['name'])}", "@type": "CreativeWork", "name": name}
