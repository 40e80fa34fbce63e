"""Creates and copies Dagster instances in memory."""

import contextlib
import sqlite3
import weakref
from collections.abc import Iterator
from unittest import mock

import dagster as dg
import sqlalchemy
from sqlalchemy.pool import QueuePool

from tests.support.leases import LEASES

_STORAGE = "dagster._core.storage"


def memory_instance() -> dg.DagsterInstance:
    """Dagster's ephemeral instance without Alembic's version table, which nothing reads and which takes 0.1 s.

    It keeps its connections, and is disposed of, with its temporary folder and databases, after the last test of the
    file.
    """
    stamps = [f"{_STORAGE}.{kind}.in_memory.stamp_alembic_rev" for kind in ("runs", "event_log")]
    with mock.patch(stamps[0]), mock.patch(stamps[1]):
        instance = LEASES.enter_context(dg.DagsterInstance.ephemeral())
    _store_what_is_read(instance.event_log_storage)
    _keep_connections(instance.run_storage, "connect", contextlib.nullcontext())
    _keep_connections(instance.event_log_storage, "_connect", instance.event_log_storage._db_lock)
    return instance


_INDEXES = weakref.WeakKeyDictionary()
_new_index = dg.JobDefinition.get_job_index


def _kept_index(job: dg.JobDefinition) -> object:
    """The snapshot of a whole job, made once: each run in this process has a copy of the job, with the same graph."""
    if job.asset_selection_data or job.op_selection_data:
        return _new_index(job)
    if job.graph not in _INDEXES:
        _INDEXES[job.graph] = _new_index(job)
    return _INDEXES[job.graph]


dg.JobDefinition.get_job_index = _kept_index

_UNREAD = {
    *(dg.DagsterEventType.RESOURCE_INIT_STARTED, dg.DagsterEventType.RESOURCE_INIT_SUCCESS),
    *(dg.DagsterEventType.STEP_INPUT, dg.DagsterEventType.STEP_OUTPUT, dg.DagsterEventType.LOADED_INPUT),
    *(dg.DagsterEventType.HANDLED_OUTPUT, dg.DagsterEventType.ENGINE_EVENT, dg.DagsterEventType.LOGS_CAPTURED),
    *(dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_SUCCESS),
}


def _store_what_is_read(storage: object) -> None:
    """Leave out events of a run's inside, which no sensor or test looks for: each takes a millisecond to store."""
    store = storage.store_event

    def store_event(event: dg.EventLogEntry) -> None:
        if event.dagster_event is None or event.dagster_event.event_type not in _UNREAD:
            store(event)

    storage.store_event = store_event


def _keep_connections(storage: object, method: str, lock: contextlib.AbstractContextManager) -> None:
    """Let a storage in memory use its connections again: a new one for each statement takes a fifth of a run's time."""
    engine = sqlalchemy.create_engine(
        storage._engine.url, poolclass=QueuePool, connect_args={"check_same_thread": False}
    )
    sqlalchemy.event.listen(engine, "connect", lambda made, _: made.execute("PRAGMA foreign_keys=ON").close())
    storage._engine = engine

    @contextlib.contextmanager
    def connect() -> Iterator[sqlalchemy.Connection]:
        with lock, engine.connect() as connection, connection.begin():
            yield connection

    setattr(storage, method, connect)


class History:
    """A copy of an in-memory instance, taken when the object is created."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._kept = [
            LEASES.enter_context(contextlib.closing(sqlite3.connect(":memory:"))) for _ in _databases(instance)
        ]
        for database, kept in zip(_databases(instance), self._kept, strict=True):
            database.backup(kept)

    def put_back(self) -> None:
        """Restore the content of the instance."""
        for database, kept in zip(_databases(self._instance), self._kept, strict=True):
            kept.backup(database)


def _databases(instance: dg.DagsterInstance) -> list[sqlite3.Connection]:
    """The connections that keep the databases of an in-memory instance alive."""
    storages = (instance.run_storage, instance.event_log_storage)
    return [storage._held_conn.connection.dbapi_connection for storage in storages]
