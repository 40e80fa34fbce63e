"""Stops an asset whose inputs failed their checks, also when they failed in an earlier run.

Dagster's blocking checks stop only assets of the same run. The functions here read the last result of each check from
the instance, so that no snapshot is committed with a partition that failed in an earlier run.
"""

import hashlib
import re
from collections.abc import Collection

import dagster as dg

from headrace.config.content import LatentsConfig
from headrace_dagster.resources.dagster_internals.event_log import CheckResult, check_results, partition_check_results

CATALOG_CHECKS = ("conservation", "has_recordings", "schema")
"""Checks of the catalog whose failure stops all later assets. Drift only warns."""
SHARD_CHECKS = ("conservation", "index_matches_tar")
"""Checks of each partition of audio and latent shards."""

_SHOWN = 5


def checks_of_latents(latents: LatentsConfig) -> tuple[str, ...]:
    """Checks of a set of latents: those of shards, and one for each column that is declared frame-aligned."""
    return (*SHARD_CHECKS, *(alignment_check(column) for column in latents.frame_aligned))


def alignment_check(column: str) -> str:
    """Name of the check that a column has one entry per latent frame.

    Each column has its own check. A column that is declared later has no result yet, and so its check runs. Names of
    checks may have letters, digits and underscores only: other characters become underscores, and a digest of the
    column's name keeps two such names distinct.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", column)
    mark = "" if name == column else "_" + hashlib.sha256(column.encode()).hexdigest()[:8]
    return f"frame_aligned_{name}{mark}"


def failed_catalog(instance: dg.DagsterInstance, catalog: dg.AssetKey) -> list[str]:
    """Names of the catalog's checks whose last result is a failure."""
    checks = [dg.AssetCheckKey(catalog, name) for name in CATALOG_CHECKS]
    results = check_results(instance, checks)
    return sorted(check.name for check, result in results.items() if result is CheckResult.FAILED)


def failed_shards(
    instance: dg.DagsterInstance,
    shards: dg.AssetKey,
    partitions: Collection[str],
    checks: Collection[str] = SHARD_CHECKS,
) -> dict[str, list[str]]:
    """By partition, the names of its checks whose last result is a failure."""
    keys = [dg.AssetCheckKey(shards, name) for name in checks]
    found: dict[str, list[str]] = {}
    only = list(partitions) if len(partitions) == 1 else None  # of all, a database takes no list that long
    for (check, partition), result in partition_check_results(instance, keys, only).items():
        if partition in partitions and result is CheckResult.FAILED:
            found.setdefault(partition, []).append(check.name)
    return found


def pass_catalog(instance: dg.DagsterInstance, catalog: dg.AssetKey) -> None:
    """Raise if the catalog failed one of its checks.

    Raises:
        dg.Failure: names the failed checks.
    """
    if failed := failed_catalog(instance, catalog):
        raise _failure(catalog, failed)


def pass_shards(
    instance: dg.DagsterInstance,
    shards: dg.AssetKey,
    partitions: Collection[str],
    checks: Collection[str] = SHARD_CHECKS,
) -> None:
    """Raise if one of these partitions failed one of its checks.

    Raises:
        dg.Failure: names the partitions and their failed checks.
    """
    if failed := failed_shards(instance, shards, partitions, checks):
        raise _failure(shards, [f"{partition} ({', '.join(names)})" for partition, names in sorted(failed.items())])


def _failure(key: dg.AssetKey, failed: list[str]) -> dg.Failure:
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    return dg.Failure(
        f"{'/'.join(key.path)}: checks failed: {'; '.join(failed[:_SHOWN])}{more}; readers keep the "
        "previous snapshot. The results of the checks say why; correct the cause, then materialize it again",
        allow_retries=False,
    )
