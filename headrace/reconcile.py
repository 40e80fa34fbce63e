"""What a build has to do: what is wanted compared with what is there.

Pure: it is given the catalog's fingerprints, the settings and the manifests, and says which partitions are stale and
whether a snapshot still tells the truth. It reads nothing and builds nothing, so that `build.py`, the sensors and the
assets cannot disagree.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from headrace.config import DatasetConfig, LatentsConfig
from headrace.encoders import fingerprint
from headrace.latents import LatentSettings
from headrace.manifests import KnownManifest
from headrace.shards import ShardSettings
from headrace.snapshots import Snapshot

AnyManifest = TypeVar("AnyManifest", bound=KnownManifest)


class Need(StrEnum):
    """Why a partition has to be built."""

    MISSING = "missing"
    """It was never built."""
    CHANGED = "changed"
    """It was built from other recordings, settings or versions than are wanted now."""
    DAMAGED = "damaged"
    """Its manifest is right, and a shard or index that it names is gone or has another size."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[AnyManifest]):
    """The partitions of a layout, divided.

    Attributes:
        stale: partitions to build, in the layout's order, and why.
        current: manifests of those with nothing to do.
        left: partitions that have a manifest but left the layout; they belong in no snapshot.
    """

    stale: dict[str, Need]
    current: dict[str, AnyManifest]
    left: tuple[str, ...]


def shard_settings(config: DatasetConfig) -> ShardSettings:
    """What decides the bytes of a data set's audio shards besides its recordings."""
    return ShardSettings(config.audio.format(), config.shards.samples_per_shard, config.shards.reshuffle)


def latent_settings(latents: LatentsConfig) -> LatentSettings:
    """What decides a set of latents besides the audio shards.

    Raises:
        ConfigError: unknown encoder or setting.
        MissingDependencyError: the encoder's package or weights are not there.
    """
    return LatentSettings(fingerprint(latents.encoder.kind, latents.encoder.settings), latents.dtype)


def wanted_latents(audio: Mapping[str, KnownManifest], settings: LatentSettings) -> dict[str, str]:
    """Partition → the digest that its manifest of latents should carry, given the audio manifests."""
    return {partition: settings.wanted(manifest.digest) for partition, manifest in audio.items()}


def wanted_partitions(fingerprints: Mapping[str, str], config: DatasetConfig) -> dict[str, str]:
    """Partition → the digest that its manifest should carry as `wanted`, given its fingerprint in the catalog."""
    settings = shard_settings(config)
    return {partition: settings.wanted(digest) for partition, digest in fingerprints.items()}


def plan_build(
    wanted: Mapping[str, str], manifests: Mapping[str, AnyManifest], damaged: Collection[str] = ()
) -> Plan[AnyManifest]:
    """Divide the partitions of a layout by what has to be done.

    Args:
        wanted: partition → digest of everything that it should be built from (`Manifest.wanted`).
        manifests: the newest manifest of every partition that has one.
        damaged: partitions of which not every file is there in full; none to take the manifests' word for it.
    """
    stale: dict[str, Need] = {}
    current: dict[str, AnyManifest] = {}
    for partition, digest in wanted.items():
        found = manifests.get(partition)
        if found is None:
            stale[partition] = Need.MISSING
        elif found.wanted != digest:
            stale[partition] = Need.CHANGED
        elif partition in damaged:
            stale[partition] = Need.DAMAGED
        else:
            current[partition] = found
    return Plan(stale, current, tuple(sorted(set(manifests) - set(wanted))))


def is_current(snapshot: Snapshot | None, catalog: str, manifests: Mapping[str, KnownManifest]) -> bool:
    """Whether a snapshot is exactly the state that these manifests make.

    Args:
        snapshot: the newest one; None when there is none.
        catalog: digest of the catalog now.
        manifests: what every partition of the layout holds now.
    """
    numbers = {partition: numbered.number for partition, numbered in manifests.items()}
    return snapshot is not None and snapshot.catalog == catalog and snapshot.manifests == numbers
