"""Brings one partition of a shard folder up to date: the one algorithm for audio, latents and columns.

1. Compare the newest manifest and the sizes of its files with what is wanted. If both agree, there is nothing to do.
2. Plan the shards. Use each complete shard again that was made from the wanted input, also if an interrupted build
   wrote it and no manifest names it.
3. Write the other shards.
4. Commit a manifest. Start again if another writer committed first.
5. Look at the files once more, and start again if a file of the manifest is missing.

What is planned and how a shard is written comes from a `ShardRecipe`. A file that a `gc` may delete counts as missing
in steps 1 and 5. Step 5 has to come after the commit: a `gc` that did not see the manifest has then either announced
the file or deleted it (docs/design/0036).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from headrace.assemble.audio_counts import NO_AUDIO, AudioCounts
from headrace.assemble.staleness import need_of
from headrace.encoding.stats import EncodingStats
from headrace.errors import AlreadyExistsError, BuildError
from headrace.format.indexes.index import files_of_shard
from headrace.format.manifests.made_by import MadeShards
from headrace.format.manifests.manifests import (
    Manifest,
    ManifestRejection,
    NumberedManifest,
    ShardEntry,
    commit_manifest,
    is_shard_name,
    keys_path,
    newest_manifest,
)
from headrace.format.manifests.planned_keys import digest_of
from headrace.format.manifests.stored_census import StoredCensus
from headrace.format.shards.shard_files import file_prefix_of, sizes_of_shards, with_unnamed
from headrace.stores.storage import Storage

_COMMIT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """The partition that should exist, without its shards.

    Attributes:
        partition: for example `train-0003`.
        wanted: see `Manifest.wanted`.
        source: see `Manifest.source`.
        layout: see `Manifest.layout`.
        prefix: start of the shards' file names, before the split.
    """

    partition: str
    wanted: str
    source: str
    layout: dict[str, int]
    prefix: str = ""

    @property
    def file_prefix(self) -> str:
        """Start of the file names of this partition's shards, and of no other's."""
        return file_prefix_of(self.partition, self.prefix)


class PlannedShard(Protocol):
    """A shard that should exist."""

    @property
    def input_digest(self) -> str:
        """Digest of everything that the shard is made from."""


class StoredShard(Protocol):
    """Facts about a shard that exists: an index, or a table of columns."""

    @property
    def input_digest(self) -> str:
        """See `PlannedShard`."""


PlanT = TypeVar("PlanT", bound=PlannedShard)
StoredT = TypeVar("StoredT", bound=StoredShard)

FindShard = Callable[[Storage, str, int], StoredT | None]
"""Finds a complete shard, given the shard folder, the file's name and its size in bytes; None if it is damaged."""


class ShardRecipe(Protocol[PlanT, StoredT]):
    """Operations that differ between shards of audio, latents and columns."""

    @property
    def target(self) -> PartitionTarget:
        """The partition that should exist."""

    def plan(self, previous: NumberedManifest | None) -> Sequence[PlanT]:
        """The shards that should exist, in order, given the newest manifest."""

    def planned_keys(self, plans: Sequence[PlanT]) -> bytes:
        """Content of the file of planned keys (`headrace.format.manifests.planned_keys`); empty if none is needed."""

    def write(self, plans: Sequence[PlanT]) -> dict[str, StoredT]:
        """Write these shards of the last plan. Returns them by input digest, in the order of the plans."""

    def entry(self, plan: PlanT, stored: StoredT, /) -> ShardEntry:
        """Entry of a shard in the manifest."""

    def rejected(self, stored: Sequence[StoredT], /) -> tuple[ManifestRejection, ...]:
        """Rejected input in the manifest, given all shards in order."""

    def lengths(self, stored: Sequence[StoredT], /) -> StoredCensus | None:
        """Lengths of samples in the manifest, given all shards in order; None if samples have no length."""

    def labels(self, stored: Sequence[StoredT], /) -> dict[str, tuple[str, ...]]:
        """See `Manifest.labels`, given all shards in order; empty except for columns."""

    def made(self, stored: Sequence[StoredT], /) -> tuple[MadeShards, ...]:
        """Devices and software that computed the shards, given all of them in order; empty except for latents."""


@dataclass(frozen=True, slots=True)
class PartitionBuild:
    """The result of bringing a partition up to date.

    Attributes:
        manifest: the newest manifest.
        written: names of the shards that this build wrote.
        reused: names of the shards that existed before.
        previous: the newest manifest before this build; None before the first build.
        stats: speed, padding and devices of the encoder; zeros if no encoder ran.
        audio: how the audio came into the written shards.
    """

    manifest: NumberedManifest
    written: tuple[str, ...]
    reused: tuple[str, ...]
    previous: Manifest | None
    stats: EncodingStats = field(default_factory=EncodingStats)
    audio: AudioCounts = NO_AUDIO


def bring_up_to_date(
    recipe: ShardRecipe[PlanT, StoredT],
    storage: Storage,
    find: FindShard[StoredT],
    progress: Callable[[int], None],
) -> PartitionBuild:
    """Write the shards of a partition that are missing, and commit its manifest if it changed.

    Args:
        recipe: what to plan and how to write it.
        storage: the shard folder.
        find: finds a shard that exists.
        progress: called with a number of samples each time this many are done; samples of reused shards count. The
            recipe reports the samples that it writes.

    Raises:
        BuildError: five times in a row, other writers committed the partition first or removed its shards.
    """
    target = recipe.target
    for _ in range(_COMMIT_ATTEMPTS):
        newest = newest_manifest(storage, target.partition)
        previous = newest.manifest if newest else None
        named = [shard.name for shard in previous.shards] if previous else []
        sizes = sizes_of_shards(storage, target.file_prefix, named)
        is_damaged = previous is not None and not previous.is_whole(sizes)
        if newest is not None and need_of(newest, target.wanted, is_damaged=is_damaged) is None:
            progress(_num_planned(newest.manifest.shards))
            return PartitionBuild(newest, (), tuple(named), previous=newest.manifest)
        plans = recipe.plan(newest)
        sizes = with_unnamed(storage, target.file_prefix, sizes)
        wanted = {plan.input_digest for plan in plans}
        existing = _existing(partial(find, storage), wanted, previous, sizes)
        kept = [plan for plan in plans if plan.input_digest in existing]
        progress(_num_planned([recipe.entry(plan, existing[plan.input_digest]) for plan in kept]))
        missing = [plan for plan in plans if plan.input_digest not in existing]
        written = recipe.write(missing) if missing else {}
        keys = recipe.planned_keys(plans)
        manifest = _manifest(recipe, plans, existing | written, keys)
        is_new = manifest != previous  # a lost shard that was made again has the same bytes and the same name
        if newest and not is_new and keys:  # the file of planned keys may be lost, too
            storage.write(keys_path(target.partition, newest.number, manifest.keys), keys)
        try:
            committed = newest if newest and not is_new else commit_manifest(storage, manifest, newest, keys)
        except AlreadyExistsError:
            continue
        named = [shard.name for shard in manifest.shards]
        if manifest.is_whole(sizes_of_shards(storage, target.file_prefix, named)):
            names = tuple(shard.name for shard in manifest.shards if shard.input_digest in written)
            reused = tuple(shard.name for shard in manifest.shards if shard.input_digest not in written)
            return PartitionBuild(committed, names, reused, previous)
    raise BuildError(
        f"{storage.uri}: {target.partition}: other writers kept committing this partition, or removing its shards; "
        "stop them and build again"
    )


def _existing(
    find: Callable[[str, int], StoredT | None],
    wanted: AbstractSet[str],
    previous: Manifest | None,
    sizes: Mapping[str, int],
) -> dict[str, StoredT]:
    """Complete shards that were made from wanted input, by input digest."""
    found: dict[str, StoredT] = {}
    for name, digest in _candidates(wanted, previous, sizes):
        if found.keys() == wanted:
            break
        stored = find(name, sizes[name])
        if stored is not None and (made_from := digest or stored.input_digest) in wanted:
            found.setdefault(made_from, stored)
    return found


def _candidates(
    wanted: AbstractSet[str], previous: Manifest | None, sizes: Mapping[str, int]
) -> Iterator[tuple[str, str | None]]:
    """Name and input digest of shards that may be used again; None if only the shard itself knows the digest.

    The previous manifest's shards come first. The others are those of an interrupted build, or of an older manifest.
    """
    listed = {name for name in sizes if is_shard_name(name) and all(path in sizes for path in files_of_shard(name))}
    named = {
        shard.name: shard.input_digest
        for shard in (previous.shards if previous else ())
        if shard.name in listed and shard.input_digest in wanted
    }
    yield from named.items()
    yield from ((name, None) for name in sizes if name in listed and name not in named)


def _manifest(
    recipe: ShardRecipe[PlanT, StoredT], plans: Sequence[PlanT], shards: Mapping[str, StoredT], keys: bytes
) -> Manifest:
    target, found = recipe.target, [shards[plan.input_digest] for plan in plans]
    entries = tuple(recipe.entry(plan, stored) for plan, stored in zip(plans, found, strict=True))
    return Manifest(
        partition=target.partition,
        wanted=target.wanted,
        source=target.source,
        layout=target.layout,
        shards=entries,
        refused=recipe.rejected(found),
        keys=digest_of(keys) if keys else "",
        lengths=recipe.lengths(found),
        labels=recipe.labels(found),
        made=recipe.made(found),
    )


def _num_planned(shards: Sequence[ShardEntry]) -> int:
    """Samples of these shards, those without content included."""
    return sum(shard.num_planned for shard in shards)
