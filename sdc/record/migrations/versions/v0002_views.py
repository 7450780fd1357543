"""Views of a history: users, queries, decisions, and how long each sub-table was on each frontier.

The views store nothing: each shows what a replay of the entries gives.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

USERS = """CREATE VIEW history_users AS
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

QUERIES = """CREATE VIEW history_queries AS
SELECT seq AS query, at, who, subject AS sub_table FROM entries WHERE kind = 'request'"""

DECISIONS = """CREATE VIEW history_decisions AS
SELECT seq AS entry, at, {request} AS query, subject AS sub_table, {outcome} AS outcome, {rule} AS rule, {why} AS why,
    {verdict} AS verdict, {low} AS least_min_width, {high} AS most_min_width, {version} AS version,
    {milliseconds} AS milliseconds
FROM entries WHERE kind = 'decision'"""

# additions to and removals from a frontier alternate: the next change of a sub-table is its end
FRONTIERS = """CREATE VIEW history_frontiers AS
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

FIELDS = {"key_user": "user", "key_role": "role", "key": "key", "outcome": "outcome", "rule": "rule", "why": "why"}
FIELDS |= {"verdict": "verdict"}
SQLITE = {
    **{name: f"json_extract(body, '$.{field}')" for name, field in FIELDS.items()},
    **{name: f"json_extract(body, '$.{name}')" for name in ("request", "version", "milliseconds")},
    "low": "json_extract(body, '$.min_width[0]')",
    "high": "json_extract(body, '$.min_width[1]')",
    "label": "coalesce((SELECT group_concat(v.value, '*') FROM (SELECT value FROM json_each(element.value) ORDER BY "
    "key) v), '(total)')",
    "named": "entries e, json_each(e.body) part, json_each(part.value) element",
}
POSTGRESQL = {
    **{name: f"(body::json->>'{field}')" for name, field in FIELDS.items()},
    **{name: f"(body::json->>'{name}')::bigint" for name in ("request", "version")},
    "milliseconds": "(body::json->>'milliseconds')::double precision",
    "low": "(body::json->'min_width'->>0)::bigint",
    "high": "(body::json->'min_width'->>1)::bigint",
    "label": "coalesce((SELECT string_agg(v.value, '*' ORDER BY v.place) FROM json_array_elements_text(element.value) "
    "WITH ORDINALITY v(value, place)), '(total)')",
    "named": "entries e, json_each(e.body::json) part, json_array_elements(CASE WHEN json_typeof(part.value) = 'array' "
    "THEN part.value ELSE '[]' END) element",
}


def upgrade() -> None:
    parts = SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL
    for view in USERS, QUERIES, DECISIONS, FRONTIERS:
        op.execute(view.format(**parts))
