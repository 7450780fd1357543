"""XML with a small schema, published beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sdc.model.errors import ReleaseError
from sdc.publish.formats.table import CountTable, Dimension, Pieces, TextRows, cells_of
from sdc.run_format import COUNT, WITHHELD_STATUS

SCHEMA = """<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified">
  <xs:element name="table">
    <xs:annotation><xs:documentation>
      A table of counts, exact unless a note says otherwise. A combination of categories without a cell has the count 0.
      The count of a cell that is withheld is limited by published totals.
    </xs:documentation></xs:annotation>
    <xs:complexType>
      <xs:sequence>
        <xs:element name="population" type="xs:string" minOccurs="0"/>
        <xs:element name="period" type="xs:string" minOccurs="0"/>
        <xs:element name="source" type="xs:string" minOccurs="0"/>
        <xs:element name="licence" type="xs:string" minOccurs="0"/>
        <xs:element name="contact" type="xs:string" minOccurs="0"/>
        <xs:element name="note" type="xs:string" minOccurs="0" maxOccurs="unbounded"/>
        <xs:element name="variable" type="variable" minOccurs="0" maxOccurs="unbounded"/>
        <xs:element name="cell" type="cell" minOccurs="0" maxOccurs="unbounded"/>
      </xs:sequence>
      <xs:attribute name="title" type="xs:string" use="required"/>
      <xs:attribute name="records" type="xs:nonNegativeInteger" use="required"/>
    </xs:complexType>
    <xs:key name="variables"><xs:selector xpath="variable"/><xs:field xpath="@name"/></xs:key>
    <xs:keyref name="known" refer="variables">
      <xs:selector xpath="cell/category"/><xs:field xpath="@variable"/>
    </xs:keyref>
  </xs:element>
  <xs:complexType name="variable">
    <xs:sequence>
      <xs:element name="category" maxOccurs="unbounded">
        <xs:complexType><xs:simpleContent><xs:extension base="xs:string">
          <xs:attribute name="label" type="xs:string"/>
        </xs:extension></xs:simpleContent></xs:complexType>
      </xs:element>
    </xs:sequence>
    <xs:attribute name="name" type="xs:string" use="required"/>
    <xs:attribute name="label" type="xs:string"/>
    <xs:attribute name="unit" type="xs:string"/>
    <xs:attribute name="note" type="xs:string"/>
  </xs:complexType>
  <xs:complexType name="cell">
    <xs:sequence>
      <xs:element name="category" minOccurs="0" maxOccurs="unbounded">
        <xs:complexType><xs:simpleContent><xs:extension base="xs:string">
          <xs:attribute name="variable" type="xs:string" use="required"/>
        </xs:extension></xs:simpleContent></xs:complexType>
      </xs:element>
      <xs:choice>
        <xs:element name="count" type="xs:nonNegativeInteger"/>
        <xs:element name="withheld"><xs:complexType/></xs:element>
      </xs:choice>
    </xs:sequence>
  </xs:complexType>
</xs:schema>
"""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# escapes line ends too, which a parser would change
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {sign: f"&#{ord(sign)};" for sign in "\"'\t\n\r"})


def xml(table: CountTable) -> Pieces:
    """The description of the table, and one element for each cell; ReleaseError for characters that XML lacks.

    <table title="Workers" records="1841">
    <variable name="A"><category>no</category><category>yes</category></variable> ...
    <cell><category variable="A">no</category><category variable="B">yes</category><count>3</count></cell> ...
    <cell><category variable="A">no</category><category variable="B">no</category><withheld/></cell>
    </table>
    """
    require_xml(table, "xml")
    words = [[element("category", c, variable=v.name) for c in v.categories] for v in table.variables]
    opened = element("table", title=table.title, records=str(table.records)).removesuffix("</table>")
    described = "".join(f"{part}\n" for part in (*_about(table), *map(_described, table.variables)))
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n{opened}\n{described}'
    form = TextRows(head, "</table>\n", words, "<cell>", end="</cell>\n")
    return form.written(cells_of(table, f"<{COUNT}>", f"</{COUNT}>", f"<{WITHHELD_STATUS}/>"))


def require_xml(table: CountTable, format: str) -> None:
    """ReleaseError for a character that XML lacks."""
    if wrong := next((whose for whose, text in table.texts if _NOT_XML.search(text)), None):
        raise ReleaseError(f"{wrong} has a character that XML has not; reword it, or publish without {format}")


def schema(tables: Sequence[CountTable]) -> Pieces:
    """The schema of all XML files."""
    yield SCHEMA.encode()


def _about(table: CountTable) -> Iterator[str]:
    for what, text in table.about.given.items():
        yield from (element("note", note) for note in table.about.notes) if what == "notes" else [element(what, text)]


def _described(variable: Dimension) -> str:
    pairs = zip(variable.categories, variable.labels, strict=True)
    categories = [element("category", c, label=None if label == c else label) for c, label in pairs]
    label = None if variable.label == variable.name else variable.label
    opened = element("variable", name=variable.name, label=label, unit=variable.unit, note=variable.note)
    return opened.removesuffix("</variable>") + "".join(categories) + "</variable>"


def element(tag: str, text: str = "", **attributes: str | None) -> str:
    """An element with a text, escaped."""
    written = "".join(f' {n}="{t.translate(_ESCAPED)}"' for n, t in attributes.items() if t is not None)
    return f"<{tag}{written}>{text.translate(_ESCAPED)}</{tag}>"
