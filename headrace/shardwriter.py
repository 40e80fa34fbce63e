"""Writing one shard: the tar, its content-digest name and its index, in the only safe order.

Owns the step from finished payloads to published files, for audio and latents alike. The tar is published before its
index, and nothing names either before the manifest does; so a shard with an index is whole.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import BinaryIO, Self

from headrace.errors import FormatError
from headrace.index import SampleEntry, ShardIndex, build_index, index_name
from headrace.manifests import shard_name
from headrace.storage import Content, Storage
from headrace.tar import TarWriter

_IN_MEMORY_BYTES = 64 << 20  # larger shards go through a temporary file

Payload = bytes | BinaryIO


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """Where a shard belongs: `train_0003_000012`, with `latent_` before it for latents."""

    split: str
    bucket: int
    sequence: int
    prefix: str = ""


@dataclass(slots=True)
class ShardWriter:
    """Collects samples and publishes them as one shard; used as a context manager, it leaves nothing behind."""

    storage: Storage
    place: ShardPlace
    _entries: list[SampleEntry] = field(default_factory=list)
    _collected: "_Collected" = field(init=False, repr=False)
    _tar: TarWriter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start the archive."""
        self._collected = _Collected()
        self._tar = TarWriter(self._collected)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop what was collected."""
        self._collected.close()

    def add(self, key: str, payloads: Mapping[str, tuple[Payload, int]], facts: SampleEntry | None = None) -> None:
        """Append a sample.

        Args:
            key: its `__key__`.
            payloads: field → payload and its size in bytes, written in this order.
            facts: what the index says of it besides key and ranges; a `tensor` range is relative to the first field's
                payload.

        Raises:
            FormatError: see `TarWriter.add`.
        """
        ranges = {name: self._tar.add(f"{key}.{name}", data, size) for name, (data, size) in payloads.items()}
        known = facts or SampleEntry(key, {})
        tensor = known.tensor
        if tensor is not None:
            tensor = tensor.after(next(iter(ranges.values()))[0])
        self._entries.append(
            SampleEntry(key, ranges, known.num_frames, known.sample_rate_hz, known.num_channels, tensor)
        )

    def publish(self, input_digest: str, notes: dict[str, str], tensor_dtype: str = "") -> ShardIndex:
        """Write tar and index to the storage. Returns the index; its `shard` is the tar's name.

        Where both are there already, made of something else that gives the same bytes, they stay as they are.
        """
        sha256 = self._tar.finish()
        place = self.place
        name = shard_name(place.prefix, place.split, place.bucket, place.sequence, sha256)
        index = build_index(
            self._entries,
            shard=name,
            num_bytes=self._tar.num_bytes,
            sha256=sha256,
            input_digest=input_digest,
            tensor_dtype=tensor_dtype,
            notes=notes,
        )
        if (there := published_index(self.storage, name)) is not None and _is_same(there, index):
            return there
        self.storage.write(name, self._collected.content())
        self.storage.write(index_name(name), index.to_bytes())
        return index


def published_index(storage: Storage, name: str) -> ShardIndex | None:
    """The index of a published shard; None when a killed build left the tar without one, or it is damaged."""
    path = index_name(name)
    if not storage.exists(path):
        return None
    try:
        index = ShardIndex.from_bytes(storage.read(path), path)
    except FormatError:
        return None
    return index if storage.exists(name) and storage.size(name) == index.num_bytes else None


def _is_same(one: ShardIndex, other: ShardIndex) -> bool:
    """Whether two indexes say the same of a shard, whatever it was made from."""
    return replace(one, input_digest="").to_bytes() == replace(other, input_digest="").to_bytes()


@dataclass(slots=True)
class _Collected:
    """The archive's bytes while it grows: the very pieces that came, uncopied; of a large one a temporary file."""

    _pieces: list[bytes] = field(default_factory=list)
    _num_bytes: int = 0
    _file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Append."""
        self._num_bytes += len(data)
        if self._file is None and self._num_bytes > _IN_MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._file.writelines(self._pieces)
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(data)
        else:
            self._file.write(data)

    def content(self) -> Content:
        """All of it, to be written to a store."""
        if self._file is None:
            return self._pieces
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Let go of it."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
