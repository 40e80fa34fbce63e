"""Computes what each partition of a data set should be built from, and why a partition has to be built.

`headrace.assemble.staleness` compares the result with the manifests. Both modules are pure: `build.py`, the sensors and
the assets pass in catalog, settings and manifests, and get equal answers.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from headrace.assemble.latents import LatentSettings
from headrace.assemble.partition_columns import ColumnSettings, columns_source, source_parts
from headrace.assemble.shard_settings import ShardSettings
from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import ShardSize
from headrace.encoders import fingerprint
from headrace.errors import HeadraceError
from headrace.format.manifests.manifests import KnownManifest, Manifest
from headrace.format.snapshots.snapshots import Snapshot

Settings = ShardSettings | LatentSettings | ColumnSettings
"""Settings that, together with a source, decide the shards of a partition."""


class BuildReason(StrEnum):
    """Why a partition was built, as shown to the user; there may be several reasons."""

    NEW = "new"
    RECORDINGS = "recordings or metadata changed"
    AUDIO = "audio changed"
    LAYOUT = "shard layout changed"
    SETTINGS = "audio settings or codec changed"
    ENCODER = "encoder, dtype, audio field or column changed"
    ROWS = "rows changed"
    MISSING = "shards missing"
    UNRECORDED = "not recorded, or a check has not passed"


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


def why_build(
    found: Manifest | None,
    source: str,
    settings: ShardSettings | LatentSettings | ColumnSettings,
    *,
    is_damaged: bool = False,
) -> tuple[BuildReason, ...]:
    """Why a partition has to be built; empty if it is up to date.

    Args:
        found: the partition's newest manifest; None before the first build.
        source: the wanted `Manifest.source`: fingerprint of its recordings, or digest of its audio manifest; for
            columns, the result of `columns_source`.
        settings: settings of the audio shards, of a set of latents, or of columns.
        is_damaged: whether a shard or index of the manifest is missing or has another size.
    """
    if found is None:
        return (BuildReason.NEW,)
    reasons = {BuildReason.MISSING: is_damaged}
    if isinstance(settings, ShardSettings):
        as_laid_out = replace(settings, **_laid_out(found.layout))
        reasons |= {
            BuildReason.RECORDINGS: found.source != source,
            BuildReason.LAYOUT: found.layout != settings.layout,
            BuildReason.SETTINGS: found.wanted != as_laid_out.wanted(found.source),
        }
    elif isinstance(settings, ColumnSettings):
        (audio, rows), (of_audio, of_rows) = source_parts(source), source_parts(found.source)
        reasons |= {
            BuildReason.AUDIO: of_audio != audio,
            BuildReason.ROWS: of_rows != rows or found.wanted != settings.wanted(found.source),
        }
    else:
        (audio, rows), (of_audio, of_rows) = source_parts(source), source_parts(found.source)
        reasons |= {
            BuildReason.AUDIO: of_audio != audio,
            BuildReason.ROWS: of_rows != rows,
            BuildReason.ENCODER: found.wanted != settings.wanted(found.source),
        }
    return tuple(reason for reason in BuildReason if reasons.get(reason))


def _laid_out(layout: Mapping[str, int]) -> dict[str, Any]:
    """The fields of `ShardSettings` that a manifest's layout has."""
    sizes = {name: layout[name] for name in ("samples_per_shard", "bytes_per_shard") if name in layout}
    return {"reshuffle": layout.get("reshuffle", 0)} | ({"size": ShardSize(**sizes)} if len(sizes) == 1 else {})


def is_current(snapshot: Snapshot | None, catalog: str, manifests: Mapping[str, KnownManifest]) -> bool:
    """Whether a snapshot has exactly these manifests and this catalog.

    Args:
        snapshot: the newest snapshot; None before the first commit.
        catalog: digest of the newest catalog.
        manifests: newest manifest of every partition of the layout.
    """
    numbers = {partition: numbered.number for partition, numbered in manifests.items()}
    return snapshot is not None and snapshot.catalog == catalog and snapshot.manifests == numbers
