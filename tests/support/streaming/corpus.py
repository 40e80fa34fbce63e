"""Small data sets made by the library's own writers: what the streaming tests read."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from headrace.format.indexes.index import FRAME_RATE_NOTE, REFUSED_NOTE, ShardIndex
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry
from headrace.format.manifests.manifests import Manifest, ShardEntry, commit_manifest, newest_manifest, newest_manifests
from headrace.format.manifests.stored_census import census_of
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.format.tensors.outputs import hidden_output
from headrace.format.tensors.pth import latent_facts
from headrace.stores.storage import LocalStorage, Storage

RATE_HZ = 8000
LATENT_HOP = 100
WIDTH = 8


@dataclass(frozen=True, slots=True)
class Clip:
    """One synthetic sample: noise that its number determines, and latents that its encoder's number does too."""

    number: int
    num_frames: int
    num_channels: int = 1
    encoder: int = 0
    rate_hz: int = RATE_HZ
    latent_hop: int = LATENT_HOP
    rejection: str = ""

    @property
    def key(self) -> str:
        return f"clip{self.number:05d}"

    def pcm(self) -> NDArray[np.int16]:
        """int16 (frames, channels)."""
        noise = np.random.default_rng(self.number).integers(-3000, 3000, (self.num_frames, self.num_channels))
        return noise.astype(np.int16)

    def audio(self) -> NDArray[np.float32]:
        """Audio that a loader must give: float32 (channels, frames)."""
        return np.ascontiguousarray(self.pcm().T.astype(np.float32) / 32768)

    def flac(self) -> bytes:
        file = io.BytesIO()
        sf.write(file, self.pcm(), self.rate_hz, format="FLAC", subtype="PCM_16")
        return file.getvalue()

    def json(self) -> bytes:
        facts = {"num_frames": self.num_frames} | ({"refused": self.rejection} if self.rejection else {})
        return json.dumps({"title": f"Clip {self.number}", "headrace": facts}).encode()

    def hidden(self) -> NDArray[np.float16]:
        """Latents (T, D), one for each `latent_hop` frames, at least one."""
        shape = (max(1, self.num_frames // self.latent_hop), WIDTH)
        return np.random.default_rng(self.number + 10**6 * (1 + self.encoder)).standard_normal(shape).astype(np.float16)

    def pth(self) -> bytes:
        import torch

        file = io.BytesIO()
        hidden = torch.from_numpy(self.hidden())
        torch.save({"encoder_hidden": hidden, "encoder_length": len(hidden)}, file)
        return file.getvalue()


def clips(count: int, *, frames: tuple[int, int] = (300, 900), first: int = 0, num_channels: int = 1) -> list[Clip]:
    """Clips of lengths between the two, by number."""
    lengths = np.random.default_rng(7).integers(*frames, first + count)
    return [Clip(number, int(lengths[number]), num_channels) for number in range(first, first + count)]


def write_audio_shard(storage: Storage, place: ShardPlace, samples: Sequence[Clip]) -> ShardIndex:
    with ShardWriter(storage, place) as writer:
        for clip in samples:
            flac, text = clip.flac(), clip.json()
            facts = SampleEntry(clip.key, {}, clip.num_frames, clip.rate_hz, clip.num_channels)
            writer.add(clip.key, {"flac": (flac, len(flac)), "json": (text, len(text))}, facts)
        return writer.publish("input", {})


def write_latent_shard(storage: Storage, place: ShardPlace, samples: Sequence[Clip]) -> ShardIndex:
    rejected = [
        {"key": clip.key, "path": f"{clip.key}.wav", "code": clip.rejection, "reason": f"reason of {clip.key}"}
        for clip in samples
        if clip.rejection
    ]
    with ShardWriter(storage, place) as writer:
        for clip in samples:
            text = clip.json()
            if clip.rejection:
                writer.add(clip.key, {"json": (text, len(text))})
                continue
            pth = clip.pth()
            found = latent_facts(pth)
            assert found is not None
            assert found.tensor is not None
            tensor = PlacedTensor(found.tensor.place, found.tensor.crc32)
            facts = SampleEntry(clip.key, {}, found.encoder_length, tensors=(tensor,))
            writer.add(clip.key, {"pth": (pth, len(pth)), "json": (text, len(text))}, facts)
        rate_hz = RATE_HZ / samples[0].latent_hop
        notes = {FRAME_RATE_NOTE: repr(rate_hz), REFUSED_NOTE: json.dumps(rejected)}
        return writer.publish("input", notes, (hidden_output("float16"),) if len(rejected) < len(samples) else ())


ShardWriting = Callable[[Storage, ShardPlace, Sequence[Clip]], ShardIndex]


def commit(
    storage: Storage, shards: Mapping[str, Sequence[ShardIndex]], origin: Mapping[str, object]
) -> NumberedSnapshot:
    """A manifest for each partition, and the snapshot of all."""
    for partition, indexes in shards.items():
        entries = tuple(map(_entry, indexes))
        digest = "-".join(index.sha256[:6] for index in indexes)
        manifest = Manifest(partition, digest, "s", {}, entries, lengths=census_of(indexes))
        commit_manifest(storage, manifest, newest_manifest(storage, partition))
    return commit_snapshot(storage, newest_manifests(storage), "catalog", origin)[0]


def write_dataset(
    folder: Path, samples: Mapping[str, Sequence[Clip]], *, per_shard: int = 5, latents: bool = False
) -> NumberedSnapshot:
    """`folder/audio` (and `folder/latents/crepe`) with these samples by split, one partition a split, committed."""
    audio = LocalStorage(folder / "audio")
    snapshot = _write(audio, samples, per_shard, write_audio_shard, "", {})
    if latents:
        write_latents(folder, samples, snapshot, per_shard=per_shard)
    return snapshot


def write_latents(
    folder: Path,
    samples: Mapping[str, Sequence[Clip]],
    audio: NumberedSnapshot,
    *,
    per_shard: int = 5,
    name: str = "crepe",
) -> NumberedSnapshot:
    """`folder/latents/<name>` for a snapshot of the audio, committed."""
    origin = {"audio_snapshot": audio.number, "audio_fingerprint": audio.snapshot.fingerprint}
    storage = LocalStorage(folder / "latents" / name)
    return _write(storage, samples, per_shard, write_latent_shard, "latent_", origin)


def _write(  # noqa: PLR0913, PLR0917 - a helper of one caller
    storage: Storage,
    samples: Mapping[str, Sequence[Clip]],
    per_shard: int,
    write: ShardWriting,
    prefix: str,
    origin: Mapping[str, object],
) -> NumberedSnapshot:
    written: dict[str, list[ShardIndex]] = {}
    for split, chosen in samples.items():
        written[f"{split}-0000"] = [
            write(storage, ShardPlace(split, 0, number, prefix), chosen[start : start + per_shard])
            for number, start in enumerate(range(0, len(chosen), per_shard))
        ]
    return commit(storage, written, origin)


def _entry(index: ShardIndex) -> ShardEntry:
    frames, seconds = int(index.lengths.sum()), float((index.lengths / index.rates_hz)[index.rates_hz > 0].sum())
    return ShardEntry(index.shard, index.num_bytes, len(index), frames, seconds, "input", len(index))
