"""The audio shards that latents are made from, on this machine and proven whole.

Owns getting one shard's tar to a local path, checking its digest, and listing its clips from the index.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from headrace.encoding.clips import Clip
from headrace.errors import FormatError, IntegrityError
from headrace.index import ShardIndex, index_name
from headrace.storage import Storage

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AudioShard:
    """One audio shard, readable at a local path.

    Attributes:
        index: its index.
        clips: its samples, in the order of the tar.
        texts: the samples' JSON, in the same order.
    """

    index: ShardIndex
    clips: tuple[Clip, ...]
    texts: tuple[bytes, ...]

    @property
    def seconds(self) -> float:
        """Length of all clips together."""
        return sum(clip.seconds for clip in self.clips)


@contextmanager
def audio_shard(storage: Storage, name: str) -> Iterator[AudioShard]:
    """The shard `name`, as long as the context lasts: in place on a local disk, else as a temporary copy.

    Every byte is read once and checked, so that no latents are made from damaged audio.

    Raises:
        NotFoundError: the tar or its index is not there.
        IntegrityError: size or digest are not those that the index names.
    """
    index = ShardIndex.from_bytes(storage.read(index_name(name)), index_name(name))
    local = storage.local_path(name)
    if local is not None:
        with storage.open(name) as file:
            _check(file, None, index)
        yield _listed(index, local)
        return
    with tempfile.NamedTemporaryFile(prefix="headrace-", suffix=".tar") as copy:
        with storage.open(name) as file:
            _check(file, cast("BinaryIO", copy), index)
        copy.flush()
        yield _listed(index, Path(copy.name))


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
            f"with {digest.hexdigest()[:12]}…; the audio shard is damaged: delete it and build the data set again"
        )


def _listed(index: ShardIndex, path: Path) -> AudioShard:
    clips, texts = [], []
    with path.open("rb") as file:
        for i, key in enumerate(index.keys()):
            span, text = index.range_of(i, "flac"), index.range_of(i, "json")
            if span is None or text is None:
                raise FormatError(f"{index.shard}: sample {key!r} lacks .flac or .json; build the audio shard again")
            rate, channels = int(index.sample_rate_hz[i]), int(index.num_channels[i])
            clips.append(Clip(index.shard, path, key, span, int(index.num_frames[i]), rate, channels))
            file.seek(text[0])
            texts.append(file.read(text[1] - text[0]))
    return AudioShard(index, tuple(clips), tuple(texts))
