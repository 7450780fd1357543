"""SDMX-CSV 2.0, with its structure as SDMX-ML 2.1, which more programs read than any other version.

SDMX restricts the characters of codes. Other names and categories are numbered, and the structure lists them. Codes
that programs would take for numbers, such as 01, begin with a letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sdc.model.errors import ReleaseError
from sdc.publish.formats.table import CountTable, Dimension, Pieces, TextRows, cells_of, is_taken_otherwise
from sdc.publish.formats.xml import element, require_xml
from sdc.run_format import is_formula

AGENCY, VERSION = "SDC", "1.0.0"
MEASURE, ALL = "OBS_VALUE", "_T"  # the measure, and SDMX's code of a total in all lists
PREPARED = "1980-01-01T00:00:00Z"  # required by SDMX; constant, so that equal tables give equal bytes
NAMESPACE = "http://www.sdmx.org/resources/sdmxml/schemas/v2_1"
OPENED = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<mes:Structure xmlns:mes="{NAMESPACE}/message" '
    f'xmlns:str="{NAMESPACE}/structure" xmlns:com="{NAMESPACE}/common">\n'
)
NO_TEXTS: Mapping[str, str] = MappingProxyType({})

STATUS, STATUS_NAME = "CONF_STATUS", "Confidentiality status"
OF_STATUS = {
    "F": "Free (free for publication)",
    "C": "Confidential statistical information: the count is withheld; published totals limit it",
}  # the codes of CL_CONF_STATUS, a list of all domains

_RESERVED = re.compile("STRUCTURE|STRUCTURE_ID|ACTION|SERIES_KEY|OBS_KEY|TIME_PERIOD|OBS_VALUE|CONF_STATUS|V[0-9]+")
_NAME, _CODE = re.compile("[A-Za-z][A-Za-z0-9_-]*"), re.compile("[A-Za-z0-9_@$-]+")


def sdmx_csv(table: CountTable) -> Pieces:
    """A row for each cell: structure, action, codes, count, and for tables with suppressed cells the status."""
    _require(table)
    status, free, confidential = ([], "", "") if table.withheld is None else ([STATUS], ",F", ",C")
    head = ",".join(["STRUCTURE", "STRUCTURE_ID", "ACTION", *_ids(table.variables), MEASURE, *status])
    start = f"datastructure,{AGENCY}:{_structure_id(table)}({VERSION}),I,"
    words = [[f"{code}," for code in _codes(v, table.totals)] for v in table.variables]
    return TextRows(f"{head}\n", "", words, start, end="\n").written(cells_of(table, "", free, confidential))


def sdmx_structure(table: CountTable) -> Pieces:
    """The data structure, its concepts and code lists; annotations hold the names, units and notes of variables."""
    _require(table)
    named = list(zip(_ids(table.variables), table.variables, strict=True))
    scheme = f"CS_{_structure_id(table)}"
    concepts = [_item("Concept", name, v.label, {**_texts_of(v), "NAME": v.name}) for name, v in named]
    concepts.append(_item("Concept", MEASURE, "Number of records"))
    lists = [(name, v.label, _code_list(v, table.totals)) for name, v in named]
    if table.withheld is not None:
        concepts.append(_item("Concept", STATUS, STATUS_NAME))
        lists.append((STATUS, STATUS_NAME, [_item("Code", *own) for own in OF_STATUS.items()]))
    *components, measure = [
        _node("str:ConceptIdentity", _ref(name, scheme, "conceptscheme", "Concept"))
        for name in (*(name for name, *_ in lists), MEASURE)
    ]
    coded = [
        own + _node("str:LocalRepresentation", _node("str:Enumeration", _ref(f"CL_{scheme}_{name}")))
        for own, (name, *_) in zip(components, lists, strict=True)
    ]
    dimensions = [
        _node("str:Dimension", own, id=name, position=str(place))
        for place, ((name, _), own) in enumerate(zip(named, coded, strict=False), start=1)
    ]
    of_observation = _node("str:AttributeRelationship", _node("str:PrimaryMeasure", f'<Ref id="{MEASURE}"/>'))
    attributes = [
        _node("str:Attribute", own, of_observation, id=STATUS, assignmentStatus="Mandatory")
        for own in coded[len(dimensions) :]
    ]
    value = measure + _node("str:LocalRepresentation", '<str:TextFormat textType="Long"/>')
    measures = _node("str:PrimaryMeasure", value, id=MEASURE)
    descriptors = [("Dimension", dimensions), ("Attribute", attributes), ("Measure", [measures])]
    parts = [_node(f"str:{kind}List", *own, id=f"{kind}Descriptor") for kind, own in descriptors if own]
    facts = _annotations({what.upper(): text for what, text in table.about.facts.items()}, table.about.notes)
    structure = _node("str:DataStructureComponents", *parts)
    content = (
        _node("str:Codelists", *(_kept("Codelist", f"CL_{scheme}_{n}", label, *own) for n, label, own in lists)),
        _node("str:Concepts", _kept("ConceptScheme", scheme, table.title, *concepts)),
        _node("str:DataStructures", _kept("DataStructure", _structure_id(table), table.title, structure, about=facts)),
    )
    sender = f'<mes:Prepared>{PREPARED}</mes:Prepared>\n<mes:Sender id="{AGENCY}"/>\n'
    header = _node("mes:Header", f"<mes:ID>{_structure_id(table)}</mes:ID>\n<mes:Test>false</mes:Test>\n{sender}")
    yield f"{OPENED}{header}{_node('mes:Structures', *content)}</mes:Structure>\n".encode()


def _node(tag: str, *content: str, **attributes: str) -> str:
    """An element with other elements in it, each of which ends its line."""
    written = "".join(f' {name}="{text}"' for name, text in attributes.items())
    return f"<{tag}{written}>\n{''.join(content)}</{tag}>\n"


def _item(kind: str, name: str, label: str, texts: Mapping[str, str] = NO_TEXTS, more: str = "") -> str:
    return _node(f"str:{kind}", _annotations(texts), _name(label), more, id=name)


def _kept(kind: str, name: str, label: str, *content: str, about: str = "") -> str:
    return _node(f"str:{kind}", about, _name(label), *content, id=name, agencyID=AGENCY, version=VERSION)


def _name(label: str) -> str:
    return element("com:Name", label) + "\n"


def _annotations(texts: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    listed = [*texts.items(), *(("NOTE", note) for note in notes)]
    pairs = (element("com:AnnotationTitle", text) + element("com:AnnotationType", kind) for kind, text in listed)
    return _node("com:Annotations", *(_node("com:Annotation", f"{pair}\n") for pair in pairs)) if listed else ""


def _ref(name: str, scheme: str = "", package: str = "codelist", kind: str = "Codelist") -> str:
    parent = f'maintainableParentID="{scheme}" maintainableParentVersion="{VERSION}"'
    within = parent if scheme else f'version="{VERSION}"'
    return f'<Ref id="{name}" {within} agencyID="{AGENCY}" package="{package}" class="{kind}"/>\n'


def _structure_id(table: CountTable) -> str:
    return f"T{table.name}"


def _ids(variables: Sequence[Dimension]) -> list[str]:
    """The names of variables that SDMX accepts, else `V1`, `V2`, ... by position."""
    takes = [_NAME.fullmatch(v.name) and not _RESERVED.fullmatch(v.name) for v in variables]
    return [v.name if taken else f"V{n}" for n, (v, taken) in enumerate(zip(variables, takes, strict=True), start=1)]


def _codes(variable: Dimension, totals: bool) -> list[str]:
    """The categories if SDMX accepts all, else `C1`, `C2`, ...; the total is `_T`."""
    own = variable.categories[:-1] if totals else variable.categories
    if not all(_CODE.fullmatch(category) and category != ALL and not is_formula(category) for category in own):
        own = tuple(f"C{place}" for place, _ in enumerate(own, start=1))
    elif any(map(is_taken_otherwise, own)):
        own = tuple(f"C{category}" for category in own)
    return [*own, ALL] if totals else list(own)


def _code_list(variable: Dimension, totals: bool) -> list[str]:
    """The codes with their labels; the description of a code that differs from its category is the category."""
    named = zip(_codes(variable, totals), variable.categories, variable.labels, strict=True)
    return [
        _item("Code", code, label, more="" if code in (category, ALL) else f"{element('com:Description', category)}\n")
        for code, category, label in named
    ]


def _texts_of(variable: Dimension) -> dict[str, str]:
    return {what: text for what, text in (("UNIT", variable.unit), ("NOTE", variable.note)) if text}


def _require(table: CountTable) -> None:
    if not table.variables:
        raise ReleaseError(f"{table.name}: SDMX has no table without variables; publish without sdmx-csv")
    require_xml(table, "sdmx-csv")
