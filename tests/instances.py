"""Dagster instances in memory: made cheaply, and copied."""

import sqlite3
from unittest import mock

import dagster as dg

_STORAGE = "dagster._core.storage"


def memory_instance() -> dg.DagsterInstance:
    """Dagster's ephemeral instance without Alembic's stamp, which nothing reads and which takes 0.1 s."""
    stamps = [f"{_STORAGE}.{kind}.in_memory.stamp_alembic_rev" for kind in ("runs", "event_log")]
    with mock.patch(stamps[0]), mock.patch(stamps[1]):
        return dg.DagsterInstance.ephemeral()


class History:
    """What an instance in memory knew when this was made."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._kept = [sqlite3.connect(":memory:") for _ in _databases(instance)]
        for database, kept in zip(_databases(instance), self._kept, strict=True):
            database.backup(kept)

    def put_back(self) -> None:
        """Let the instance know that again, and nothing else."""
        for database, kept in zip(_databases(self._instance), self._kept, strict=True):
            kept.backup(database)


def _databases(instance: dg.DagsterInstance) -> list[sqlite3.Connection]:
    """The connections by which an instance in memory holds on to its databases."""
    storages = (instance.run_storage, instance.event_log_storage)
    return [storage._held_conn.connection.dbapi_connection for storage in storages]
