"""Checks as gates: what failed its check stays where it is, whoever starts the next step.

Dagster's blocking checks hold back assets of the same run only. These look at the last verdicts that the instance
knows, so that a snapshot cannot be committed over a partition that failed in an earlier run.
"""

import hashlib
import re
from collections.abc import Collection

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from headrace.config import LatentsConfig

CATALOG_CHECKS = ("conservation", "has_recordings", "schema")
"""Those of the catalog that nothing may pass; drift only warns."""
SHARD_CHECKS = ("conservation", "index_matches_tar")
"""Those of audio and latent shards, by partition."""

_FAILED = AssetCheckExecutionRecordStatus.FAILED
_SHOWN = 5


def checks_of_latents(latents: LatentsConfig) -> tuple[str, ...]:
    """Those of one set of latents: of shards, and one for each column that is declared frame-aligned."""
    return (*SHARD_CHECKS, *(alignment_check(column) for column in latents.frame_aligned))


def alignment_check(column: str) -> str:
    """Name of the check that a column has one entry per latent frame.

    Each column has a check of its own, so that one declared later has no verdict yet and is checked. Dagster takes
    letters, digits and underscores; a digest keeps apart what is equal without the other characters.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", column)
    mark = "" if name == column else "_" + hashlib.sha256(column.encode()).hexdigest()[:8]
    return f"frame_aligned_{name}{mark}"


def failed_catalog(instance: dg.DagsterInstance, catalog: dg.AssetKey) -> list[str]:
    """Names of the catalog's checks whose last verdict is a failure."""
    checks = [dg.AssetCheckKey(catalog, name) for name in CATALOG_CHECKS]
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return sorted(check.name for check, record in records.items() if record.status == _FAILED)


def failed_shards(
    instance: dg.DagsterInstance,
    shards: dg.AssetKey,
    partitions: Collection[str],
    checks: Collection[str] = SHARD_CHECKS,
) -> dict[str, list[str]]:
    """Partition → names of its checks whose last verdict is a failure."""
    keys = [dg.AssetCheckKey(shards, name) for name in checks]
    found: dict[str, list[str]] = {}
    for info in instance.event_log_storage.get_asset_check_partition_info(keys):
        if info.partition_key in partitions and info.latest_execution_status == _FAILED:
            found.setdefault(str(info.partition_key), []).append(info.check_key.name)
    return found


def pass_catalog(instance: dg.DagsterInstance, catalog: dg.AssetKey) -> None:
    """Go on only if the catalog passed its checks.

    Raises:
        dg.Failure: names what failed.
    """
    if failed := failed_catalog(instance, catalog):
        raise _refusal(catalog, failed)


def pass_shards(
    instance: dg.DagsterInstance,
    shards: dg.AssetKey,
    partitions: Collection[str],
    checks: Collection[str] = SHARD_CHECKS,
) -> None:
    """Go on only if these partitions passed their checks.

    Raises:
        dg.Failure: names partitions and checks.
    """
    if failed := failed_shards(instance, shards, partitions, checks):
        raise _refusal(shards, [f"{partition} ({', '.join(names)})" for partition, names in sorted(failed.items())])


def _refusal(key: dg.AssetKey, failed: list[str]) -> dg.Failure:
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    return dg.Failure(
        f"{'/'.join(key.path)}: checks failed: {'; '.join(failed[:_SHOWN])}{more}; readers keep the snapshot from "
        "before. The checks say why; mend it, then materialize it again",
        allow_retries=False,
    )
