"""One data set's YAML → its assets and checks; several → `Definitions`. The one builder, which tests reuse."""

import os
from collections.abc import Mapping, Sequence

import dagster as dg

from assets.audio_shards import audio_shards_asset
from assets.catalog import catalog_asset
from assets.checks import dataset_checks
from assets.dataset_report import dataset_report_asset
from assets.drift_checks import drift_checks
from assets.latent_shards import latent_shards_asset
from assets.latents_index import latents_index_asset
from assets.loader_smoke_test import loader_smoke_test_asset
from assets.recordings import recordings_asset
from assets.sizes_index import sizes_index_asset
from headrace.config import DatasetConfig
from resources.encoders import EncoderLoader
from resources.environment import workers_of
from resources.progress import Progress
from resources.storage import StorageResource


def dataset_assets(config: DatasetConfig) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The assets of one data set, upstream first."""
    return [
        catalog_asset(config),
        recordings_asset(config),
        audio_shards_asset(config),
        sizes_index_asset(config),
        *(latent_shards_asset(config, latents) for latents in config.latents),
        *(latents_index_asset(config, latents) for latents in config.latents),
        loader_smoke_test_asset(config),
        dataset_report_asset(config),
    ]


def default_resources() -> dict[str, object]:
    """Resources as the daemon and the UI use them. Raises `ConfigError` where the environment names wrong ones."""
    return {
        "storage": StorageResource(),
        "workers": workers_of(os.environ),
        "encoders": EncoderLoader(),
        "progress": Progress(),
    }


def build_definitions(
    configs: Sequence[DatasetConfig], resources: Mapping[str, object] | None = None
) -> dg.Definitions:
    """Definitions of these data sets; `resources` replace the default ones of the same name."""
    return dg.Definitions(
        assets=[asset for config in configs for asset in dataset_assets(config)],
        asset_checks=[
            *(check for config in configs for check in dataset_checks(config)),
            *(drift_checks(config) for config in configs),
        ],
        resources={**default_resources(), **(resources or {})},
        executor=dg.in_process_executor,
    )
