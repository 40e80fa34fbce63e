"""Manifests: which shards each partition holds, committed by numbered create-if-absent.

Owns the format of `manifests/` under a shard folder (`audio/`, `latents/<name>/`), the names of shards, reading the
newest manifest and committing the next. It plans nothing and never touches a shard; what all partitions hold together
is `headrace.snapshots`' business.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from headrace.errors import FormatError
from headrace.index import index_name
from headrace.storage import Storage

FORMAT_VERSION = 1
_MANIFESTS = "manifests/"
_NUMBERED = re.compile(r"(?:^|/)(\d{8,})\.json$")
_SHARD_NAME = re.compile(
    r"^(?P<prefix>.*?)(?P<split>[A-Za-z0-9-]+)_(?P<bucket>\d+)_(?P<sequence>\d+)-(?P<digest>[0-9a-f]{12})\.tar$"
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
        input_digest: what it was made from.
        samples: the keys planned for this shard, in order; refused ones are here too, so that they keep their place.
    """

    name: str
    num_bytes: int
    num_samples: int
    num_frames: int
    seconds: float
    input_digest: str
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A recording of the catalog that gives no sample: it proved undecodable, or is too short for one."""

    path: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one partition holds.

    Attributes:
        partition: for example `train-0003`.
        wanted: digest of everything the partition was built from; equal digests mean that there is nothing to do.
        source: fingerprint of the partition in the catalog (audio), or digest of the audio manifest (latents).
        layout: settings that decide which samples share a shard; a change of them plans from scratch.
        shards: in order of their sequence numbers.
        refused: recordings that could not be written.
    """

    partition: str
    wanted: str
    source: str
    layout: dict[str, int]
    shards: tuple[ShardEntry, ...]
    refused: tuple[Refusal, ...] = ()

    @property
    def num_samples(self) -> int:
        """Samples of all shards."""
        return sum(shard.num_samples for shard in self.shards)

    def is_whole(self, sizes: Mapping[str, int]) -> bool:
        """Whether every shard is there in its full size, with its index; `sizes` is a listing: name → bytes."""
        return all(
            sizes.get(shard.name) == shard.num_bytes and index_name(shard.name) in sizes for shard in self.shards
        )

    def to_json(self) -> bytes:
        """Equal manifests give equal bytes."""
        return json_bytes({"headrace_manifest": FORMAT_VERSION, **asdict(self)})

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the manifest: the data version of its partition."""
        return hashlib.sha256(self.to_json()).hexdigest()

    @classmethod
    def from_json(cls, blob: bytes, name: str) -> "Manifest":
        """Read a manifest.

        Raises:
            FormatError: not a manifest, or of a newer format.
        """
        content = versioned_json(blob, name, "headrace_manifest")
        try:
            content["shards"] = tuple(
                ShardEntry(**{**shard, "samples": tuple(shard["samples"])}) for shard in content["shards"]
            )
            content["refused"] = tuple(Refusal(**refusal) for refusal in content["refused"])
            return cls(**content)
        except (KeyError, TypeError) as error:
            raise FormatError(f"{name}: not a whole manifest ({error}); restore it, or remove it and build") from error


@dataclass(frozen=True, slots=True)
class NumberedManifest:
    """A manifest and its number."""

    number: int
    manifest: Manifest

    @property
    def wanted(self) -> str:
        """See `Manifest.wanted`."""
        return self.manifest.wanted

    @property
    def digest(self) -> str:
        """See `Manifest.digest`."""
        return self.manifest.digest


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """What comparing takes of a manifest, without its samples: those of a whole data set may be millions."""

    number: int
    wanted: str
    digest: str


class KnownManifest(Protocol):
    """What comparing takes: a `NumberedManifest`, or its summary."""

    @property
    def number(self) -> int:
        """Its number in its partition."""

    @property
    def wanted(self) -> str:
        """See `Manifest.wanted`."""

    @property
    def digest(self) -> str:
        """See `Manifest.digest`."""


def newest_manifest(storage: Storage, partition: str) -> NumberedManifest | None:
    """The manifest of a partition that counts; None before the first build."""
    numbers = [number for number, _ in numbered_files(storage, f"{_MANIFESTS}{partition}/")]
    return read_manifest(storage, partition, max(numbers)) if numbers else None


def newest_manifests(storage: Storage) -> dict[str, NumberedManifest]:
    """The manifest that counts of every partition that has one, by one listing."""
    return dict(_newest_by_partition(storage))


def newest_summaries(storage: Storage) -> dict[str, ManifestSummary]:
    """The same in brief; only one manifest at a time is held in memory."""
    return {
        partition: ManifestSummary(found.number, found.wanted, found.digest)
        for partition, found in _newest_by_partition(storage)
    }


def _newest_by_partition(storage: Storage) -> Iterator[tuple[str, NumberedManifest]]:
    newest: dict[str, int] = {}
    for number, path in numbered_files(storage, _MANIFESTS):
        partition = path.split("/")[-2]
        newest[partition] = max(number, newest.get(partition, 0))
    for partition, number in sorted(newest.items()):
        yield partition, read_manifest(storage, partition, number)


def file_sizes(storage: Storage, prefix: str = "") -> dict[str, int]:
    """What there is in a shard folder under names that begin so, for `Manifest.is_whole`: path → bytes."""
    return {entry.path: entry.num_bytes for entry in storage.list(prefix)}


def commit_manifest(storage: Storage, manifest: Manifest, previous: NumberedManifest | None) -> NumberedManifest:
    """Make `manifest` the one that counts.

    Raises:
        AlreadyExistsError: another writer committed since `previous` was read: read again, plan again.
    """
    number = previous.number + 1 if previous else 1
    storage.create(_manifest_path(manifest.partition, number), manifest.to_json())
    return NumberedManifest(number, manifest)


def read_manifest(storage: Storage, partition: str, number: int) -> NumberedManifest:
    """One numbered manifest of a partition, as a snapshot names it. Raises `NotFoundError`."""
    path = _manifest_path(partition, number)
    return NumberedManifest(number, Manifest.from_json(storage.read(path), path))


def _manifest_path(partition: str, number: int) -> str:
    return f"{_MANIFESTS}{partition}/{number:08d}.json"


def shard_name(prefix: str, split: str, bucket: int, sequence: int, digest: str) -> str:
    """File name of a shard: `train_0003_000012-1a2b3c4d5e6f.tar`."""
    return f"{prefix}{split}_{bucket:04d}_{sequence:06d}-{digest[:12]}.tar"


def sequence_of(name: str) -> int:
    """The sequence number in a shard's file name."""
    return int(parsed_name(name)["sequence"])


def parsed_name(name: str) -> re.Match[str]:
    """The parts of a shard's file name.

    Raises:
        FormatError: not such a name.
    """
    match = _SHARD_NAME.match(name)
    if match is None:
        raise FormatError(f"{name}: not the name of a Headrace shard (train_0003_000012-1a2b3c4d5e6f.tar)")
    return match


def split_of(partition: str) -> str:
    """The split of a partition: `train` of `train-0003`."""
    return partition.rpartition("-")[0]


def bucket_of(partition: str) -> int:
    """The bucket of a partition: 3 of `train-0003`."""
    return int(partition.rpartition("-")[2])


def numbered_files(storage: Storage, prefix: str) -> Iterator[tuple[int, str]]:
    """Number and path of the numbered JSON files below a prefix."""
    for entry in storage.list(prefix):
        if match := _NUMBERED.search(entry.path):
            yield int(match[1]), entry.path


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """JSON with a fixed form: equal content gives equal bytes."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def versioned_json(blob: bytes, name: str, key: str) -> dict[str, Any]:
    """A JSON object without its format version.

    Raises:
        FormatError: not such an object, or of another format version.
    """
    try:
        content = json.loads(blob)
        version = content.pop(key)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FormatError(
            f"{name}: not a {key.replace('_', ' ')} ({error}); restore it, or remove it and build"
        ) from error
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{name}: format {version}, this version of headrace reads {FORMAT_VERSION}; upgrade headrace"
        )
    return dict(content)
