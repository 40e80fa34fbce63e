"""Latents of an earlier build that are taken over, because the audio they were made of has not changed.

A column of the metadata changed, or one recording among fifty: the audio shard is a new one, and nearly all in it
sounds as before. Owns telling so and reading the old latents. Two FLAC streams hold the same audio if their STREAMINFO
says so: rate, channels, bits, frames, and the MD5 of the decoded audio (RFC 9639, section 8.2), which our shards always
have. What is not surely the same, or not whole any more, is encoded anew.
"""

import io
import os
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from headrace.encoding.clips import Clip
from headrace.encoding.plans import AUDIO_SHARD_NOTE, ENCODER_NOTE, LatentDtype
from headrace.errors import FormatError, HeadraceError, IntegrityError
from headrace.index import ShardIndex, index_name
from headrace.pth import stored_latents
from headrace.storage import Storage

_ABOUT_AUDIO = slice(18, 42)  # of a stream that begins with fLaC and STREAMINFO: rate to MD5
_HEAD_BYTES = 42
_MD5_BYTES = 16
_DONORS_KEPT = 64

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Donor:
    """A latent shard, and the audio shard that it was made of."""

    latents: ShardIndex
    audio: ShardIndex

    def spans(self, key: str) -> tuple[Span, Span] | None:
        """Byte ranges of a sample's `.pth` and of the beginning of the FLAC it was made of; None if it is not here."""
        mine, its = self.latents.find(key), self.audio.find(key)
        pth = None if mine is None else self.latents.range_of(mine, "pth")
        flac = None if its is None else self.audio.range_of(its, "flac")
        if pth is None or flac is None or flac[1] - flac[0] < _HEAD_BYTES:
            return None
        return pth, (flac[0], flac[0] + _HEAD_BYTES)


@dataclass(slots=True)
class KeptLatents:
    """The latents that a partition held before.

    Attributes:
        audio: the folder of audio shards.
        storage: the folder of latents.
        encoder: fingerprint of the encoder that they must be made by.
        dtype: in which they must be stored.
        shard_of: key of a sample → name of the latent shard that holds it.
    """

    audio: Storage
    storage: Storage
    encoder: str
    dtype: LatentDtype
    shard_of: Mapping[str, str]
    _donors: OrderedDict[str, _Donor | None] = field(default_factory=OrderedDict)

    def of(self, clips: Sequence[Clip]) -> Iterator[tuple[int, Tensor]]:
        """Place in `clips` and latents (T, D) of those whose audio is what it was."""
        by_shard: dict[str, list[int]] = {}
        for place, clip in enumerate(clips):
            if (name := self.shard_of.get(clip.key)) is not None:
                by_shard.setdefault(name, []).append(place)
        for name, places in by_shard.items():
            if (donor := self._donor(name)) is not None:
                yield from self._same(donor, places, clips)

    def _same(self, donor: _Donor, places: Sequence[int], clips: Sequence[Clip]) -> Iterator[tuple[int, Tensor]]:
        found = [(place, spans) for place in places if (spans := donor.spans(clips[place].key)) is not None]
        try:
            heads = self.audio.read_ranges(donor.audio.shard, [head for _, (_, head) in found])
            same = [
                (place, pth) for (place, (pth, _)), head in zip(found, heads, strict=True) if _is_of(head, clips[place])
            ]
            for place, pth in same:
                (blob,) = self.storage.read_ranges(donor.latents.shard, [pth])
                yield place, _latents(blob)
        except (HeadraceError, OSError):  # gone since, cut off or damaged: the rest is encoded
            return

    def _donor(self, name: str) -> _Donor | None:
        if name not in self._donors:
            self._donors[name] = self._opened(name)
            if len(self._donors) > _DONORS_KEPT:
                self._donors.popitem(last=False)
        return self._donors[name]

    def _opened(self, name: str) -> _Donor | None:
        try:
            latents = _index(self.storage, name)
            if (latents.notes.get(ENCODER_NOTE), latents.tensor_dtype) != (self.encoder, self.dtype):
                return None
            return _Donor(latents, _index(self.audio, latents.notes[AUDIO_SHARD_NOTE]))
        except (HeadraceError, OSError, KeyError):
            return None


def _index(storage: Storage, name: str) -> ShardIndex:
    return ShardIndex.from_bytes(storage.read(index_name(name)), index_name(name))


def _is_of(head: bytes, clip: Clip) -> bool:
    """Whether a FLAC stream that begins so holds the audio of a clip."""
    with clip.path.open("rb") as file:
        now = os.pread(file.fileno(), _HEAD_BYTES, clip.span[0])
    about = now[_ABOUT_AUDIO]
    return head[_ABOUT_AUDIO] == about and any(about[-_MD5_BYTES:])


def _latents(blob: bytes) -> Tensor:
    """The latents of a `.pth`, whose archive's checksums are right.

    Raises:
        FormatError: it is none of ours.
        IntegrityError: it is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        raise FormatError(str(error)) from error
    if damaged is not None:
        raise IntegrityError(damaged)
    return stored_latents(blob)[0]
