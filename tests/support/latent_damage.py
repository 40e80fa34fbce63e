"""Replaces latents with wrong ones, with correct tars, digests, indexes, snapshot and `sizes.json`."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import (
    ShardEntry,
    bucket_of,
    commit_manifest,
    newest_manifests,
    sequence_of,
    split_of,
)
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot
from headrace.format.tensors.pth import SavedOutputs, saved_outputs, stored_latents
from headrace.stores.storage import Storage

Change = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Of one shard's latents by key."""


def replace_latents(storage: Storage, change: Change) -> NumberedSnapshot:
    """Rewrite every shard of a latents folder with other latents under the same keys, and commit a snapshot."""
    before = read_snapshot(storage).snapshot
    manifests = {}
    for partition, numbered in newest_manifests(storage).items():
        shards = tuple(_rewritten(storage, partition, entry, change) for entry in numbered.manifest.shards)
        manifests[partition] = commit_manifest(storage, replace(numbered.manifest, shards=shards), numbered)
    return commit_snapshot(storage, manifests, before.catalog, before.origin)[0]


def _rewritten(storage: Storage, partition: str, entry: ShardEntry, change: Change) -> ShardEntry:
    index, blob = read_index(storage, entry.name), storage.read(entry.name)
    fields = {
        key: [blob[slice(*index.range_of(i, name))] for name in ("pth", "json")] for i, key in enumerate(index.keys())
    }
    changed = change({key: stored_latents(pth)[0] for key, (pth, _) in fields.items()})
    place = ShardPlace(split_of(partition), bucket_of(partition), sequence_of(entry.name), "latent_")
    with ShardWriter(storage, place) as writer:
        for key, (_, text) in fields.items():
            hidden = changed[key]
            saved = saved_outputs(index.outputs, [hidden])
            members = {"pth": (saved.blob, len(saved.blob)), "json": (text, len(text))}
            writer.add(key, members, SampleEntry(key, {}, len(hidden), tensors=_placed(saved)))
        made = writer.publish(index.input_digest, index.notes, index.outputs)
    return replace(entry, name=made.shard, num_bytes=made.num_bytes)


def _placed(saved: SavedOutputs) -> tuple[PlacedTensor, ...]:
    return tuple(PlacedTensor(tensor.place, tensor.crc32) for tensor in saved.tensors)
