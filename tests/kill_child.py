"""A build by the library alone, as a process of its own that `test_kill` may end at any moment."""

from pathlib import Path

from headrace.catalog_partitions import partition_fingerprints, partition_recordings
from headrace.catalog_update import existing_catalog, store_refusals, update_catalog
from headrace.commit import commit_partitions
from headrace.config import load_config
from headrace.manifests import newest_manifests
from headrace.reconcile import plan_build, shard_settings, wanted_partitions
from headrace.shards import build_partition
from resources.storage import StorageResource


def build(yaml: Path) -> None:
    """Bring the data set up to date, stage by stage as `build.py` does."""
    config, stores = load_config(yaml), StorageResource()
    source, output, audio = stores.source(config), stores.output(config), stores.audio(config)
    update_catalog(config, source, None, output)
    catalog = existing_catalog(output)
    wanted = wanted_partitions(partition_fingerprints(catalog.recordings, config), config)
    for partition in plan_build(wanted, newest_manifests(audio)).stale:
        recordings = partition_recordings(catalog.recordings, config, partition)
        build_partition(partition, recordings, shard_settings(config), source, audio, num_threads=2)
    _, _, manifests = commit_partitions(audio, wanted, catalog.digest)
    store_refusals(output, catalog, manifests, config)
