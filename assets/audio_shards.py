"""NAME/audio_shards: the tars of one partition."""

from functools import partial

import dagster as dg

from assets.events import OWNER, readable_failures
from assets.gates import pass_catalog
from assets.keys import DatasetKeys
from assets.metadata import shards_metadata
from assets.partitions import partitions_of
from headrace.config import DatasetConfig
from headrace.reconcile import shard_settings
from headrace.shards import build_partition
from resources.progress import Progress
from resources.storage import StorageResource
from resources.workers import Workers


def audio_shards_asset(config: DatasetConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)
    settings = shard_settings(config)

    @dg.asset(
        key=keys.audio_shards,
        deps=[keys.recordings],
        partitions_def=partitions_of(config),
        code_version=settings.wanted("")[:16],
        group_name=config.name,
        owners=[OWNER],
        kinds={"flac", "webdataset"},
        description="FLAC and JSON in reproducible tars. Only shards that a change touches are written; the data "
        "version is the digest of the partition's manifest.",
    )
    def audio_shards(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        workers: dg.ResourceParam[Workers],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        from headrace.catalog_partitions import partition_recordings  # noqa: PLC0415 - polars: not in a code server

        pass_catalog(context.instance, keys.catalog)
        audio = storage.audio(config)
        with readable_failures():
            recordings = partition_recordings(storage.catalog(config).recordings, config, context.partition_key)
            source = storage.source(config)
            work = partial(build_partition, context.partition_key, recordings, settings, source, audio)
            build = workers.run(work, progress.built)
        digest = build.manifest.manifest.digest
        return dg.MaterializeResult(data_version=dg.DataVersion(digest), metadata=shards_metadata(audio, build))

    return audio_shards
