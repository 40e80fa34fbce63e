"""Reuses the latents of an earlier build for samples whose audio has not changed.

When a metadata column or one recording of fifty changes, the audio shard is a new one, but most of its audio is the
same. Two FLAC streams have the same audio if their STREAMINFO has the same sample rate, channels, bits, number of
frames and MD5 of the decoded audio (RFC 9639, section 8.2). The shards of this project always have the MD5. Audio in
another codec is the same if all of its bytes are. Samples that are not certainly the same, or whose latents are
incomplete or damaged, are encoded again.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.encoding.clips import AudioClip
from headrace.encoding.made import Made
from headrace.encoding.plans import (
    AUDIO_FIELD_NOTE,
    AUDIO_SHARD_NOTE,
    DTYPE_NOTE,
    ENCODER_NOTE,
    LatentDtype,
    NoLatents,
)
from headrace.errors import HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeBy, makers_of
from headrace.format.manifests.manifests import rejections_of
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.pth import verified_outputs
from headrace.stores.storage import Storage

_ABOUT_AUDIO = slice(18, 42)  # sample rate to MD5, in a stream that begins with fLaC and STREAMINFO
_HEAD_BYTES = 42
_FLAC = "flac"
_MAGIC = b"fLaC"
_MD5_BYTES = 16
_DONORS_KEPT = 64

ByteRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Donor:
    """A latent shard, and the audio shard that it was made from.

    Attributes:
        latents: index of the latent shard.
        audio: index of the audio shard.
        rejections: key → why the sample has no latents, for those that have none.
    """

    latents: ShardIndex
    audio: ShardIndex
    rejections: Mapping[str, NoLatents]

    def held(self, key: str) -> ByteRange | NoLatents | None:
        """Byte range of a sample's `.pth`, or its rejection; None if the shard lacks the sample."""
        row = self.latents.find(key)
        pth = None if row is None else self.latents.range_of(row, "pth")
        return pth or self.rejections.get(key)

    def telling(self, key: str) -> ByteRange | None:
        """Byte range of what distinguishes a sample's audio from other audio; None if the shard lacks the sample."""
        row = self.audio.find(key)
        found = None if row is None else self.audio.audio_of(row, self.latents.notes.get(AUDIO_FIELD_NOTE, ""))
        if found is None or found.span[1] - found.span[0] < _HEAD_BYTES:
            return None
        start, stop = found.span
        return (start, start + _HEAD_BYTES) if found.member.rpartition(".")[2] == _FLAC else (start, stop)


@dataclass(slots=True)
class KeptLatents:
    """The latents that a partition had before the build.

    Attributes:
        audio: the folder of audio shards.
        storage: the folder of latents.
        encoder: fingerprint of the encoder; latents of another encoder are not reused.
        dtype: dtype of the stored latents; latents of another dtype are not reused.
        outputs: the outputs that the encoder gives.
        shard_of: key of a sample → name of the latent shard that has it.
    """

    audio: Storage
    storage: Storage
    encoder: str
    dtype: LatentDtype
    outputs: tuple[Output, ...]
    shard_of: Mapping[str, str]
    _donors: OrderedDict[str, _Donor | None] = field(default_factory=OrderedDict)

    def of(self, clips: Sequence[AudioClip]) -> Iterator[tuple[int, Made]]:
        """Position in `clips` and outputs, or the rejection, of each clip whose audio has not changed."""
        by_shard: dict[str, list[int]] = {}
        for place, clip in enumerate(clips):
            if (name := self.shard_of.get(clip.key)) is not None:
                by_shard.setdefault(name, []).append(place)
        for name, places in by_shard.items():
            if (donor := self._donor(name)) is not None:
                yield from self._same(donor, places, clips)

    def makers(self, keys: Sequence[str]) -> set[MadeBy]:
        """Devices and software of the latents that these samples are copied from, as far as shards say it."""
        donors = (self._donor(name) for name in {self.shard_of[key] for key in keys})
        return {by for donor in donors if donor is not None for by in makers_of(donor.latents)}

    def _same(self, donor: _Donor, places: Sequence[int], clips: Sequence[AudioClip]) -> Iterator[tuple[int, Made]]:
        found = [
            (place, held, head)
            for place in places
            if (held := donor.held(clips[place].key)) is not None
            and (head := donor.telling(clips[place].key)) is not None
        ]
        try:
            heads = self.audio.read_ranges(donor.audio.shard, [span for _, _, span in found])
            same = [
                (place, held) for (place, held, _), head in zip(found, heads, strict=True) if _is_of(head, clips[place])
            ]
            for place, held in same:
                yield place, held if isinstance(held, NoLatents) else self._read(donor, held)
        except (HeadraceError, OSError):  # deleted, truncated or damaged: the other clips are encoded
            return

    def _read(self, donor: _Donor, pth: ByteRange) -> Made:
        (blob,) = self.storage.read_ranges(donor.latents.shard, [pth])
        return tuple(verified_outputs(blob, self.outputs))

    def _donor(self, name: str) -> _Donor | None:
        if name not in self._donors:
            self._donors[name] = self._opened(name)
            if len(self._donors) > _DONORS_KEPT:
                self._donors.popitem(last=False)
        return self._donors[name]

    def _opened(self, name: str) -> _Donor | None:
        try:
            latents = read_index(self.storage, name)
            if (latents.notes.get(ENCODER_NOTE), latents.notes.get(DTYPE_NOTE)) != (self.encoder, self.dtype):
                return None
            if latents.outputs not in {self.outputs, ()}:
                return None
            rejections = {refusal.key: NoLatents(refusal.code, refusal.reason) for refusal in rejections_of(latents)}
            return _Donor(latents, read_index(self.audio, latents.note(AUDIO_SHARD_NOTE)), rejections)
        except (HeadraceError, OSError, KeyError, ValueError, TypeError):
            return None


def _is_of(telling: bytes, clip: AudioClip) -> bool:
    """Whether the bytes that distinguish a sample's audio from other audio (`_Donor.telling`) are those of a clip."""
    start, stop = clip.span
    with clip.path.open("rb") as file:
        now = os.pread(file.fileno(), min(len(telling), stop - start), start)
    if not telling.startswith(_MAGIC):
        return len(telling) == stop - start and telling == now
    about = now[_ABOUT_AUDIO]
    return telling[_ABOUT_AUDIO] == about and any(about[-_MD5_BYTES:])
