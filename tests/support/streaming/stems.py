"""Samples with named audio fields: a stereo mix, and vocals that are an exact function of it, so that shifts show."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from headrace.format.indexes.audio_fields import AudioFacts, common_facts
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.stores.storage import LocalStorage, Storage
from tests.support.streaming.corpus import RATE_HZ, commit
from tests.support.tars import tar_of


@dataclass(frozen=True, slots=True)
class Song:
    """A mix, and vocals that are its left channel, negated; `missing` frames are cut off the vocals' end."""

    number: int
    num_frames: int
    missing: int = 0

    @property
    def key(self) -> str:
        return f"song{self.number:05d}"

    def mix(self) -> NDArray[np.int16]:
        """int16 (frames, 2)."""
        noise = np.random.default_rng(self.number).integers(-3000, 3000, (self.num_frames, 2))
        return noise.astype(np.int16)

    def fields(self) -> dict[str, NDArray[np.int16]]:
        """int16 (frames, channels) by name."""
        mix = self.mix()
        return {"mix": mix, "vocals": -mix[: self.num_frames - self.missing, :1]}

    def audio(self) -> dict[str, NDArray[np.float32]]:
        """Audio that a loader must give: float32 (channels, frames), all fields as long as the shortest."""
        length = self.num_frames - self.missing
        return {
            name: np.ascontiguousarray(pcm[:length].T.astype(np.float32) / 32768) for name, pcm in self.fields().items()
        }

    def payloads(self) -> dict[str, bytes]:
        """The members of the sample by field, without JSON."""
        return {f"{name}.flac": _flac(pcm) for name, pcm in self.fields().items()}

    def json(self) -> bytes:
        return json.dumps({"title": f"Song {self.number}", "headrace": {"fields": {"mix": {}, "vocals": {}}}}).encode()


def songs(count: int, *, frames: tuple[int, int] = (300, 900)) -> list[Song]:
    """Songs of lengths between the two, by number."""
    lengths = np.random.default_rng(11).integers(*frames, count)
    return [Song(number, int(lengths[number])) for number in range(count)]


def write_stems_shard(storage: Storage, place: ShardPlace, samples: Sequence[Song]) -> ShardIndex:
    with ShardWriter(storage, place) as writer:
        for song in samples:
            audio = {name: AudioFacts(len(pcm), RATE_HZ, pcm.shape[1]) for name, pcm in song.fields().items()}
            payloads = song.payloads() | {"json": song.json()}
            facts = SampleEntry(song.key, {}, *common_facts(audio), audio=audio)
            writer.add(song.key, {name: (blob, len(blob)) for name, blob in payloads.items()}, facts)
        return writer.publish("input", {})


def write_stems(folder: Path, samples: Sequence[Song], *, per_shard: int = 4) -> NumberedSnapshot:
    """`folder/audio` with these songs, committed."""
    storage = LocalStorage(folder / "audio")
    indexes = [
        write_stems_shard(storage, ShardPlace("train", 0, number), samples[start : start + per_shard])
        for number, start in enumerate(range(0, len(samples), per_shard))
    ]
    return commit(storage, {"train-0000": indexes}, {})


def foreign_stems(samples: Sequence[Song]) -> bytes:
    """A tar with these songs that Headrace did not write."""
    members = {
        f"{song.key}.{name}": blob
        for song in samples
        for name, blob in (song.payloads() | {"json": b"{}", "txt": b"words"}).items()
    }
    return tar_of(members)


def _flac(pcm: NDArray[np.int16]) -> bytes:
    file = io.BytesIO()
    sf.write(file, pcm, RATE_HZ, format="FLAC", subtype="PCM_16")
    return file.getvalue()
