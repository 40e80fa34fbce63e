"""Computes what each partition of a data set should be built from.

`headrace.assemble.staleness` compares the result with the manifests, and `headrace.assemble.build_reasons` says what
differs. All three are pure: `build.py`, the sensors and
the assets pass in catalog, settings and manifests, and get equal answers.
"""

from collections.abc import Mapping

from headrace.assemble.latents import LatentSettings
from headrace.assemble.partition_columns import ColumnSettings, columns_source
from headrace.assemble.shard_settings import ShardSettings
from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.encoders import fingerprint
from headrace.errors import HeadraceError
from headrace.format.manifests.manifests import KnownManifest
from headrace.format.snapshots.snapshots import Snapshot


def shard_settings(config: DatasetConfig) -> ShardSettings:
    """The settings of a data set's audio shards."""
    return ShardSettings(config.audio.format(), config.shards.size, config.shards.reshuffle)


def latent_settings(latents: LatentsConfig) -> LatentSettings:
    """The settings of a set of latents.

    Raises:
        ConfigError: the encoder or a setting is unknown, or a setting is invalid.
        MissingDependencyError: the encoder's package or weights are not installed.
    """
    encoder = fingerprint(latents.encoder.kind, latents.encoder.settings)
    return LatentSettings(encoder, latents.dtype, latents.audio_field or "", latents.column or "")


def are_current(latents: LatentsConfig, found: Snapshot, sources: Mapping[str, str]) -> bool:
    """Whether a snapshot of latents has those of the YAML for every partition.

    Args:
        latents: their settings, with centroids that were fitted.
        found: the snapshot.
        sources: partition → digest of what they are made from; see `latent_sources`.
    """
    try:
        settings = latent_settings(latents)
    except HeadraceError:  # of an encoder that cannot be loaded
        return False
    wanted = {name: settings.wanted(source) for name, source in sources.items()}
    return {name: frozen.wanted for name, frozen in found.partitions.items()} == wanted


def latent_sources(audio: Mapping[str, KnownManifest], rows: Mapping[str, str] | None) -> dict[str, str]:
    """Partition → `Manifest.source` of up-to-date latents.

    Args:
        audio: the audio manifests.
        rows: for texts of a set of columns, partition → digest of the rows of the set; None for any other latents.
    """
    if rows is None:
        return {partition: manifest.digest for partition, manifest in audio.items()}
    return {name: columns_source(found.digest, rows.get(name, "")) for name, found in audio.items()}


def wanted_latents(
    audio: Mapping[str, KnownManifest], settings: LatentSettings, rows: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Partition → `Manifest.wanted` of up-to-date latents; see `latent_sources`."""
    return {partition: settings.wanted(source) for partition, source in latent_sources(audio, rows).items()}


def wanted_columns(audio: Mapping[str, KnownManifest], rows: Mapping[str, str]) -> dict[str, str]:
    """Partition → `Manifest.wanted` of up-to-date columns.

    Args:
        audio: the audio manifests.
        rows: partition → digest of the rows that are joined; a missing one means no rows.
    """
    settings = ColumnSettings()
    sources = {name: columns_source(found.digest, rows.get(name, "")) for name, found in audio.items()}
    return {name: settings.wanted(source) for name, source in sources.items()}


def wanted_partitions(fingerprints: Mapping[str, str], config: DatasetConfig) -> dict[str, str]:
    """Partition → `Manifest.wanted` of up-to-date audio shards, given the fingerprints in the catalog."""
    settings = shard_settings(config)
    return {partition: settings.wanted(digest) for partition, digest in fingerprints.items()}


def is_current(snapshot: Snapshot | None, catalog: str, manifests: Mapping[str, KnownManifest]) -> bool:
    """Whether a snapshot has exactly these manifests and this catalog.

    Args:
        snapshot: the newest snapshot; None before the first commit.
        catalog: digest of the newest catalog.
        manifests: newest manifest of every partition of the layout.
    """
    numbers = {partition: numbered.number for partition, numbered in manifests.items()}
    return snapshot is not None and snapshot.catalog == catalog and snapshot.manifests == numbers
