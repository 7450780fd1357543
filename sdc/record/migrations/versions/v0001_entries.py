"""The one, append-only table of a history."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SQLITE = (
    "CREATE TRIGGER entries_not_changed BEFORE UPDATE ON entries BEGIN "
    "SELECT RAISE(ABORT, 'the history is append-only, no entry is changed'); END",
    "CREATE TRIGGER entries_not_removed BEFORE DELETE ON entries BEGIN "
    "SELECT RAISE(ABORT, 'the history is append-only, no entry is removed'); END",
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries) BEGIN "
    "SELECT RAISE(ABORT, 'the history has no gaps, an entry has the number after the last'); END",
)
POSTGRESQL = (
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


def upgrade() -> None:
    texts = [sa.Column(name, sa.Text, nullable=False) for name in ("kind", "at", "who", "subject", "body")]
    hashes = [sa.Column(name, sa.String(64), nullable=False) for name in ("previous", "hash")]
    # in SQLite only INTEGER is the row number itself
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table("entries", sa.Column("seq", number, primary_key=True, autoincrement=False), *texts, *hashes)
    for columns in ["kind", "seq"], ["who", "kind", "seq"], ["subject", "seq"]:
        op.create_index("entries_by_" + "_".join(columns), "entries", columns)
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)
