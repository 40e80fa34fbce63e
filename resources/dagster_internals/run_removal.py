"""Removes a run with everything that it left in the instance.

Uses: `SqlEventLogStorage.index_connection` and the table `AssetCheckExecutionsTable`; `SqliteEventLogStorage` and its
`path_for_shard`; `DagsterInstance.compute_log_manager`.
Why: `DagsterInstance.delete_run`, the public way, leaves the rows of asset checks, the captured output, and for SQLite
an empty database file per run. An instance that is built in every night would grow without limit.
Missing: a public call that deletes these, or a retention setting for runs.
Fails first: tests/assets/test_history.py; on PostgreSQL, tests/live/test_postgres.py.
"""

from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage  # noqa: TID251 - see above
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable  # noqa: TID251 - see above


def remove_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove a run: its record and events, its captured output, and what `delete_run` leaves behind."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        _remove_check_rows(storage, run_id)
    if isinstance(storage, SqliteEventLogStorage):  # Dagster empties the run's database file and keeps it
        for suffix in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)


def _remove_check_rows(storage: SqlEventLogStorage, run_id: str) -> None:
    """Remove a run's rows in the table of asset checks, except the last result of a check of a partition."""
    rows, others = AssetCheckExecutionsTable, AssetCheckExecutionsTable.alias()
    is_same_check = sa.and_(
        others.c.asset_key == rows.c.asset_key,
        others.c.check_name == rows.c.check_name,
        others.c.partition.is_not_distinct_from(rows.c.partition),
    )
    later = sa.exists().where(is_same_check, others.c.id > rows.c.id).correlate(rows)
    with storage.index_connection() as connection:
        connection.execute(rows.delete().where(rows.c.run_id == run_id, later))
