"""Files beside the tables of a release: a page, catalogues for programs, checksums and signatures.

The catalogues are DCAT, Croissant 1.0 and RO-Crate 1.1 in words of schema.org:
https://docs.mlcommons.org/croissant/docs/croissant-spec.html, https://www.researchobject.org/ro-crate/specification/1.1
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from sdc.canonical import canonical
from sdc.model.errors import ConfigError
from sdc.page_templates import page_templates
from sdc.paths import require_own
from sdc.publish.formats import FORMATS
from sdc.publish.formats.table import is_taken_otherwise
from sdc.run_format import (
    CATALOGUE,
    CHECKER,
    CROISSANT,
    IN_PART,
    INDEX,
    OF_SUMS,
    PASSED,
    PAYLOAD_TYPE,
    PUBLIC_KEY,
    RESULT_TYPE,
    RO_CRATE,
    ROUNDED_TO,
    SDMX_STRUCTURE,
    SHA256,
    SIGNATURE,
    STATEMENT,
    STATEMENT_TYPE,
    SUB_TABLE,
    SUMS,
    WITHHELD_STATUS,
    is_read,
    is_shown,
)
from sdc.version import VERSION


@dataclass(frozen=True)
class SigningKey:
    """A private key; its repr hides it."""

    _key: Ed25519PrivateKey = field(repr=False)

    @staticmethod
    def read(path: Path) -> SigningKey:
        """Read a PEM or OpenSSH file without a password; ConfigError for any other, InputError as `require_own`."""
        setting = f"publication.signing_key = {str(path)!r}"
        require_own(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{setting} cannot be read: {error.strerror}; name a file with the private key"
            ) from error
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else load_pem_private_key
        try:
            key = load(content, None)
        except TypeError as error:
            raise ConfigError(f"{setting} is encrypted; name a key without a password") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ConfigError(
                f"{setting} is not a private key; make one with openssl genpkey -algorithm ed25519"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{setting} is of another kind; make one with openssl genpkey -algorithm ed25519")
        return SigningKey(key)

    def signature(self, content: bytes) -> str:
        """The 64-byte signature in base64, with a line feed."""
        return base64.b64encode(self._key.sign(content)).decode() + "\n"

    @property
    def keyid(self) -> str:
        """The id of the public key in an envelope: SHA-256 of its DER."""
        key = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(key).hexdigest()

    @property
    def public(self) -> str:
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


Descriptor = Mapping[str, Any]
"""An in-toto resource descriptor: name, digest and annotations of a file."""


def descriptor(name: str, sha256: str, annotations: Mapping[str, Any] | None = None) -> Descriptor:
    """The descriptor of content with this digest."""
    return {"name": name, "digest": {"sha256": sha256}} | ({"annotations": annotations} if annotations else {})


def of_file(path: Path, name: str, annotations: Mapping[str, Any] | None = None) -> Descriptor:
    """The descriptor of a file."""
    with path.open("rb") as content:
        return descriptor(name, hashlib.file_digest(content, "sha256").hexdigest(), annotations)


def checker(code: str | None = None) -> Descriptor:
    """This software: its version, and the digest of its code if available."""
    return {"name": "sdc", "uri": f"{CHECKER}{VERSION}"} | ({"digest": {"sha256": code}} if code else {})


def passed(key: SigningKey, subjects: Sequence[Descriptor], configuration: Sequence[Descriptor]) -> str:
    """One line: the signed envelope of a statement that the subjects passed the checks so configured."""
    predicate = {"result": PASSED, "configuration": configuration}
    content = {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": RESULT_TYPE, "predicate": predicate}
    payload = canonical(content).encode()
    signed = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    signature = {"keyid": key.keyid, "sig": key.signature(signed).strip()}
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return canonical(envelope) + "\n"


Entity: TypeAlias = dict[str, Any]
PARQUET = "application/x-parquet"  # the name in Croissant
_WORDS = """
citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isArray
isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate
separator source subField transform
"""  # of Croissant
_OF_CROISSANT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{name: f"cr:{name}" for name in _WORDS.split()},
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
    """The media type of a file; None for an unknown kind."""
    if resource["path"].endswith(SDMX_STRUCTURE):
        return "application/vnd.sdmx.structure+xml;version=2.1"
    found = FORMATS.get(resource.get("format", ""))
    return None if found is None else found.media


def size_of(resource: Mapping[str, Any]) -> int:
    """The bytes of a file."""
    return int(resource.get("bytes", resource.get("size", 0)))


def croissant(metadata: Mapping[str, Any]) -> Entity:
    """Each file with a digest, and the columns of each table: of its Parquet file, or of CSV that keeps its texts."""
    files = [one for one in metadata["resources"] if "hash" in one]
    # the last file of a table, Parquet if it exists
    in_order = sorted((one for one in files if is_read(one["path"])), key=lambda one: str(one["format"]))
    read = {tuple(one[SUB_TABLE]): one for one in in_order}
    return {
        "@context": _OF_CROISSANT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        **_about(metadata),
        "publisher": [{"@type": "sc:Organization", "name": name} for name in _called(metadata, "contributors")],
        "license": _called(metadata, "licenses"),
        "distribution": [_file_object(one) for one in files],
        "recordSet": [_record_set(one) for one in read.values() if _is_kept(one)],
    }


def _is_kept(resource: Mapping[str, Any]) -> bool:
    """Whether a reader of Croissant, which guesses the types of CSV, has each category and count as it is."""
    listed = (one["constraints"]["enum"] for one in resource["schema"]["fields"] if "constraints" in one)
    texts = (category for categories in listed for category in categories)
    return resource["format"] == "parquet" or not (IN_PART in resource or any(map(is_taken_otherwise, texts)))


def ro_crate(metadata: Mapping[str, Any]) -> Entity:
    """The folder, its files and the publisher. The crate's own file must have the name `ro-crate-metadata.json`."""
    folder = {"@id": "./", "@type": "Dataset", **_about(metadata)}
    named = zip(metadata.get("licenses", ()), _called(metadata, "licenses"), strict=True)
    ids = [(one.get("path") or f"#{quote(one['name'])}", "CreativeWork", name) for one, name in named]
    publishers = enumerate(_called(metadata, "contributors"), start=1)
    ids += [(f"#publisher-{number}", "Organization", name) for number, name in publishers]
    facts = [{"@id": own, "@type": kind, "name": name} for own, kind, name in ids]
    for what, kind in (("license", "CreativeWork"), ("publisher", "Organization")):
        if found := [{"@id": own} for own, of, _ in ids if of == kind]:
            folder[what] = found
    files = [{"@id": _id(one), "@type": "File", **_file(one)} for one in metadata["resources"]]
    folder["hasPart"] = [{"@id": one["@id"]} for one in files]
    own = {"@id": RO_CRATE, "@type": "CreativeWork", "about": {"@id": "./"}}
    own["conformsTo"] = {"@id": "https://w3id.org/ro/crate/1.1"}
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": [own, folder, *files, *facts]}


def _about(metadata: Mapping[str, Any]) -> Entity:
    facts = {
        "name": metadata["title"],
        "description": metadata["description"],
        "identifier": metadata["name"],
        "datePublished": metadata.get("published"),
        "temporalCoverage": metadata.get("period"),
        "keywords": sorted({name for one in metadata["resources"] for name in one.get(SUB_TABLE, ())}),
    }
    return {what: text for what, text in facts.items() if text}


def _id(resource: Mapping[str, Any]) -> str:
    return quote(resource["path"])


def _file(resource: Mapping[str, Any]) -> Entity:
    found: Entity = {"name": resource["path"], "contentUrl": _id(resource)}
    found["encodingFormat"] = media_of(resource) or "application/octet-stream"
    if "hash" in resource:
        found |= {"contentSize": f"{size_of(resource)} B", "sha256": resource["hash"].removeprefix(SHA256)}
    return found


def _file_object(resource: Mapping[str, Any]) -> Entity:
    found = {"@type": "cr:FileObject", "@id": _id(resource), **_file(resource)}
    return {**found, "encodingFormat": PARQUET} if resource["format"] == "parquet" else found


def _record_set(resource: Mapping[str, Any]) -> Entity:
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


def _called(metadata: Mapping[str, Any], key: str) -> list[str]:
    """The sources, licences or contacts; a licence has an address, a title or a name."""
    return [one.get("path") or one.get("title") or one["name"] for one in metadata.get(key, ())]


_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "spdx": "http://spdx.org/rdf/terms#",
    "foaf": "http://xmlns.com/foaf/0.1/",
}
_TEMPLATES = page_templates("sdc.publish")


def catalogue_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The catalogues and the page by name, from the metadata of the release alone."""
    catalogues = {CATALOGUE: _dcat(metadata), CROISSANT: croissant(metadata), RO_CRATE: ro_crate(metadata)}
    texts = {name: json.dumps(content, ensure_ascii=False, indent=1) + "\n" for name, content in catalogues.items()}
    return {**texts, INDEX: _page(metadata)}


def files_below(folder: Path) -> set[str]:
    """The paths of everything in a folder and in the folders within it, except these folders."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def sums_files(folder: Path, key: SigningKey | None, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The checksums of all files in the folder, and their signatures, by name."""
    files = [of_file(folder / path, path) for path in sorted(files_below(folder) - {*OF_SUMS})]
    # in the format of sha256sum, so that `sha256sum -c SHA256SUMS` checks a download
    sums = "".join(f"{file['digest']['sha256']}  {file['name']}\n" for file in files)
    if key is None:
        return {SUMS: sums}
    facts = {what: metadata[what] for what in ("title", "period") if what in metadata}
    of_sums = descriptor(SUMS, hashlib.sha256(sums.encode()).hexdigest(), facts)
    statement = passed(key, [of_sums, *files], [checker()])
    return {SUMS: sums, SIGNATURE: key.signature(sums.encode()), PUBLIC_KEY: key.public, STATEMENT: statement}


def _labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    fields = (field for one in metadata["resources"] for field in one.get("schema", {}).get("fields", ()))
    return {field["name"]: field["title"] for field in fields if field.get("title")}


def _dcat(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """DCAT 3: a catalogue of one dataset; each file is a distribution."""
    dataset: dict[str, Any] = {
        "@type": "dcat:Dataset",
        "dcterms:title": metadata["title"],
        "dcterms:description": metadata["description"],
        "dcterms:identifier": metadata["name"],
        **_dcat_facts(metadata),
        "dcat:distribution": [_distribution(resource) for resource in metadata["resources"]],
    }
    return {
        "@context": _CONTEXT,
        "@type": "dcat:Catalog",
        "dcterms:title": metadata["title"],
        "dcat:dataset": [dataset],
    }


def _dcat_facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    facts = {
        "dcterms:temporal": metadata.get("period"),
        "dcterms:issued": metadata.get("published"),
        "dcterms:source": _called(metadata, "sources"),
        "dcterms:license": _called(metadata, "licenses"),
        "dcat:contactPoint": [{"@type": "foaf:Agent", "foaf:name": name} for name in _called(metadata, "contributors")],
        "dcat:keyword": sorted({name for one in metadata["resources"] for name in one.get(SUB_TABLE, ())}),
    }
    return {key: value for key, value in facts.items() if value}


def _distribution(resource: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": "dcat:Distribution", "dcat:downloadURL": resource["path"]}
    if (media := media_of(resource)) is not None:
        found["dcat:mediaType"] = media
    if SUB_TABLE in resource:
        found["dcterms:title"] = f"by {', '.join(resource[SUB_TABLE])}" + _in_part(resource)
    if "hash" in resource:
        checksum = {"spdx:algorithm": "SHA256", "spdx:checksumValue": resource["hash"].removeprefix(SHA256)}
        found |= {"dcat:byteSize": size_of(resource), "spdx:checksum": {"@type": "spdx:Checksum", **checksum}}
    return found


def _in_part(resource: Mapping[str, Any]) -> str:
    facts = resource.get(IN_PART)
    if facts is None:
        return ""
    if ROUNDED_TO in facts:
        return f" (rounded to multiples of {facts[ROUNDED_TO]:,})"
    return f" (in part: {facts[WITHHELD_STATUS]:,} of {facts['cells']:,} cells withheld)"


def _page(metadata: Mapping[str, Any]) -> str:
    """A sortable, searchable table of the tables with links to their files. The page loads nothing from elsewhere."""
    tables: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    others = []
    for resource in metadata["resources"]:
        if SUB_TABLE in resource:
            tables.setdefault(tuple(resource[SUB_TABLE]), []).append(resource)
        elif is_shown(resource["path"]):
            others.append(resource)
    called = _labels(metadata)
    rows = [
        ((", ".join(called.get(name, name) for name in names) or "total") + _in_part(files[0]), len(names), files)
        for names, files in tables.items()
    ]
    keys = {"Population": "population", "Period": "period", "Published": "published"}
    facts = [(what, metadata[key]) for what, key in keys.items() if metadata.get(key)]
    for what, key in (("Source", "sources"), ("Licence", "licenses"), ("Contact", "contributors")):
        facts += [(what, name) for name in _called(metadata, key)]
    return _TEMPLATES.get_template("index.html.j2").render(
        metadata=metadata,
        rows=rows,
        labels={name: one.label for name, one in FORMATS.items()},
        facts=facts,
        others=others,
        size_of=size_of,
        catalogue=CATALOGUE,
        sums=SUMS,
    )
