"""Creates the database file of a run, of Dagster's SQLite event log, as a copy of an empty one.

Uses: `SqliteEventLogStorage`, its method `_initdb`, and `create_db_conn_string`.
Why: Dagster creates each run's file with its tables and compares it with its migrations, of which it imports 89 files
twice. That is a sixth of the processor time of a small run, and the result is always the same bytes.
Missing: a setting for it. `ConsolidatedSqliteEventLogStorage` has one file for all runs, which they then wait for.
Fails first: tests/resources/dagster_internals/test_run_databases.py. If Dagster changes these names, the copy is not
made.
"""

import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage  # noqa: TID251 - see above
from dagster._core.storage.sqlite import create_db_conn_string  # noqa: TID251 - see above
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.pool import NullPool

_CREATES = "_initdb"
_EMPTY = "empty"


def copy_run_databases(instance: dg.DagsterInstance) -> None:
    """Make an instance create the files of its runs as copies; without effect if its events are stored elsewhere."""
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage) and hasattr(storage, _CREATES):
        setattr(storage, _CREATES, _Copies(getattr(storage, _CREATES)))


class _Copies:
    """Creates the databases of runs as Dagster's own method does."""

    def __init__(self, create: Callable[..., None]) -> None:
        self._create = create
        self._empty: bytes | None = None

    def __call__(self, engine: Engine, for_index_shard: bool = False) -> None:  # noqa: FBT001, FBT002 - Dagster's
        """Create the database of an engine unless its file is there; the index of all runs as Dagster does."""
        path = Path(engine.url.database or "")
        if for_index_shard or path.exists():
            self._create(engine, for_index_shard)
            return
        if self._empty is None:
            self._empty = self._new()
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        temporary.write_bytes(self._empty)
        try:
            os.link(temporary, path)  # fails if another process was faster
        except OSError:
            self._create(engine, for_index_shard)
        finally:
            temporary.unlink()

    def _new(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            engine = create_engine(create_db_conn_string(folder, _EMPTY), poolclass=NullPool)
            self._create(engine)
            engine.dispose()
            return (Path(folder) / f"{_EMPTY}.db").read_bytes()
