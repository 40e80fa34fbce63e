"""Keeps the SQLite databases of Dagster's events and runs open between statements.

Uses: `SqliteEventLogStorage`, its methods `_connect` and `path_for_shard`, its set `_initialized_dbs` and its lock
`_db_lock`; of `SqliteRunStorage`, its method `connect` and its `_conn_string`; the method `dispose` of both.
Why: Dagster makes a new engine for every statement: a run of 20 events opens and closes databases 70 times, and
compiles each statement again. That is half of the processor time of a small run.
Missing: a setting for it. PostgreSQL has one engine for all statements, with a pool.
Fails first: tests/resources/dagster_internals/test_open_databases.py. If Dagster changes these names, databases are not
kept open.

At most three files are open: the index of all runs, the events of one run, and the table of runs. Other processes write
to them as before, as no transaction is left open.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage  # noqa: TID251 - see above
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.pool import QueuePool

_INDEX = "index"
_BUSY_SECONDS = 30  # as Dagster waits for another process that writes events
_EVENT_NAMES = ("_connect", "_initialized_dbs", "_db_lock", "path_for_shard", "dispose")
_SQLITE_FILE = "sqlite:////"


def keep_databases_open(instance: dg.DagsterInstance) -> None:
    """Make an instance keep its databases open until it is disposed; without effect if they are not SQLite files."""
    events, runs = instance.event_log_storage, instance.run_storage
    if isinstance(events, SqliteEventLogStorage) and all(hasattr(events, name) for name in _EVENT_NAMES):
        databases = _EventDatabases(events)
        events.__dict__["_connect"] = databases.connect
        events.__dict__["dispose"] = _both(databases.close, events.dispose)
    url = str(getattr(runs, "_conn_string", ""))
    if url.startswith(_SQLITE_FILE):
        database, path = _Database(), str(make_url(url).database)
        runs.__dict__["connect"] = lambda: database.connect(path)
        runs.__dict__["dispose"] = _both(database.close, runs.dispose)


def closed_events(instance: dg.DagsterInstance) -> Path | None:
    """The SQLite file with the events of all runs, closed, so that it has them all; None if they are stored elsewhere.

    The next statement opens it again.
    """
    events = instance.event_log_storage
    if not isinstance(events, SqliteEventLogStorage) or not hasattr(events, "path_for_shard"):
        return None
    events.dispose()
    return Path(events.path_for_shard(_INDEX))


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


class _Database:
    """Connections to one file at a time; the statements that were compiled for one file serve for the next."""

    def __init__(self) -> None:
        self._path = ""
        self._engine = create_engine("sqlite://", creator=self._open, poolclass=QueuePool)

    @contextlib.contextmanager
    def connect(self, path: str) -> Iterator[Connection]:
        """A block with a transaction, committed at its end. A file other than before closes the one before."""
        if path != self._path:
            self.close()
            self._path = path
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close the file; `connect` opens it again."""
        self._engine.dispose()

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_BUSY_SECONDS, check_same_thread=False)


class _EventDatabases:
    """The index of all runs, and the events of the run that was used last."""

    def __init__(self, storage: SqliteEventLogStorage) -> None:
        self._storage = storage
        self._connect_first: Callable[[str], AbstractContextManager[Connection]] = storage._connect  # noqa: SLF001
        self._index, self._run = _Database(), _Database()

    @contextlib.contextmanager
    def connect(self, shard: str) -> Iterator[Connection]:
        """A connection to a database, of which Dagster itself makes the first, as it creates the database."""
        if shard not in self._storage._initialized_dbs:  # noqa: SLF001
            with self._connect_first(shard) as connection:
                yield connection
            return
        with self._storage._db_lock:  # noqa: SLF001 - one thread at a time, as in Dagster
            database = self._index if shard == _INDEX else self._run
            with database.connect(self._storage.path_for_shard(shard)) as connection:
                yield connection

    def close(self) -> None:
        """Close both files."""
        with self._storage._db_lock:  # noqa: SLF001
            self._index.close()
            self._run.close()
