-- name: create
CREATE TABLE IF NOT EXISTS judge_eval_cache (key bytea PRIMARY KEY, value bytea, holder uuid, until timestamptz)

-- name: probe
SELECT 1

-- name: look_over
-- The columns with their type, the relation's kind and whether the column is unique.
SELECT a.attname, format_type(a.atttypid, NULL), c.relkind::text, EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL
    AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped

-- A row is an answer, a lease, or both. `holder` tells one lease from a later one, and stays when the answer is
-- written: it shows a write under a lease that has passed to another process. Rows are inserted in the order of
-- their keys, so that two writers never wait for each other in a circle.

-- name: get
SELECT key, CASE WHEN octet_length(value) <= %s THEN value END FROM judge_eval_cache
WHERE value IS NOT NULL AND key = ANY(%s)

-- name: put
WITH put AS (
    INSERT INTO judge_eval_cache (key, value)
    SELECT * FROM unnest(%(keys)s::bytea[], %(rows)s::bytea[]) ON CONFLICT (key)
    DO UPDATE SET value = excluded.value, holder = NULL, until = NULL)
SELECT 0

-- name: alive
-- A lock of the session, which ends with the process: it shows others that the holder lives. Taken once a session.
SELECT pg_advisory_lock_shared(1246058033, ('x' || left(%(holder)s::text, 8))::bit(32)::int)
WHERE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1246058033 AND pid = pg_backend_pid())

-- name: claim
-- Existing rows, and keys that are leased now. A lease of this holder is granted again: the answer to the former
-- statement was lost. A lease is free once its time is over, or if its holder neither has a session nor renews it.
WITH asked AS (SELECT unnest(%(keys)s::bytea[]) AS key),
dead AS (
    SELECT DISTINCT t.holder FROM judge_eval_cache t JOIN asked ON asked.key = t.key
    WHERE t.value IS NULL AND t.until < now() + make_interval(secs => %(lease)s - %(silent)s)
    AND NOT EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1246058033
        AND objid = ('x' || left(t.holder::text, 8))::bit(32)::bigint::oid)),
free AS (
    SELECT f.key FROM unnest(%(free)s::bytea[]) AS f(key) LEFT JOIN judge_eval_cache t ON t.key = f.key
    WHERE t.key IS NULL OR (t.value IS NULL AND (t.until IS NULL OR t.until < now() OR t.holder = %(holder)s
    OR t.holder IN (SELECT holder FROM dead)))),
taken AS (
    INSERT INTO judge_eval_cache AS here (key, holder, until)
    SELECT key, %(holder)s, now() + make_interval(secs => %(lease)s) FROM free ORDER BY key
    ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE here.value IS NULL
    AND (here.until IS NULL OR here.until < now() OR here.holder = excluded.holder
        OR here.holder IN (SELECT holder FROM dead))
    RETURNING key)
SELECT t.key, CASE WHEN octet_length(t.value) <= %(most)s THEN t.value END, false
FROM judge_eval_cache t JOIN asked ON asked.key = t.key WHERE t.value IS NOT NULL
UNION ALL SELECT key, NULL, true FROM taken

-- name: put_claimed
-- What another holder has written stays. If it has only asked, the answer is written, and its lease stays.
WITH given AS (SELECT * FROM unnest(%(keys)s::bytea[], %(rows)s::bytea[]) AS g(key, value)),
late AS (
    SELECT FROM judge_eval_cache t JOIN given ON given.key = t.key
    WHERE t.holder IS DISTINCT FROM %(holder)s AND (t.value IS NOT NULL OR t.until IS NOT NULL)),
put AS (
    INSERT INTO judge_eval_cache AS here (key, value, holder) SELECT key, value, %(holder)s FROM given ORDER BY key
    ON CONFLICT (key) DO UPDATE SET value = excluded.value,
    holder = CASE WHEN here.until IS NULL THEN excluded.holder ELSE here.holder END,
    until = CASE WHEN here.holder = excluded.holder THEN NULL ELSE here.until END
    WHERE here.holder = excluded.holder OR here.value IS NULL)
SELECT count(*) FROM late

-- name: claim_rows
-- Leases keys whether or not they have a row, which shall be replaced.
INSERT INTO judge_eval_cache AS here (key, holder, until)
SELECT key, %(holder)s, now() + make_interval(secs => %(lease)s) FROM unnest(%(free)s::bytea[]) AS f(key) ORDER BY key
ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE here.until IS NULL OR here.until < now() OR here.holder = excluded.holder RETURNING key, NULL, true

-- name: release
WITH gone AS (DELETE FROM judge_eval_cache WHERE key = ANY(%(keys)s) AND holder = %(holder)s AND value IS NULL)
UPDATE judge_eval_cache SET until = NULL
WHERE key = ANY(%(keys)s) AND holder = %(holder)s AND value IS NOT NULL

-- name: renew
UPDATE judge_eval_cache SET until = now() + make_interval(secs => %s)
WHERE key = ANY(%s) AND holder = %s AND until IS NOT NULL

-- name: info
SELECT reltuples::bigint, pg_total_relation_size(oid),
current_setting('transaction_read_only') = 'on' OR NOT has_table_privilege(oid, 'INSERT')
OR NOT has_table_privilege(oid, 'UPDATE') FROM pg_class WHERE oid = %s::regclass

-- name: count
SELECT count(*) FROM judge_eval_cache WHERE value IS NOT NULL

-- name: clear
DELETE FROM judge_eval_cache
