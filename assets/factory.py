"""Builds the assets, checks and resources of data sets from their configuration."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg

from headrace.encoders.weights import look_below
from headrace_dagster.assets.audio_shards import audio_shards_asset
from headrace_dagster.assets.catalog import catalog_asset
from headrace_dagster.assets.centroids import centroids_asset
from headrace_dagster.assets.checks import dataset_checks
from headrace_dagster.assets.columns import columns_asset, columns_index_asset
from headrace_dagster.assets.dataset_report import dataset_report_asset
from headrace_dagster.assets.drift_checks import drift_checks
from headrace_dagster.assets.latent_shards import latent_shards_asset
from headrace_dagster.assets.latents_index import latents_index_asset
from headrace_dagster.assets.loader_smoke_test import loader_smoke_test_asset
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.recordings import recordings_asset
from headrace_dagster.assets.regression_checks import decoding_regressions
from headrace_dagster.assets.shared_latents import SharedLatents
from headrace_dagster.assets.sizes_index import sizes_index_asset
from headrace_dagster.assets.source_checks import source_checks
from headrace_dagster.assets.views import view_asset
from headrace_dagster.resources.encoders import EncodersResource
from headrace_dagster.resources.environment import workers_of
from headrace_dagster.resources.progress import BuildProgress
from headrace_dagster.resources.storage import StorageResource


def dataset_assets(dataset: ProjectDataset) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The assets of one data set, upstream first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill policies, with runs.partitions_per_run
        return _dataset_assets(dataset)


def _dataset_assets(dataset: ProjectDataset) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    shared = SharedLatents(dataset)
    return [
        catalog_asset(dataset),
        recordings_asset(dataset),
        audio_shards_asset(dataset),
        sizes_index_asset(dataset),
        *(columns_asset(dataset, name) for name in dataset.config.column_sets),
        *(columns_index_asset(dataset, name) for name in dataset.config.column_sets),
        *(centroids_asset(dataset, latents) for latents in dataset.config.latents if latents.fits_centroids),
        *(latent_shards_asset(dataset, latents, shared) for latents in dataset.config.latents),
        *(latents_index_asset(dataset, latents) for latents in dataset.config.latents),
        *(view_asset(dataset, name) for name in dataset.config.views),
        loader_smoke_test_asset(dataset),
        dataset_report_asset(dataset),
    ]


def default_resources(root: Path) -> dict[str, object]:
    """The resources that the assets need, by resource key; relative URIs, and files of encoders, are below `root`.

    Raises:
        ConfigError: a variable of the environment that configures one is invalid.
    """
    look_below(root)
    return {
        "headrace_storage": StorageResource(root=str(root)),
        "headrace_workers": workers_of(os.environ),
        "headrace_encoders": EncodersResource(),
        "headrace_progress": BuildProgress(),
    }


def build_assets(datasets: Sequence[ProjectDataset], resources: Mapping[str, object]) -> dg.Definitions:
    """Assets and checks of several data sets, with the resources that they need (`default_resources`)."""
    return dg.Definitions(
        assets=[asset for dataset in datasets for asset in dataset_assets(dataset)],
        asset_checks=[
            *(check for dataset in datasets for check in dataset_checks(dataset)),
            *(drift_checks(dataset) for dataset in datasets),
            *(decoding_regressions(dataset) for dataset in datasets),
            *(source_checks(dataset) for dataset in datasets),
        ],
        resources=resources,
    )
