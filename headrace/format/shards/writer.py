"""Writes one shard of audio or latents: the tar, whose name ends in its digest, and then its index.

The tar is written before its index, and a manifest names both only afterwards. So a shard that has an index is whole,
even if a build was killed. Before a tar leaves this process, it is read again from memory and compared with its index,
so nobody has to download it for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import BinaryIO, Self

from headrace.errors import BuildError, FormatError, NotFoundError
from headrace.format.indexes.index import ShardIndex, index_name
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry, build_index
from headrace.format.indexes.index_files import read_index
from headrace.format.indexes.seeking import with_seek_points
from headrace.format.indexes.tar_faults import tar_faults
from headrace.format.manifests.manifests import shard_name
from headrace.format.shards.condemned import condemned_paths, is_condemned
from headrace.format.shards.journal import note_shard
from headrace.format.tars.tar import TarWriter
from headrace.format.tars.tar_buffer import TarBuffer
from headrace.format.tensors.outputs import Output
from headrace.stores.storage import Storage

Payload = bytes | BinaryIO


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """The first parts of a shard's name: `train_0003_000012`, with the prefix `latent_` for latents."""

    split: str
    bucket: int
    sequence: int
    prefix: str = ""


@dataclass(slots=True)
class ShardWriter:
    """Collects samples and publishes them as one shard; as a context manager, it frees what it collected."""

    storage: Storage
    place: ShardPlace
    _entries: list[SampleEntry] = field(default_factory=list)
    _collected: TarBuffer = field(init=False, repr=False)
    _tar: TarWriter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start the archive."""
        self._collected = TarBuffer()
        self._tar = TarWriter(self._collected)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop what was collected."""
        self.close()

    def close(self) -> None:
        """Drop what was collected."""
        self._collected.close()

    def add(
        self,
        key: str,
        payloads: Mapping[str, tuple[Payload, int]],
        facts: SampleEntry | None = None,
        known_crc32: Mapping[str, int] | None = None,
    ) -> None:
        """Append a sample.

        Args:
            key: its `__key__`.
            payloads: field → payload and its size in bytes, written in this order.
            facts: what the index says about it besides key and ranges; places of `tensors` are relative to the payload
                of the first field.
            known_crc32: field → CRC-32 of its payload, if the caller has just computed it. `publish` compares it with
                the collected bytes.

        Raises:
            FormatError: see `TarWriter.add`.
        """
        known = known_crc32 or {}
        written = {
            name: self._tar.add(f"{key}.{name}", data, size, known.get(name)) for name, (data, size) in payloads.items()
        }
        ranges = {name: (place.start, place.stop) for name, place in written.items()}
        crc32 = {name: place.crc32 for name, place in written.items()}
        described = facts or SampleEntry(key, {})
        start = next((start for start, _ in ranges.values()), 0)
        tensors = tuple(PlacedTensor(place.after(start), checksum) for place, checksum in described.tensors)
        self._entries.append(replace(described, key=key, ranges=ranges, tensors=tensors, crc32=crc32))

    @property
    def keys(self) -> list[str]:
        """Keys of the samples that were appended, in order."""
        return [entry.key for entry in self._entries]

    def publish(self, input_digest: str, notes: dict[str, str], outputs: tuple[Output, ...] = ()) -> ShardIndex:
        """Write tar and index to the storage. Returns the index; its `shard` is the tar's name.

        If both exist already, with the same bytes made from other inputs, they stay as they are. A name that a gc has
        condemned is not used: more empty blocks at the end of the tar give it another digest and name.

        Raises:
            BuildError: the collected bytes are not what the index says. Nothing is written then.
        """
        sha256 = self._tar.finish()
        condemned = condemned_paths(self.storage)
        while is_condemned(name := self._name(sha256), condemned):
            sha256 = self._tar.lengthen()
        index = build_index(
            self._entries,
            shard=name,
            num_bytes=self._tar.num_bytes,
            sha256=sha256,
            input_digest=input_digest,
            outputs=outputs,
            notes=notes,
        )
        index = with_seek_points(self._collected.opened(), index)
        if (there := published_index(self.storage, name)) is not None and _is_same(there, index):
            return there
        self._check(index)
        note_shard(self.storage, name)
        self.storage.write(name, self._collected.content())
        self.storage.write(index_name(name), index.to_bytes())
        return index

    def _check(self, index: ShardIndex) -> None:
        """Compare the collected bytes with the index: headers, places and the CRC-32 of every payload."""
        if faults := tar_faults(self._collected.opened(), index, self._collected.crc32):
            more = f" and {len(faults) - 1} more differences" if len(faults) > 1 else ""
            raise BuildError(
                f"{index.shard}: not written, because its bytes are not what its index says: {faults[0]}{more}; build "
                "again, and if it happens again, check the memory and the temporary folder of this machine"
            )

    def _name(self, sha256: str) -> str:
        place = self.place
        return shard_name(place.prefix, place.split, place.bucket, place.sequence, sha256)


def published_index(storage: Storage, name: str, num_bytes: int | None = None) -> ShardIndex | None:
    """The index of a published shard; None if the index is missing or damaged, or the tar has another size.

    Args:
        storage: the shard folder.
        name: file name of the tar.
        num_bytes: size of the tar in a listing; None asks the store.
    """
    try:
        index = read_index(storage, name)
        found = storage.size(name) if num_bytes is None else num_bytes
    except (NotFoundError, FormatError):
        return None
    return index if found == index.num_bytes else None


def _is_same(one: ShardIndex, other: ShardIndex) -> bool:
    """Whether two indexes are equal except for what the shard was made from."""
    return replace(one, input_digest="").to_bytes() == replace(other, input_digest="").to_bytes()
