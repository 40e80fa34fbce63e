"""A data set of six tiny partitions, of which a run builds up to four, and what Dagster records of them."""

import dagster as dg

from headrace_dagster.assets.tags import (
    PARTITION_TAG,
    partitions_of_run,
)
from headrace_dagster.resources.dagster_internals.event_log import CheckResult, partition_check_results
from tests.support.daemons import Daemon
from tests.support.projects import Project

LAYOUT = ["test-0000", "test-0001", "train-0000", "train-0001", "train-0002", "train-0003"]
PARTITIONED = ["audio_shards", "metadata_columns", "mel_latent_shards"]
CHECKED = ["audio_shards", "mel_latent_shards"]
LAST = ("sizes_index", "metadata_columns_index", "mel_sizes_index", "loader_smoke_test", "dataset_report")
CHECKS = ("conservation", "index_matches_tar")


def project_in(folder, partitions_per_run) -> Project:
    project = Project(folder)
    project.write_tones(18)
    project.write_yaml(
        shards={"samples_per_shard": 2, "partitions": {"train": 4, "test": 2}},
        latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}],
        runs={"partitions_per_run": partitions_per_run},
    )
    return project


def scanned_daemon(folder) -> Daemon:
    """A daemon whose source has been scanned; nothing is built."""
    daemon = Daemon(project_in(folder, 4))
    (scan,) = daemon.tick("source_changes")
    assert daemon.run(scan).success
    return daemon


def key(name) -> dg.AssetKey:
    return dg.AssetKey(["tones", name])


def partitions_of(request) -> tuple[str, ...]:
    tags = dict(request.tags)
    if request.partition_key is not None:
        tags[PARTITION_TAG] = request.partition_key
    return partitions_of_run(dg.DagsterRun("job", tags=tags), LAYOUT)


def asked_for(daemon) -> list[tuple[tuple[str, ...], list[str]]]:
    """The partitions and the partitioned assets of each run that a tick asks for."""
    return [
        (partitions_of(request), [key.path[-1] for key in request.asset_selection if key.path[-1] in PARTITIONED])
        for request in daemon.tick("stale_partitions")
    ]


def events_of(daemon, name) -> dict[str, list[dg.AssetMaterialization]]:
    """All materializations of an asset by partition, oldest first."""
    found = daemon.instance.fetch_materializations(key(name), limit=1000, ascending=True).records
    return {
        partition: [record.asset_materialization for record in found if record.partition_key == partition]
        for partition in [*LAYOUT, None]
    }


def passed(daemon, name) -> set[str]:
    """Partitions of an asset of which all checks have passed."""
    results = partition_check_results(daemon.instance, [dg.AssetCheckKey(key(name), check) for check in CHECKS])
    assert {partition for _, partition in results} <= set(LAYOUT)  # and not the None of a whole range
    return {
        partition
        for partition in LAYOUT
        if {results.get((dg.AssetCheckKey(key(name), check), partition)) for check in CHECKS} == {CheckResult.PASSED}
    }
