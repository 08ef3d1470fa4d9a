"""A database whose schema, settings or files were changed is refused, and nothing outside is touched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import diskcache
import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache.disk import DiskStore
from tests.support.planting import KEY, OTHER, edit


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER bad AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END",
        "CREATE TRIGGER bad AFTER UPDATE ON Settings BEGIN DELETE FROM Cache; END",
        "CREATE VIEW bad AS SELECT 1",
        "CREATE TABLE bad (x)",
        "CREATE INDEX bad ON Cache (value)",
        "ALTER TABLE Cache ADD COLUMN bad DEFAULT 1",
        "DROP TRIGGER Settings_count_insert",
    ],
)
def test_a_changed_schema_is_refused(folder: Path, statement: str) -> None:
    """A trigger, view, table, index or column more (or less) is told, before anything else happens."""
    edit(folder, statement)
    store = DiskStore(folder)
    for use in (lambda: store.get_many([KEY]), lambda: store.put_many([(KEY, b"new")]), store.info):
        with pytest.raises(StoreError, match="changed the schema"):
            use()
    with closing(sqlite3.connect(folder / "cache.db")) as con:
        assert con.execute("SELECT count(*) FROM Cache").fetchone() == (2,)
    store.clear()
    store.put_many([(KEY, b"new")])
    assert store.get_many([KEY, OTHER]) == [b"new", None]
    store.close()


def test_an_endless_view_in_place_of_the_table_is_refused(folder: Path) -> None:
    """A view that never ends, put in the table's place, is an error and not a hang."""
    edit(folder, "DROP TABLE Cache")
    edit(
        folder,
        "CREATE VIEW Cache AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT x AS key, 1 AS raw, 1 AS mode, NULL AS filename, x AS value FROM n",
    )
    with pytest.raises(StoreError, match="changed the schema"):
        DiskStore(folder).get_many([KEY])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_disk", "x"),
        ("_sql", "x"),
        ("close", "x"),
        ("disk_fetch", "x"),
        ("disk_evil", "x"),
        ("disk__directory", "/"),
        ("disk_min_file_size", 0),
        ("sqlite_journal_mode", "off"),
        ("sqlite_synchronous", 0),
        ("sqlite_temp_store_directory", "'/tmp'"),
        ("sqlite_writable_schema", 1),
        ("eviction_policy", "least-recently-stored"),
        ("eviction_policy", "nonsense"),
        ("cull_limit", 1000),
        ("size_limit", 1),
        ("statistics", 1),
        ("tag_index", 1),
        ("count", "many"),
    ],
)
def test_planted_settings_take_no_effect(folder: Path, name: str, value: object) -> None:
    """Whatever the Settings table says, the cache works as this program says."""
    edit(folder, "INSERT OR REPLACE INTO Settings VALUES (?, ?)", name, value)
    store = DiskStore(folder)
    store.put_many([(KEY, b"x" * 100_000)])
    assert store.get_many([KEY, OTHER]) == [b"x" * 100_000, b"other"]
    store.close()
    with closing(sqlite3.connect(folder / "cache.db")) as con:
        assert con.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("name", ["cache.db", "cache.db-wal", "cache.db-shm"])
def test_links_in_place_of_the_files_are_refused(folder: Path, victim: Path, name: str) -> None:
    """A symbolic link where a file of the cache should be is not followed, and `clear` removes the link."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    store = DiskStore(folder)
    with pytest.raises(StoreError, match="plain file"):
        store.get_many([KEY])
    with pytest.raises(StoreError, match="plain file"):
        store.put_many([(KEY, b"new")])
    store.clear()
    store.put_many([(KEY, b"new")])
    assert store.get_many([KEY]) == [b"new"]
    store.close()


def test_a_planted_rollback_journal_is_refused(folder: Path) -> None:
    """SQLite would take names of files to delete from a rollback journal; the cache never has one."""
    (folder / "cache.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 600)
    with pytest.raises(StoreError, match="rollback journal"):
        DiskStore(folder).get_many([KEY])


def test_a_lock_file_that_is_a_link_is_not_followed(folder: Path, victim: Path) -> None:
    """A link in place of the file of leases is an error, not a way to another file."""
    (folder / "cache.lock").symlink_to(victim)
    with pytest.raises(StoreError):
        DiskStore(folder).claim_many([KEY])


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    """A diskcache folder of another program is neither read, nor written, nor cleared."""
    with closing(diskcache.Cache(str(tmp_path))) as theirs:
        theirs.set("theirs", "precious")
    store = DiskStore(tmp_path)
    for use in (lambda: store.get_many([KEY]), lambda: store.put_many([(KEY, b"v")]), store.clear):
        with pytest.raises(StoreError, match="another program"):
            use()
    with closing(diskcache.Cache(str(tmp_path))) as theirs:
        assert theirs.get("theirs") == "precious"
