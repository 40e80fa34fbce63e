"""The asset NAME/<latents>_centroids: the centroids of `kind: kmeans` with `num_codes`, fitted once and kept."""

import dagster as dg

from headrace.assemble.centroids import fit_and_store, newest_centroids
from headrace.config.content import LatentsConfig
from headrace.encoders.kmeans import parsed_settings
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.metadata import location
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.encoders import Encoders
from headrace_dagster.resources.storage import StorageResource


class CentroidsRun(dg.Config):
    """Launch config of the asset."""

    refit: bool = False


def centroids_asset(dataset: ProjectDataset, latents: LatentsConfig) -> dg.AssetsDefinition:
    """The asset NAME/<latents>_centroids of a data set."""
    own, keys = dataset.config, dataset.keys

    @dg.asset(
        key=keys.centroids(latents.name),
        deps=[keys.sizes_index],
        pool="gpu",
        group_name=own.name,
        owners=own.owners,
        kinds={"torch"},
        description="The centroids of these units, fitted to frames of at most 1,000 samples of the first split. They "
        "stay as they are when the data changes; the launch config `refit: true` fits them again, and all units after "
        "them.",
    )
    def centroids(
        config: CentroidsRun, headrace_storage: StorageResource, headrace_encoders: dg.ResourceParam[Encoders]
    ) -> dg.MaterializeResult[None]:
        with readable_failures():
            audio, storage = headrace_storage.audio(own), headrace_storage.latents(own, latents.name)
            settings = parsed_settings(latents.encoder.settings)
            name = newest_centroids(storage, settings)
            num_frames = 0
            if name is None or config.refit:
                field, split = latents.audio_field or "", next(iter(own.splits))
                name, num_frames = fit_and_store(audio, storage, settings, field, split, headrace_encoders.load)
                headrace_encoders.release()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(name.rpartition("-")[2]),
            metadata={"file": location(storage, name), **({"frames": num_frames} if num_frames else {})},
        )

    return centroids
