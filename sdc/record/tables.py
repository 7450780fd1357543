"""The tables of a chain's database: entries, views of a history, and a mark of their version.

The views store nothing: users, queries, decisions, and how long each sub-table was on each frontier, as a replay of the
entries gives them.
"""

from __future__ import annotations

import sqlalchemy as sa

from sdc.record.database import ChainError, NoChainError

ENTRIES, MARK, VERSION = "entries", "alembic_version", "0002"  # the mark has the name of the library that set it first
ENCODINGS = ("UTF8", "SQL_ASCII")


def is_new(connection: sa.Connection) -> bool:
    """Whether the database has no chain; other tables are ignored."""
    return not {ENTRIES, MARK} & set(sa.inspect(connection).get_table_names())


def check(connection: sa.Connection, called: str) -> None:
    """ChainError, with advice, unless the tables have this version; NoChainError if the database has none at all."""
    names = sa.inspect(connection).get_table_names()
    if not names:
        raise NoChainError(f"{called} has not begun: nothing was written to it; name another, or start its server")
    found = connection.execute(sa.text(f"SELECT version_num FROM {MARK}")).scalars().all() if MARK in names else []
    if not found:
        raise ChainError(
            f"{called} has no mark of a migration, so it is none of sdc's, or of a version before there were any; use "
            "the one that wrote it, for a new one would not know what is public"
        )
    if found != [VERSION]:
        raise ChainError(
            f"{called} was made by another version of sdc or another program (migration {', '.join(sorted(found))}, "
            f"the one known here is {VERSION}); use that version"
        )


def create(connection: sa.Connection) -> None:
    """Create all within the connection's transaction."""
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding not in ENCODINGS:
            raise ChainError(f"the database is encoded in {encoding}; make one with ENCODING 'UTF8'")
    _METADATA.create_all(connection)
    views = (view.format(**(_IN_SQLITE if is_sqlite else _IN_POSTGRESQL)) for view in _VIEWS)
    for statement in (*(_SQLITE if is_sqlite else _POSTGRESQL), *views):
        connection.exec_driver_sql(statement)
    connection.execute(sa.insert(_MARK).values(version_num=VERSION))


_METADATA = sa.MetaData()
_MARK = sa.Table(MARK, _METADATA, sa.Column("version_num", sa.String(32), primary_key=True))
# in SQLite only INTEGER is the row number itself
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TABLE = sa.Table(
    ENTRIES,
    _METADATA,
    sa.Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "at", "who", "subject", "body")),
    *(sa.Column(name, sa.String(64), nullable=False) for name in ("previous", "hash")),
    *(sa.Index(f"entries_by_{name}", *name.split("_")) for name in ("kind_seq", "who_kind_seq", "subject_seq")),
)
_SQLITE = (
    "CREATE TRIGGER entries_not_changed BEFORE UPDATE ON entries BEGIN "
    "SELECT RAISE(ABORT, 'the history is append-only, no entry is changed'); END",
    "CREATE TRIGGER entries_not_removed BEFORE DELETE ON entries BEGIN "
    "SELECT RAISE(ABORT, 'the history is append-only, no entry is removed'); END",
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries) BEGIN "
    "SELECT RAISE(ABORT, 'the history has no gaps, an entry has the number after the last'); END",
)
_POSTGRESQL = (
    """CREATE FUNCTION entries_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'the history is append-only, no entry is changed or removed'; END $$""",
    """CREATE FUNCTION entries_in_order() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries) THEN
            RAISE EXCEPTION 'the history has no gaps, an entry has the number after the last';
        END IF;
        RETURN NEW; END $$""",
    "CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION entries_append_only()",
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION entries_in_order()",
)

_USERS = """CREATE VIEW history_users AS
WITH made AS (
    SELECT seq, at, {key_user} AS name, {key_role} AS role, {key} AS number FROM entries WHERE kind = 'key'
), revoked AS (
    SELECT {key} AS number FROM entries WHERE kind = 'key_revoked'
), asked AS (
    SELECT who AS name, min(at) AS at, count(*) AS queries FROM entries WHERE kind = 'request' GROUP BY who
), everybody AS (
    SELECT name FROM made UNION SELECT name FROM asked
)
SELECT e.name,
    (SELECT m.role FROM made m WHERE m.name = e.name ORDER BY m.seq DESC LIMIT 1) AS role,
    (SELECT min(m.at) FROM made m WHERE m.name = e.name) AS first_key_at,
    (SELECT count(*) FROM made m WHERE m.name = e.name AND m.number NOT IN (SELECT number FROM revoked)) AS keys,
    a.at AS first_query_at,
    coalesce(a.queries, 0) AS queries
FROM everybody e LEFT JOIN asked a ON a.name = e.name"""

_QUERIES = """CREATE VIEW history_queries AS
SELECT seq AS query, at, who, subject AS sub_table FROM entries WHERE kind = 'request'"""

_DECISIONS = """CREATE VIEW history_decisions AS
SELECT seq AS entry, at, {request} AS query, subject AS sub_table, {outcome} AS outcome, {rule} AS rule, {why} AS why,
    {verdict} AS verdict, {low} AS least_min_width, {high} AS most_min_width, {version} AS version,
    {milliseconds} AS milliseconds
FROM entries WHERE kind = 'decision'"""

# additions to and removals from a frontier alternate: the next change of a sub-table is its end
_FRONTIERS = """CREATE VIEW history_frontiers AS
SELECT frontier, sub_table, entry, version, at, until_entry, until_version, until_at
FROM (
    SELECT frontier, sub_table, came, entry, version, at, lead(entry) OVER same AS until_entry,
        lead(version) OVER same AS until_version, lead(at) OVER same AS until_at
    FROM (
        SELECT e.seq AS entry, e.at, {version} AS version, {label} AS sub_table,
            replace(replace(part.key, '_added', ''), '_removed', '') AS frontier,
            CASE WHEN part.key IN ('released_removed', 'unreleasable_removed', 'undecided_removed')
                THEN 0 ELSE 1 END AS came
        FROM {named}
        WHERE e.kind = 'frontier' AND part.key IN ('released', 'released_added', 'released_removed', 'unreleasable',
            'unreleasable_added', 'unreleasable_removed', 'undecided', 'undecided_added', 'undecided_removed')
    ) changed
    WINDOW same AS (PARTITION BY frontier, sub_table ORDER BY entry)
) spans
WHERE came = 1"""

_FIELDS = {"key_user": "user", "key_role": "role", "key": "key", "outcome": "outcome", "rule": "rule", "why": "why"}
_FIELDS |= {"verdict": "verdict"}
_IN_SQLITE = {
    **{name: f"json_extract(body, '$.{field}')" for name, field in _FIELDS.items()},
    **{name: f"json_extract(body, '$.{name}')" for name in ("request", "version", "milliseconds")},
    "low": "json_extract(body, '$.min_width[0]')",
    "high": "json_extract(body, '$.min_width[1]')",
    "label": "coalesce((SELECT group_concat(v.value, '*') FROM (SELECT value FROM json_each(element.value) ORDER BY "
    "key) v), '(total)')",
    "named": "entries e, json_each(e.body) part, json_each(part.value) element",
}
_IN_POSTGRESQL = {
    **{name: f"(body::json->>'{field}')" for name, field in _FIELDS.items()},
    **{name: f"(body::json->>'{name}')::bigint" for name in ("request", "version")},
    "milliseconds": "(body::json->>'milliseconds')::double precision",
    "low": "(body::json->'min_width'->>0)::bigint",
    "high": "(body::json->'min_width'->>1)::bigint",
    "label": "coalesce((SELECT string_agg(v.value, '*' ORDER BY v.place) FROM json_array_elements_text(element.value) "
    "WITH ORDINALITY v(value, place)), '(total)')",
    "named": "entries e, json_each(e.body::json) part, json_array_elements(CASE WHEN json_typeof(part.value) = 'array' "
    "THEN part.value ELSE '[]' END) element",
}
_VIEWS = _USERS, _QUERIES, _DECISIONS, _FRONTIERS
