"""Decides which partitions have to be built again.

A partition is up to date if its newest manifest was built from the wanted input and all files of the manifest exist.
The build of one partition, `build.py`, the sensors and the snapshot commits all use these functions, so they agree.
Pure: nothing is read or written here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from headrace.format.manifests.manifests import KnownManifest

AnyManifest = TypeVar("AnyManifest", bound=KnownManifest)


class BuildNeed(StrEnum):
    """Why a partition has to be built."""

    MISSING = "missing"
    """The partition was never built."""
    CHANGED = "changed"
    """The partition was built from other recordings, settings or versions than are wanted now."""
    DAMAGED = "shards missing"
    """The manifest is up to date, but a shard or index of it is missing or has another size."""


@dataclass(frozen=True, slots=True)
class BuildPlan(Generic[AnyManifest]):
    """The partitions of a layout, by what has to be done. Partitions that left the layout are in neither.

    Attributes:
        stale: partitions to build, in the layout's order, and why.
        current: manifests of the partitions that are up to date.
    """

    stale: dict[str, BuildNeed]
    current: dict[str, AnyManifest]


def need_of(found: KnownManifest | None, wanted: str, *, is_damaged: bool) -> BuildNeed | None:
    """Why a partition has to be built; None if it is up to date.

    Args:
        found: the newest manifest of the partition; None if it has none.
        wanted: digest of everything that the partition should be built from (`Manifest.wanted`).
        is_damaged: whether a shard or index of the manifest is missing or has another size.
    """
    if found is None:
        return BuildNeed.MISSING
    if found.wanted != wanted:
        return BuildNeed.CHANGED
    return BuildNeed.DAMAGED if is_damaged else None


def plan_build(
    wanted: Mapping[str, str], manifests: Mapping[str, AnyManifest], damaged: Collection[str] = ()
) -> BuildPlan[AnyManifest]:
    """Sort the partitions of a layout by what has to be done.

    Args:
        wanted: partition → digest of everything that it should be built from (`Manifest.wanted`).
        manifests: the newest manifest of every partition that has one.
        damaged: partitions of which a shard or index is missing or has another size. Leave it empty to trust the
            manifests.
    """
    needs = {name: need_of(manifests.get(name), digest, is_damaged=name in damaged) for name, digest in wanted.items()}
    return BuildPlan(
        stale={name: need for name, need in needs.items() if need is not None},
        current={name: manifests[name] for name, need in needs.items() if need is None},
    )
