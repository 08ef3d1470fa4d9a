"""The one table of a cache in PostgreSQL: its columns, and the statements over it."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.errors import StoreError

TABLE = "judge_eval_cache"
"""The one table that is used."""
_COLUMNS = {"key": "bytea", "value": "bytea", "holder": "uuid", "until": "timestamp with time zone"}
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (key bytea PRIMARY KEY, value bytea, holder uuid, until timestamptz)"
)
LOOK_OVER = """
    SELECT a.attname, format_type(a.atttypid, NULL), c.relkind::text, EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL
        AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.oid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped"""
"""What the table is: a row a column with its type, the relation's kind and whether it is unique."""

# A row is an answer, a lease, or both. `holder` tells one lease from a later one, and stays when the answer
# is written: whoever writes under a lease that has passed to somebody else is found out by it. Rows are
# inserted in the order of their keys, so that two writers never wait for each other in a circle.
GET = (
    f"SELECT key, CASE WHEN octet_length(value) <= %s THEN value END FROM {TABLE} "  # noqa: S608
    "WHERE value IS NOT NULL AND key = ANY(%s)"
)
PUT = (
    f"INSERT INTO {TABLE} (key, value) "  # noqa: S608
    "SELECT * FROM unnest(%s::bytea[], %s::bytea[]) ON CONFLICT (key) "
    "DO UPDATE SET value = excluded.value, holder = NULL, until = NULL"
)
CLAIM = f"""
    WITH asked AS (SELECT unnest(%(keys)s::bytea[]) AS key),
    free AS (
        SELECT f.key FROM unnest(%(free)s::bytea[]) AS f(key) LEFT JOIN {TABLE} t ON t.key = f.key
        WHERE t.key IS NULL
        OR (t.value IS NULL AND (t.until IS NULL OR t.until < now() OR t.holder = %(holder)s))),
    taken AS (
        INSERT INTO {TABLE} AS here (key, holder, until)
        SELECT key, %(holder)s, now() + make_interval(secs => %(lease)s) FROM free ORDER BY key
        ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE here.value IS NULL
        AND (here.until IS NULL OR here.until < now() OR here.holder = excluded.holder)
        RETURNING key)
    SELECT t.key, CASE WHEN octet_length(t.value) <= %(most)s THEN t.value END, false
    FROM {TABLE} t JOIN asked ON asked.key = t.key WHERE t.value IS NOT NULL
    UNION ALL SELECT key, NULL, true FROM taken"""  # noqa: S608
"""Rows that are there, and keys that are leased now. A lease of one's own is granted again: it is that of a
statement whose answer was lost."""
PUT_CLAIMED = f"""
    WITH given AS (SELECT * FROM unnest(%(keys)s::bytea[], %(rows)s::bytea[]) AS g(key, value)),
    late AS (
        SELECT FROM {TABLE} t JOIN given ON given.key = t.key
        WHERE t.holder IS DISTINCT FROM %(holder)s AND (t.value IS NOT NULL OR t.until IS NOT NULL)),
    put AS (
        INSERT INTO {TABLE} AS here (key, value, holder) SELECT key, value, %(holder)s FROM given ORDER BY key
        ON CONFLICT (key) DO UPDATE SET value = excluded.value,
        holder = CASE WHEN here.until IS NULL THEN excluded.holder ELSE here.holder END,
        until = CASE WHEN here.holder = excluded.holder THEN NULL ELSE here.until END
        WHERE here.holder = excluded.holder OR here.value IS NULL)
    SELECT count(*) FROM late"""  # noqa: S608
"""What another holder has written stays; where it has only asked yet, the answer is there for everybody else,
and the lease stays the other's."""
TAKE = (
    f"INSERT INTO {TABLE} AS here (key, holder, until) "  # noqa: S608
    "VALUES (%s, %s, now() + make_interval(secs => %s)) ON CONFLICT (key) "
    "DO UPDATE SET holder = excluded.holder, until = excluded.until "
    "WHERE here.until IS NULL OR here.until < now() OR here.holder = excluded.holder RETURNING 1"
)
RELEASE = f"""
    WITH gone AS (DELETE FROM {TABLE} WHERE key = ANY(%(keys)s) AND holder = %(holder)s AND value IS NULL)
    UPDATE {TABLE} SET until = NULL
    WHERE key = ANY(%(keys)s) AND holder = %(holder)s AND value IS NOT NULL"""  # noqa: S608
RENEW = (
    f"UPDATE {TABLE} SET until = now() + make_interval(secs => %s) "  # noqa: S608
    "WHERE key = ANY(%s) AND holder = %s AND until IS NOT NULL"
)
INFO = (
    "SELECT reltuples::bigint, pg_total_relation_size(oid), "
    "current_setting('transaction_read_only') = 'on' OR NOT has_table_privilege(oid, 'INSERT') "
    "OR NOT has_table_privilege(oid, 'UPDATE') FROM pg_class WHERE oid = %s::regclass"
)
COUNT = f"SELECT count(*) FROM {TABLE} WHERE value IS NOT NULL"  # noqa: S608
CLEAR = f"DELETE FROM {TABLE}"  # noqa: S608
WALK = f"SELECT key, value FROM {TABLE} WHERE value IS NOT NULL AND key > %s ORDER BY key LIMIT %s"  # noqa: S608


def check_columns(location: str, rows: Sequence[tuple[str, str, str, bool]]) -> None:
    """See that the table is the cache's.

    Args:
        location: Where the database is, as may be shown.
        rows: What `LOOK_OVER` found.

    Raises:
        StoreError: It has other columns, or is no table, or its keys may repeat.
    """
    found = {name: kind for name, kind, _, _ in rows}
    whole = all(relation in "rp" for _, _, relation, _ in rows)
    if found != _COLUMNS or not whole or not any(unique for name, _, _, unique in rows if name == "key"):
        raise StoreError(
            f"{location}: the table {TABLE} is not one that `judge-eval cache init` made: its columns must "
            f"be {', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())}, its key unique; remove "
            "or rename it, then run `judge-eval cache init`"
        )
