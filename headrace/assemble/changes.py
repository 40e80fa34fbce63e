"""Summarizes what a build changed, from the states before and after it: files, partitions and reasons, shards. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.assemble.audio_counts import NO_AUDIO, AudioCounts
from headrace.assemble.build_reasons import BuildReason
from headrace.catalog.compared.changes import CatalogChanges
from headrace.format.indexes.index import SHARD_SUFFIXES, files_of_shard
from headrace.format.manifests.manifests import Manifest
from headrace.format.rejects import OF_LATENTS, Reject, RejectChanges, compare_rejects

SCAN = "catalog"
"""Name of the step that scans the source; every build makes it."""


@dataclass(frozen=True, slots=True)
class ShardsBefore:
    """A shard folder before a build.

    Attributes:
        manifests: partition → newest manifest, for partitions of the layout and of the newest snapshot.
        sizes: name → bytes of the files that no `gc` is about to delete.
        why: partition → why it is built, for partitions that are built.
    """

    manifests: Mapping[str, Manifest]
    sizes: Mapping[str, int]
    why: Mapping[str, tuple[BuildReason, ...]]

    def whole(self) -> set[str]:
        """Names of the complete shards, including those that no manifest names."""
        entries = (shard for manifest in self.manifests.values() for shard in manifest.shards)
        damaged = {shard.name for shard in entries if self.sizes.get(shard.name) != shard.num_bytes}
        shards = (name for name in self.sizes if name.endswith(SHARD_SUFFIXES))
        return {name for name in shards if all(path in self.sizes for path in files_of_shard(name))} - damaged


@dataclass(frozen=True, slots=True)
class ShardChanges:
    """Changes of a build in a folder of audio shards, or of one set of latents.

    Attributes:
        built: partition → why it was built, for partitions that were built.
        num_waiting: number of partitions that have to be built and were not.
        num_partitions: number of partitions of the layout.
        num_written: number of shards that did not exist before.
        num_reused: number of shards in the new manifests that existed before.
        num_removed: number of shards that no manifest of the layout names any more; `headrace gc` deletes their files.
        rejects: changes of samples without latents, by key. Rejected recordings are in the catalog's changes.
    """

    built: dict[str, tuple[BuildReason, ...]]
    num_waiting: int
    num_partitions: int
    num_written: int
    num_reused: int
    num_removed: int
    rejects: RejectChanges

    @property
    def num_shards(self) -> int:
        """Number of shards in the new manifests."""
        return self.num_written + self.num_reused


@dataclass(frozen=True, slots=True)
class BuildStep:
    """An asset that a build made, in one or several runs.

    Attributes:
        name: name of the asset.
        seconds: total time of its runs; None if no run was successful.
        shards: what changed in its shard folder, if it has one.
        audio: how the audio of its samples came into the shards that were written.
    """

    name: str
    seconds: float | None
    shards: ShardChanges | None = None
    audio: AudioCounts = NO_AUDIO


@dataclass(frozen=True, slots=True)
class BuildChanges:
    """Changes of a build.

    Attributes:
        catalog: difference between the catalogs before and after; None if there is no catalog after the build.
        steps: the assets that were made, in order.
        seconds: time of the whole build.
    """

    catalog: CatalogChanges | None
    steps: tuple[BuildStep, ...]
    seconds: float

    @property
    def is_nothing(self) -> bool:
        """Whether the build made only a catalog that equals the previous one."""
        return self.catalog is not None and self.catalog.is_empty and {step.name for step in self.steps} <= {SCAN}


def shard_changes(
    before: ShardsBefore, after: Mapping[str, Manifest], layout: Collection[str], done: Collection[str]
) -> ShardChanges:
    """Summarize what a build changed in a shard folder.

    Args:
        before: the folder before the build.
        after: newest manifests of the partitions that were built; other partitions keep those from before.
        layout: all partitions of the layout.
        done: partitions whose run was successful.
    """
    manifests = {**before.manifests, **after}
    now = {shard.name for name in layout if name in manifests for shard in manifests[name].shards}
    old = {shard.name for manifest in before.manifests.values() for shard in manifest.shards}
    reused = now & before.whole()
    return ShardChanges(
        built={name: reasons for name, reasons in before.why.items() if name in done},
        num_waiting=len(set(before.why) - set(done)),
        num_partitions=len(layout),
        num_written=len(now - reused),
        num_reused=len(reused),
        num_removed=len(old - now),
        rejects=compare_rejects(
            _without_latents(before.manifests.values()),
            _without_latents(manifests[name] for name in layout if name in manifests),
        ),
    )


def _without_latents(manifests: Iterable[Manifest]) -> list[Reject]:
    refused = (refusal for manifest in manifests for refusal in manifest.refused if refusal.code in OF_LATENTS)
    return [Reject(refusal.key, refusal.code, refusal.reason) for refusal in refused]
