"""A build without Dagster, in a separate process that `test_kill` can kill at any moment."""

from pathlib import Path

from headrace.build.audio import build_partition
from headrace.build.commit import commit_partitions
from headrace.build.reconcile import shard_settings, wanted_partitions
from headrace.build.staleness import plan_build
from headrace.catalog.partitions import partition_fingerprints, partition_recordings
from headrace.catalog.update import existing_catalog, store_decode_rejects, update_catalog
from headrace.config.dataset import load_config
from headrace.format.manifests import newest_manifests
from headrace_dagster.resources.storage import StorageResource


def build(yaml: Path) -> None:
    """Bring the dataset up to date, stage by stage, as `build.py` does."""
    config, stores = load_config(yaml), StorageResource()
    source, output, audio = stores.source(config), stores.output(config), stores.audio(config)
    update_catalog(config, source, None, output)
    catalog = existing_catalog(output)
    wanted = wanted_partitions(partition_fingerprints(catalog.recordings, config), config)
    for partition in plan_build(wanted, newest_manifests(audio)).stale:
        recordings = partition_recordings(catalog.recordings, config, partition)
        build_partition(partition, recordings, shard_settings(config), source, audio, num_threads=2)
    _, _, manifests = commit_partitions(audio, wanted, catalog.digest)
    store_decode_rejects(output, catalog, manifests, config)
