"""Makes an audio shard available as a local file, checks its digest, and lists its clips."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from headrace.encoding.clips import AudioClip, DecodedFrames
from headrace.errors import FormatError, IntegrityError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.stores.client_errors import translated_errors
from headrace.stores.refetch import DAMAGED_IN_STORE, until_sound
from headrace.stores.storage import Storage

_COPY_BYTES = 1 << 20
_LONG_SECONDS = 120  # of a clip in another codec than FLAC that is decoded as a whole


@dataclass(frozen=True, slots=True)
class AudioShard:
    """One audio shard in a local file.

    Attributes:
        index: the shard's index.
        clips: the shard's samples, in the order of the tar.
        texts: the samples' JSON, in the same order.
    """

    index: ShardIndex
    clips: tuple[AudioClip, ...]
    texts: tuple[bytes, ...]

    @property
    def seconds(self) -> float:
        """Total length of the clips."""
        return sum(clip.seconds for clip in self.clips)


@dataclass(frozen=True, slots=True)
class LocalShard:
    """The file of an audio shard on a local disk, which was compared with its index.

    Attributes:
        index: the shard's index.
        path: the tar.
    """

    index: ShardIndex
    path: Path

    def listed(self, field_name: str = "") -> AudioShard:
        """The shard's samples; see `audio_shard`."""
        return _listed(self.index, self.path, field_name)


@contextmanager
def audio_shard(storage: Storage, name: str, field_name: str = "") -> Iterator[AudioShard]:
    """Context with the shard `name` in a local file; see `local_shard`.

    Args:
        storage: the folder of audio shards.
        name: file name of the tar.
        field_name: name of the audio field that the clips are; empty for the first.

    Raises:
        ConfigError: the shard has no audio field of this name.
        NotFoundError, IntegrityError: see `local_shard`.
    """
    with local_shard(storage, name) as shard:
        yield shard.listed(field_name)


@contextmanager
def sample_clip(storage: Storage, index: ShardIndex, row: int, field_name: str = "") -> Iterator[AudioClip]:
    """Context with the audio of one sample as a temporary file; only its byte range is read.

    Raises:
        FormatError: the shard has no such audio.
    """
    if (found := index.audio_of(row, field_name)) is None:
        raise FormatError(f"{index.shard}: sample {index.key(row)!r} has no audio {field_name}; build the shard again")
    (blob,) = storage.read_ranges(index.shard, [found.span])
    with tempfile.NamedTemporaryFile(prefix="headrace-", suffix=".audio") as file:
        file.write(blob)
        file.flush()
        facts = (int(index.num_frames[row]), int(index.sample_rate_hz[row]), found.num_channels)
        yield AudioClip(index.shard, Path(file.name), index.key(row), (0, len(blob)), *facts)


@contextmanager
def local_shard(storage: Storage, name: str) -> Iterator[LocalShard]:
    """Context with a shard in a local file: the stored file itself on a local disk, else a temporary copy.

    Every byte is read and checked first, so that no latents are computed from damaged audio.

    Raises:
        NotFoundError: the tar or its index does not exist.
        IntegrityError: the tar has another size or digest than its index says.
    """
    index = read_index(storage, name)
    local = storage.local_path(name)
    if local is not None:
        with storage.open(name) as file:
            _check(file, None, index)
        yield LocalShard(index, local)
        return
    with tempfile.NamedTemporaryFile(prefix="headrace-", suffix=".tar") as copy:
        target = cast("BinaryIO", copy)
        until_sound(lambda source: _copy(source, name, target, index), storage, f"{storage.uri}/{name}")
        yield LocalShard(index, Path(copy.name))


def _copy(storage: Storage, name: str, copy: BinaryIO, index: ShardIndex) -> None:
    copy.seek(0)
    copy.truncate()
    with storage.open(name) as file:
        _check(file, copy, index)
    copy.flush()


def _check(file: BinaryIO, copy: BinaryIO | None, index: ShardIndex) -> None:
    digest, num_bytes = hashlib.sha256(), 0
    while chunk := file.read(_COPY_BYTES):
        digest.update(chunk)
        num_bytes += len(chunk)
        if copy is not None:
            copy.write(chunk)
    if (num_bytes, digest.hexdigest()) != (index.num_bytes, index.sha256 or digest.hexdigest()):
        raise IntegrityError(
            f"{index.shard}: expected {index.num_bytes} bytes with SHA-256 {index.sha256[:12]}…, found {num_bytes} "
            f"with {digest.hexdigest()[:12]}…; {DAMAGED_IN_STORE}"
        )


def _listed(index: ShardIndex, path: Path, field_name: str) -> AudioShard:
    clips, texts = [], []
    with translated_errors(path.name, str(path.parent)), path.open("rb") as file:
        for i, key in enumerate(index.keys()):
            audio, text = index.audio_of(i, field_name), index.range_of(i, "json")
            if audio is None or text is None:
                raise FormatError(f"{index.shard}: sample {key!r} lacks audio or .json; build the audio shard again")
            num_frames, rate = int(index.num_frames[i]), int(index.sample_rate_hz[i])
            is_seekable = audio.member.rpartition(".")[2] == "flac" or num_frames <= _LONG_SECONDS * rate
            decoded = None if is_seekable else DecodedFrames()
            clips.append(AudioClip(index.shard, path, key, audio.span, num_frames, rate, audio.num_channels, decoded))
            file.seek(text[0])
            texts.append(file.read(text[1] - text[0]))
    return AudioShard(index, tuple(clips), tuple(texts))
