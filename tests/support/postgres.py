"""A real PostgreSQL database for tests, each in a schema of its own."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

VARIABLE = "JUDGE_EVAL_TEST_POSTGRES_URL"


@contextmanager
def using_server(how: int) -> Iterator[None]:
    """Use the database's server: together with others (LOCK_SH), or with nobody beside (LOCK_EX)."""
    with (Path(tempfile.gettempdir()) / f"judge_eval_test_postgres_{os.getuid()}.lock").open("a") as file:
        fcntl.flock(file, how)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough where a process was forked meanwhile


@contextmanager
def schema_of_its_own() -> Iterator[str]:
    """Make a schema in the test database; skips where there is none."""
    given = os.environ.get(VARIABLE)
    if not given:
        message = f"no postgres: set {VARIABLE} to the URL of a database to test with"
        if os.environ.get("JUDGE_EVAL_REQUIRE_CONFORMANCE") == "1":
            pytest.fail(message)
        pytest.skip(message)
    schema = f"judge_eval_{os.getpid()}_{time.monotonic_ns()}"
    execute(given, f"CREATE SCHEMA {schema}")
    parts = urlsplit(given)
    named = f"options=-csearch_path%3D{schema}&application_name={schema}"
    yield urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, named]))))
    execute(given, f"DROP SCHEMA {schema} CASCADE")


def execute(url: str, statement: str) -> None:
    """Run a statement past the store."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
