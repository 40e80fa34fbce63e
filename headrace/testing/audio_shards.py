"""Writes the audio shards of a few clips, with the library's own writer, for tests of what is built on them."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import soundfile
from numpy.typing import NDArray

from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.manifests.manifests import (
    Manifest,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    commit_manifest,
    newest_manifest,
    split_of,
)
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.stores.storage import Storage

Clips: TypeAlias = Mapping[str, NDArray[Any]]
"""Key → audio, float (frames,) or (frames, channels)."""


def write_partition(
    storage: Storage,
    shards: Sequence[Clips],
    *,
    partition: str = "train-0000",
    sample_rate_hz: int = 16_000,
    metadata: Mapping[str, Mapping[str, object]] | None = None,
) -> NumberedManifest:
    """Audio shards of these clips and the manifest over them; replaces what the partition held."""
    entries = []
    for sequence, clips in enumerate(shards):
        place = ShardPlace(split_of(partition), bucket_of(partition), sequence)
        with ShardWriter(storage, place) as writer:
            for key, samples in clips.items():
                _add(writer, key, samples, sample_rate_hz, (metadata or {}).get(key, {}))
            entries.append(_entry(writer.publish(f"input {sequence}", {}), sample_rate_hz))
    manifest = Manifest(partition, str(entries), "fingerprint", {"samples_per_shard": 50}, tuple(entries))
    return commit_manifest(storage, manifest, newest_manifest(storage, partition))


def commit(storage: Storage, *manifests: NumberedManifest) -> NumberedSnapshot:
    """An audio snapshot of these manifests."""
    by_partition = {numbered.manifest.partition: numbered for numbered in manifests}
    return commit_snapshot(storage, by_partition, "catalog", {})[0]


def _add(writer: ShardWriter, key: str, samples: NDArray[Any], rate_hz: int, columns: Mapping[str, object]) -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, format="FLAC", subtype="PCM_16")
    num_channels = 1 if samples.ndim == 1 else samples.shape[1]
    provenance = {
        "source": f"{key}.wav",
        "num_frames": len(samples),
        "sample_rate": rate_hz,
        "num_channels": num_channels,
    }
    text = json.dumps({**columns, "headrace": provenance}).encode()
    facts = SampleEntry(key, {}, len(samples), rate_hz, num_channels)
    blob = buffer.getvalue()
    writer.add(key, {"flac": (blob, len(blob)), "json": (text, len(text))}, facts)


def _entry(index: ShardIndex, rate_hz: int) -> ShardEntry:
    num_frames = int(index.num_frames.sum())
    return ShardEntry(
        index.shard,
        index.num_bytes,
        len(index),
        num_frames,
        num_frames / rate_hz,
        index.input_digest,
        len(index),
    )
