"""NAME/<latents>/latent_shards: what a frozen encoder makes of one partition's audio shards."""

from collections.abc import Callable

import dagster as dg

from assets.events import OWNER, readable_failures, short_digest
from assets.gates import pass_shards
from assets.keys import DatasetKeys
from assets.metadata import latents_metadata
from assets.partitions import partitions_of
from headrace.config import DatasetConfig, LatentsConfig
from headrace.latents import EncodingOptions, LatentBuild, build_latent_partition
from headrace.reconcile import latent_settings
from resources.encoders import EncoderLoader
from resources.progress import Progress
from resources.storage import StorageResource
from resources.workers import Workers


def latent_shards_asset(config: DatasetConfig, latents: LatentsConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)

    @dg.asset(
        key=keys.latent_shards(latents.name),
        deps=[keys.audio_shards],
        partitions_def=partitions_of(config),
        code_version=short_digest(latents.model_dump_json()),
        pool="gpu",
        group_name=config.name,
        owners=[OWNER],
        kinds={"torch", latents.encoder.kind},
        description=f"Latents of the encoder `{latents.encoder.kind}` as {latents.dtype}: one shard for each audio "
        "shard, with the same keys in the same order. On the GPU where there is one.",
    )
    def latent_shards(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        workers: dg.ResourceParam[Workers],
        encoders: dg.ResourceParam[EncoderLoader],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        pass_shards(context.instance, keys.audio_shards, [context.partition_key])
        partition = context.partition_key
        audio, shards = storage.audio(config), storage.latents(config, latents.name)

        def work(*, num_threads: int, progress: Callable[[int], None]) -> LatentBuild:
            try:
                return build_latent_partition(
                    partition,
                    latent_settings(latents),
                    lambda: encoders.load(latents.encoder),
                    audio,
                    shards,
                    options=EncodingOptions(num_threads=num_threads),
                    progress=progress,
                )
            finally:
                encoders.release()

        with readable_failures():
            build = workers.run(work, progress.built, on_gpu=True)
        version = dg.DataVersion(build.manifest.manifest.digest)
        return dg.MaterializeResult(data_version=version, metadata=latents_metadata(audio, shards, build))

    return latent_shards
