"""Creates and copies Dagster instances in memory."""

import contextlib
import sqlite3
from unittest import mock

import dagster as dg

from tests.leases import LEASES

_STORAGE = "dagster._core.storage"


def memory_instance() -> dg.DagsterInstance:
    """Dagster's ephemeral instance without Alembic's version table, which nothing reads and which takes 0.1 s.

    It is disposed of, with its temporary folder and databases, after the last test of the file.
    """
    stamps = [f"{_STORAGE}.{kind}.in_memory.stamp_alembic_rev" for kind in ("runs", "event_log")]
    with mock.patch(stamps[0]), mock.patch(stamps[1]):
        return LEASES.enter_context(dg.DagsterInstance.ephemeral())


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
