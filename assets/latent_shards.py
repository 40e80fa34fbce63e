"""The asset NAME/<latents>_latent_shards: latents of one partition, encoded from its audio shards."""

from collections.abc import Callable, Iterator, Sequence

import dagster as dg

from headrace.assemble.centroids import with_centroids
from headrace.assemble.latents import build_latent_partition
from headrace.assemble.latents_together import BuiltOrError, LatentSet, build_latent_partitions
from headrace.assemble.reconcile import latent_settings
from headrace.assemble.update import PartitionBuild
from headrace.config.content import LatentsConfig
from headrace.errors import DeviceMemoryError, HeadraceError
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import Storage
from headrace_dagster.assets.checks import ShardChecks
from headrace_dagster.assets.events import readable_failures, short_digest
from headrace_dagster.assets.gates import pass_shards
from headrace_dagster.assets.metadata import latents_metadata
from headrace_dagster.assets.partition_runs import PartitionEvent, backfill_policy_of, make_partitions
from headrace_dagster.assets.partitions import partitions_of
from headrace_dagster.assets.progress_lines import ProgressLines, both
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.shared_latents import SharedLatents
from headrace_dagster.assets.superseded import while_audio_is_current
from headrace_dagster.resources.encoders import Encoders
from headrace_dagster.resources.environment import cluster_of, counted_threads
from headrace_dagster.resources.progress import BuildProgress
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import Workers


def latent_shards_asset(dataset: ProjectDataset, latents: LatentsConfig, shared: SharedLatents) -> dg.AssetsDefinition:
    """The asset NAME/<latents>_latent_shards of a data set, partitioned; `shared` is that of all its sets."""
    config, keys = dataset.config, dataset.keys
    texts, _ = config.text_column(latents)

    @dg.asset(
        key=keys.latent_shards(latents.name),
        deps=[
            keys.audio_shards,
            *([keys.columns(texts)] if texts else []),
            *([keys.centroids(latents.name)] if latents.fits_centroids else []),
        ],
        partitions_def=partitions_of(config),
        backfill_policy=backfill_policy_of(config),
        output_required=False,  # without one, the run is superseded
        code_version=short_digest(latents.model_dump_json()),
        pool="gpu",
        group_name=config.name,
        owners=config.owners,
        kinds={"torch", latents.encoder.kind},
        description=f"Latents of the encoder `{latents.encoder.kind}` {_of_column(latents)}as {latents.dtype}: one "
        "shard for each audio shard, with the same keys in the same order. Runs on the GPUs of the machine, or on its "
        "CPU without any.",
    )
    def latent_shards(
        context: dg.AssetExecutionContext,
        headrace_storage: StorageResource,
        headrace_workers: dg.ResourceParam[Workers],
        headrace_encoders: dg.ResourceParam[Encoders],
        headrace_progress: dg.ResourceParam[BuildProgress],
    ) -> Iterator[PartitionEvent]:
        # What is sent to a cluster has folders, and not the resource, which Dagster has bound to this process.
        with readable_failures():
            audio, shards = headrace_storage.audio(config), headrace_storage.latents(config, latents.name)
            columns = headrace_storage.columns(config, texts) if texts else None
            folders = {one.name: headrace_storage.latents(config, one.name) for one in config.latents}

        def make(partition: str) -> dg.MaterializeResult[None]:
            pass_shards(context.instance, keys.audio_shards, [partition])
            with readable_failures():
                made = with_centroids(latents, shards)

            def work(*, num_threads: int, progress: Callable[[int], None]) -> PartitionBuild:
                return build_latent_partition(
                    partition,
                    latent_settings(made),
                    lambda: headrace_encoders.load(made.encoder),
                    audio,
                    shards,
                    options=headrace_encoders.options(num_threads),
                    progress=progress,
                    columns=columns,
                )

            def work_together(*, num_threads: int, progress: Callable[[int], None]) -> dict[str, BuiltOrError]:
                sets = [_set_of(one, folders[one.name], headrace_encoders, together) for one in together]
                options = headrace_encoders.options(num_threads)
                return build_latent_partitions(partition, sets, audio, options=options, progress=progress)

            def progress(sets: Sequence[LatentsConfig]) -> Callable[[int], None]:
                found, options = newest_manifest(audio, partition), headrace_encoders.options(headrace_workers.count)
                where = cluster_of(headrace_workers) or headrace_encoders.devices_in_words()
                num_samples = len(sets) * (found.manifest.num_samples if found else 0)
                what = f"{', '.join(one.name for one in sets)} of {partition}"
                lines = ProgressLines(context.log.info, what, where, num_samples)
                lines.begin(f"batches of {options.batch_in_words}, {counted_threads(headrace_workers)}")
                return both(headrace_progress.built, lines.add)

            output = headrace_storage.output(config)
            with readable_failures(), while_audio_is_current(context, config, keys, output, partition):
                settings = latent_settings(made)
                build = shared.take(context.run.run_id, partition, made)
                if build is None and (others := shared.beside(context, latents, headrace_storage)):
                    together = [made, *others]
                    built = headrace_workers.run(work_together, progress(together), on_gpu=True)
                    build = built.pop(latents.name)
                    shared.put(context.run.run_id, partition, others, built)
                if isinstance(build, HeadraceError) and not isinstance(build, DeviceMemoryError):
                    raise build
                if not isinstance(build, PartitionBuild):  # for example without memory for the models of all sets
                    build = headrace_workers.run(work, progress([made]), on_gpu=True)
            version = dg.DataVersion(build.manifest.digest)
            return dg.MaterializeResult(data_version=version, metadata=latents_metadata(audio, shards, build, settings))

        key = keys.latent_shards(latents.name)
        checks = ShardChecks(config, key, latents)
        try:
            yield from make_partitions(context, key, make, checks.of_build(context, headrace_storage))
        finally:
            headrace_encoders.release()  # all partitions of the run use the same encoder

    return latent_shards


def _set_of(
    latents: LatentsConfig, shards: Storage, encoders: Encoders, together: Sequence[LatentsConfig]
) -> LatentSet:
    """A set that is made with others, whose encoders stay loaded."""
    kept = [one.encoder for one in together]
    return LatentSet(latents.name, latent_settings(latents), lambda: encoders.load(latents.encoder, kept), shards)


def _of_column(latents: LatentsConfig) -> str:
    return f"of the column `{latents.column}` " if latents.column else ""
