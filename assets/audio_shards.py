"""The asset NAME/audio_shards: the tar shards of one partition, audio and JSON."""

from collections.abc import Iterator
from functools import partial

import dagster as dg

from headrace.assemble.audio import build_partition
from headrace.assemble.reconcile import shard_settings
from headrace.assemble.samples import planned_samples
from headrace.audio import Codec
from headrace_dagster.assets.checks import ShardChecks
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.gates import pass_catalog
from headrace_dagster.assets.metadata import shards_metadata
from headrace_dagster.assets.partition_runs import PartitionEvent, backfill_policy_of, make_partitions
from headrace_dagster.assets.partitions import partitions_of
from headrace_dagster.assets.progress_lines import ProgressLines, both
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.superseded import while_audio_is_wanted
from headrace_dagster.resources.environment import cluster_of, counted_threads
from headrace_dagster.resources.progress import BuildProgress
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import Workers

_CODEC_KINDS = {Codec.FLAC: {"flac"}, Codec.OPUS: {"opus"}, Codec.COPY: set[str]()}


def audio_shards_asset(dataset: ProjectDataset) -> dg.AssetsDefinition:
    """The asset NAME/audio_shards of a data set, partitioned."""
    config, keys = dataset.config, dataset.keys
    settings = shard_settings(config)

    @dg.asset(
        key=keys.audio_shards,
        deps=[keys.recordings, keys.catalog],  # the catalog orders them in a backfill, see CATALOG_VERSION
        partitions_def=partitions_of(config),
        backfill_policy=backfill_policy_of(config),
        output_required=False,  # without one, the run is superseded
        code_version=settings.wanted("")[:16],
        group_name=config.name,
        owners=config.owners,
        kinds={"webdataset"} | _CODEC_KINDS[settings.audio.codec],
        description="Audio and JSON in tar shards; the same recordings give the same bytes. Writes only shards whose "
        "samples changed. The data version is the digest of the partition's manifest.",
    )
    def audio_shards(
        context: dg.AssetExecutionContext,
        headrace_storage: StorageResource,
        headrace_workers: dg.ResourceParam[Workers],
        headrace_progress: dg.ResourceParam[BuildProgress],
    ) -> Iterator[PartitionEvent]:
        from headrace.catalog.stored.parts import partition_recordings  # noqa: PLC0415 - polars: not in a code server

        pass_catalog(context.instance, keys.catalog)
        with readable_failures():
            audio = headrace_storage.audio(config)

        def make(partition: str) -> dg.MaterializeResult[None]:
            output = headrace_storage.output(config)
            with readable_failures(), while_audio_is_wanted(context, config, output, partition):
                recordings = partition_recordings(output, config, partition)
                source = headrace_storage.late_source(config)
                num_samples = len(planned_samples(recordings, settings.audio)[0])
                lines = ProgressLines(
                    context.log.info, f"audio of {partition}", cluster_of(headrace_workers) or "the CPU", num_samples
                )
                lines.begin(f"as {settings.audio.codec}, {counted_threads(headrace_workers)}")
                work = partial(build_partition, partition, recordings, settings, source, audio)
                build = headrace_workers.run(work, both(headrace_progress.built, lines.add))
            version = dg.DataVersion(build.manifest.digest)
            return dg.MaterializeResult(data_version=version, metadata=shards_metadata(audio, build, settings))

        checks = ShardChecks(config, keys.audio_shards, None)
        yield from make_partitions(context, keys.audio_shards, make, checks.of_build(context, headrace_storage))

    return audio_shards
