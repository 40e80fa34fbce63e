"""Reads and commits manifests: the lists of the shards that each partition holds.

Manifests are numbered files in `manifests/` of a shard folder (`audio/`, `latents/<name>/`). A commit creates the next
number, and fails if another writer was faster. This module also makes and parses the names of shards. What all
partitions hold together is in `snapshots`; the keys that were planned for each shard are in `planned_keys`.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Protocol

from headrace.errors import FormatError, NotFoundError
from headrace.format import tables
from headrace.format.indexes.index import REFUSED_NOTE, ShardIndex, files_of_shard
from headrace.format.manifests.made_by import MadeShards, manifest_digest
from headrace.format.manifests.stored_census import StoredCensus
from headrace.format.parsed_once import read_once
from headrace.format.tars.tar_names import DIGEST_DIGITS, TAR_SUFFIX, digest_ending
from headrace.format.typed_json import json_value, typed
from headrace.format.versioned_json import WAY_OUT, versioned_bytes, versioned_json
from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage, StoredObject

KEYS_SUFFIX = ".keys"
_FORMAT_KEY = "headrace_manifest"
_MANIFESTS = "manifests/"
_READ_ATTEMPTS = 3
_FIELDS = ("partition", "wanted", "source", "layout", "keys", "refused", "lengths", "shards", "labels", "made")
_DIGEST = f"[0-9a-f]{{{DIGEST_DIGITS}}}"
_KEYS_FILE = re.compile(rf"([^/]+)/(\d{{8,}})-{_DIGEST}\.keys$")
_INT32 = range(1 << 31)
_PARTITION = re.compile(r"[^/\n]+-\d{1,9}")
_NUMBERED = re.compile(r"(?:^|/)(\d{8,})\.json$")
_SHARD_NAME = re.compile(
    r"^(?P<prefix>.*?)(?P<split>[A-Za-z0-9-]+)_(?P<bucket>\d{1,9})_(?P<sequence>\d{1,9})"
    rf"-(?P<digest>{_DIGEST})(?P<suffix>\.tar|\.columns)$"
)


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One shard in a manifest.

    Attributes:
        name: file name of the tar; ends in the first 12 hex digits of its SHA-256.
        num_bytes: size of the tar.
        num_samples: samples in the tar.
        num_frames: frames of all samples together.
        seconds: length of all samples together.
        input_digest: digest of what it was made from.
        num_planned: samples planned for this shard: `num_samples` and those that were rejected.
    """

    name: str
    num_bytes: int
    num_samples: Annotated[int, _INT32]
    num_frames: int
    seconds: float
    input_digest: str
    num_planned: int


@dataclass(frozen=True, slots=True)
class ManifestRejection:
    """A recording or the latents of a sample that were rejected when a partition was built, and why.

    Attributes:
        path: the recording, which cannot be decoded or is too short; for latents, the recording of the sample.
        code: the reason in a word (`RejectReason`, or a reason of `headrace.audio`).
        reason: the reason in a sentence.
        key: for latents, the key of the sample; empty for a recording.
    """

    path: str
    code: str
    reason: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of one partition.

    Attributes:
        partition: its name, for example `train-0003`.
        wanted: digest of everything that the partition was built from; if it is equal, there is nothing to build.
        source: fingerprint of the partition in the catalog (audio), or digest of the audio manifest (latents).
        layout: settings that decide which samples share a shard; if they change, shards are planned from scratch.
        shards: the shards, in order of their sequence numbers.
        refused: recordings, or latents of samples, that were rejected.
        keys: SHA-256 (hex) of the file of planned keys (`planned_keys`); empty for latents, which have none.
        lengths: how many samples of which length each shard has; None if that is not known, and for columns.
        labels: for columns of labels (`source.labels`), their name → the distinct values, sorted.
        made: for latents, what computed them, if that is known. It is no part of the digest.
    """

    partition: str
    wanted: str
    source: str
    layout: dict[str, int]
    shards: tuple[ShardEntry, ...]
    refused: tuple[ManifestRejection, ...] = ()
    keys: str = ""
    lengths: StoredCensus | None = None
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    made: tuple[MadeShards, ...] = ()

    @property
    def num_samples(self) -> int:
        """Samples of all shards."""
        return sum(shard.num_samples for shard in self.shards)

    def is_whole(self, sizes: Mapping[str, int]) -> bool:
        """Whether every shard exists in its full size, with its index.

        Args:
            sizes: file name → bytes, from `headrace.format.shards.condemned.lasting_sizes`.
        """
        return all(
            sizes.get(shard.name) == shard.num_bytes and all(path in sizes for path in files_of_shard(shard.name))
            for shard in self.shards
        )

    def to_json(self) -> bytes:
        """The bytes of the file; equal manifests give equal bytes."""
        content = asdict(self)
        is_rare = {"labels", "made"}
        return versioned_bytes(
            _FORMAT_KEY, {name: content[name] for name in _FIELDS if content[name] or name not in is_rare}
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the manifest's bytes without `made`: the data version of its partition."""
        return manifest_digest(self.to_json())

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "Manifest":
        """Parse a manifest.

        Raises:
            FormatError: not a manifest, damaged, or of a newer format.
        """
        content = versioned_json(blob, name, _FORMAT_KEY)
        try:
            found = typed(cls, content)
            check_partition(found.partition)
            for shard in found.shards:
                parsed_name(shard.name)
        except ValueError as error:
            raise FormatError(f"{name}: an incomplete manifest ({error}); {WAY_OUT}") from error
        return found


@dataclass(frozen=True, slots=True)
class NumberedManifest:
    """A manifest and its number.

    Attributes:
        number: its number in its partition.
        manifest: the manifest.
        stored_digest: the digest of the bytes that were read or written; empty if they are not known.
    """

    number: int
    manifest: Manifest
    stored_digest: str = field(default="", compare=False)

    @property
    def wanted(self) -> str:
        """See `Manifest.wanted`."""
        return self.manifest.wanted

    @property
    def digest(self) -> str:
        """See `Manifest.digest`."""
        return self.stored_digest or self.manifest.digest


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """Number and digests of a manifest, without its shards, which may be a million in a data set."""

    number: int
    wanted: str
    digest: str


class KnownManifest(Protocol):
    """A manifest to compare with others: a `NumberedManifest` or a `ManifestSummary`."""

    @property
    def number(self) -> int:
        """Number of the manifest in its partition."""

    @property
    def wanted(self) -> str:
        """See `Manifest.wanted`."""

    @property
    def digest(self) -> str:
        """See `Manifest.digest`."""


def rejections_of(index: ShardIndex) -> list[ManifestRejection]:
    """The recordings or latents that were planned for a shard and rejected, from the shard's index."""
    try:
        return typed(list[ManifestRejection], json_value(index.notes.get(REFUSED_NOTE, "[]")))
    except ValueError as error:
        raise FormatError(f"{index.shard}: damaged index ({error}); {tables.WAY_OUT}") from error


def newest_manifest(storage: Storage, partition: str) -> NumberedManifest | None:
    """The newest manifest of a partition, which is the valid one; None before the first build."""
    for _ in range(_READ_ATTEMPTS):
        found = dict(numbered_entries(storage, f"{_MANIFESTS}{partition}/"))
        if not found:
            return None
        number = max(found)
        with contextlib.suppress(NotFoundError):  # deleted by gc since it was listed, so there is a newer one
            return read_once(storage, found[number], partial(_parsed, number))
    return read_manifest(storage, partition, number)


def newest_manifests(storage: Storage) -> dict[str, NumberedManifest]:
    """Partition → its newest manifest, for all partitions that have one; from one listing."""
    return dict(each_newest_manifest(storage))


def each_newest_manifest(storage: Storage) -> Iterator[tuple[str, NumberedManifest]]:
    """Each partition and its newest manifest, in order of partitions; only one manifest is held in memory."""
    for partition, (number, entry) in sorted(newest_entries(storage).items()):
        if (found := read_listed(storage, partition, number, entry)) is not None:
            yield partition, found


def read_listed(storage: Storage, partition: str, number: int, entry: StoredObject) -> NumberedManifest | None:
    """The newest manifest of a partition, which was listed; None if the partition has none any more."""
    try:
        return read_once(storage, entry, partial(_parsed, number))
    except NotFoundError:  # deleted by gc since it was listed, so there is a newer one
        return newest_manifest(storage, partition)


def newest_entries(storage: Storage) -> dict[str, tuple[int, StoredObject]]:
    """Partition → number and file of its newest manifest; from one listing."""
    newest: dict[str, tuple[int, StoredObject]] = {}
    for number, entry in numbered_entries(storage, _MANIFESTS):
        partition = entry.path.split("/")[-2]
        if partition not in newest or number > newest[partition][0]:
            newest[partition] = number, entry
    return newest


def read_summary(storage: Storage, number: int, entry: StoredObject) -> ManifestSummary:
    """The summary of a manifest that was listed; its shards are not parsed. Raises `NotFoundError`."""
    return read_once(storage, entry, partial(_summary, number), cost_bytes=0)


def commit_manifest(
    storage: Storage, manifest: Manifest, previous: NumberedManifest | None, keys: bytes = b""
) -> NumberedManifest:
    """Commit `manifest` as the newest of its partition.

    Args:
        storage: the shard folder.
        manifest: the manifest.
        previous: the newest manifest of the partition, which it replaces.
        keys: content of the file of planned keys, whose digest is `manifest.keys`; it is written first.

    Raises:
        AlreadyExistsError: another writer committed since `previous` was read: read it again and plan again.
    """
    number = previous.number + 1 if previous else 1
    if manifest.keys:
        storage.write(keys_path(manifest.partition, number, manifest.keys), keys)
    blob = manifest.to_json()
    storage.create(manifest_path(manifest.partition, number), blob)
    return NumberedManifest(number, manifest, manifest_digest(blob))


def read_manifest(storage: Storage, partition: str, number: int) -> NumberedManifest:
    """One numbered manifest of a partition. Raises `NotFoundError`."""
    return read_sound(storage, manifest_path(partition, number), partial(_parsed, number))


def read_lengths(storage: Storage, partition: str, number: int, digest: str) -> StoredCensus | None:
    """`Manifest.lengths` of a numbered manifest with this digest; its shards are not parsed.

    Raises:
        FormatError: not a manifest, a damaged one, or one with another digest.
        NotFoundError: there is no such manifest.
    """
    return read_sound(storage, manifest_path(partition, number), partial(_lengths, digest))


def _lengths(digest: str, blob: bytes, name: str) -> StoredCensus | None:
    if manifest_digest(blob) != digest:
        raise FormatError(f"{name}: does not have the digest in its snapshot; {WAY_OUT}")
    try:
        found = versioned_json(blob, name, _FORMAT_KEY, before="shards").get("lengths")
        return None if found is None else typed(StoredCensus, found)
    except ValueError as error:
        raise FormatError(f"{name}: an incomplete manifest ({error}); {WAY_OUT}") from error


def _parsed(number: int, blob: bytes, name: str) -> NumberedManifest:
    found = Manifest.from_json(blob, name)
    if found.partition != (partition := name.split("/")[-2]):
        raise FormatError(f"{name}: is the manifest of {found.partition}, expected one of {partition}; {WAY_OUT}")
    return NumberedManifest(number, found, manifest_digest(blob))


def _summary(number: int, blob: bytes, name: str) -> ManifestSummary:
    head = versioned_json(blob, name, _FORMAT_KEY, before="refused")
    try:
        return ManifestSummary(number, typed(str, head.get("wanted")), manifest_digest(blob))
    except ValueError as error:
        raise FormatError(f"{name}: an incomplete manifest ({error}); {WAY_OUT}") from error


def keys_path(partition: str, number: int, digest: str) -> str:
    """File of the keys planned for the shards of a manifest. Two writers of one number do not share a name.

    A gc keeps every such file whose number is not below that of the partition's newest manifest.
    """
    return f"{_MANIFESTS}{partition}/{number:08d}{digest_ending(digest)}{KEYS_SUFFIX}"


def manifest_path(partition: str, number: int) -> str:
    """File of one numbered manifest of a partition."""
    return f"{_MANIFESTS}{partition}/{number:08d}.json"


def shard_name(  # noqa: PLR0913, PLR0917 - the parts of a name
    prefix: str, split: str, bucket: int, sequence: int, digest: str, suffix: str = TAR_SUFFIX
) -> str:
    """File name of a shard: `train_0003_000012-1a2b3c4d5e6f.tar`."""
    return f"{prefix}{split}_{bucket:04d}_{sequence:06d}{digest_ending(digest)}{suffix}"


def sequence_of(name: str) -> int:
    """The sequence number in a shard's file name."""
    return int(parsed_name(name)["sequence"])


def parsed_name(name: str) -> re.Match[str]:
    """The parts of a shard's file name: prefix, split, bucket, sequence, digest and suffix.

    Raises:
        FormatError: not the name of a Headrace shard.
    """
    match = _SHARD_NAME.match(name)
    if match is None:
        raise FormatError(f"{name}: not the name of a Headrace shard (train_0003_000012-1a2b3c4d5e6f.tar)")
    return match


def is_shard_name(name: str) -> bool:
    """Whether a file has the name of a Headrace shard."""
    return _SHARD_NAME.match(name) is not None


def check_partition(name: str) -> None:
    """Raise `FormatError` if a partition is not called like `train-0003`."""
    if _PARTITION.fullmatch(name) is None:
        raise FormatError(f"{name!r} is not the name of a partition, such as train-0003")


def split_of(partition: str) -> str:
    """The split of a partition: `train` of `train-0003`."""
    return partition.rpartition("-")[0]


def bucket_of(partition: str) -> int:
    """The bucket of a partition: 3 of `train-0003`."""
    return int(partition.rpartition("-")[2])


def numbered_files(storage: Storage, prefix: str) -> Iterator[tuple[int, str]]:
    """Number and path of the numbered JSON files below a prefix."""
    return ((number, entry.path) for number, entry in numbered_entries(storage, prefix))


def numbered_entries(storage: Storage, prefix: str) -> Iterator[tuple[int, StoredObject]]:
    """Number and entry of the numbered JSON files below a prefix."""
    for entry in storage.list(prefix):
        if match := _NUMBERED.search(entry.path):
            yield int(match[1]), entry


def numbered_keys(storage: Storage) -> Iterator[tuple[str, int, str]]:
    """Partition, number of the manifest, and path of each file of planned keys."""
    for entry in storage.list(_MANIFESTS):
        if match := _KEYS_FILE.search(entry.path):
            yield match[1], int(match[2]), entry.path
