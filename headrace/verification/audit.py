"""Compares the files of a shard folder with each other: manifest, index, tar, snapshot and `sizes.json`.

Asset checks make these comparisons when they run alone, or after a failure: a build makes them on what it writes,
before it stores it. Each function returns the faults as text. Only sizes and headers are read; `headrace verify` reads
every byte.
"""

import numpy as np

from headrace.encoding.plans import AUDIO_SHARD_NOTE
from headrace.errors import FormatError, HeadraceError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.indexes.tar_faults import tar_faults
from headrace.format.manifests.manifests import Manifest, NumberedManifest, ShardEntry, is_shard_name, newest_manifest
from headrace.format.manifests.planned_keys import read_planned_keys
from headrace.format.rejects import RejectReason
from headrace.format.segment_keys import recording_key
from headrace.format.snapshots.snapshots import Snapshot, read_table
from headrace.format.typed_json import json_object
from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage


def conservation_faults(storage: Storage, numbered: NumberedManifest) -> list[str]:
    """Faults of samples that were planned and neither written nor rejected, or written and not planned."""
    manifest = numbered.manifest
    faults = []
    absent: list[str] = []
    for shard, keys in zip(manifest.shards, read_planned_keys(storage, numbered), strict=True):
        planned, written = set(keys), set(read_index(storage, shard.name).keys())
        absent += sorted(planned - written)
        faults += [f"{shard.name}: {key} was written and not planned" for key in sorted(written - planned)]
    refused = [
        refusal for refusal in manifest.refused if refusal.code != RejectReason.TOO_SHORT
    ]  # those plan no sample
    num_recordings = len({recording_key(key) for key in absent})  # at least
    if not num_recordings <= len(refused) <= len(absent):
        faults.append(
            f"{manifest.partition}: {len(absent)} planned samples of {num_recordings} recordings are not written, "
            f"{len(refused)} recordings are rejected"
        )
    return faults


def pairing_faults(audio: Storage, storage: Storage, manifest: Manifest) -> list[str]:
    """Differences between a partition of latents and its audio: other shards, other keys, or another order of samples.

    The samples without latents must be those that the manifest lists as rejected.
    """
    numbered = newest_manifest(audio, manifest.partition)
    shards = {shard.name for shard in numbered.manifest.shards if shard.num_samples} if numbered else set()
    indexes = [read_index(storage, shard.name) for shard in manifest.shards]
    paired = {index.note(AUDIO_SHARD_NOTE): index for index in indexes}
    faults = [f"{name}: an audio shard without latents" for name in sorted(shards - set(paired))]
    faults += [f"{name}: has latents, but is not in the audio" for name in sorted(set(paired) - shards)]
    faults += [
        f"{paired[name].shard}: holds other keys than the audio shard {name}"
        for name in sorted(shards & set(paired))
        if paired[name].keys() != read_index(audio, name).keys()
    ]
    rejected = {refusal.key for refusal in manifest.refused}
    bare = {key: index.shard for index in indexes for key in _without_latents(index)}
    faults += [
        f"{bare[key]}: {key} has no latents, and the manifest gives no reason" for key in sorted(set(bare) - rejected)
    ]
    faults += [f"{manifest.partition}: {key} is rejected, and has latents" for key in sorted(rejected - set(bare))]
    return faults


def _without_latents(index: ShardIndex) -> list[str]:
    """Keys of the samples of a latent shard that have no latents."""
    return index.keys_of(np.flatnonzero((index.tensors[..., 0] == ABSENT).all(1)).tolist())


def index_faults(storage: Storage, shard: ShardEntry) -> list[str]:
    """Differences between the index of a shard and the headers of its tar.

    For a shard that was just written, the writer has made this comparison already, without a download
    (`headrace.format.shards.writer`).
    """
    try:
        index = read_index(storage, shard.name)
        with storage.open(shard.name) as file:
            faults = tar_faults(file, index)
    except (HeadraceError, OSError) as error:
        return [f"{shard.name}: {error}"]
    if len(index) != shard.num_samples:
        faults.append(f"the index lists {len(index)} samples, the manifest {shard.num_samples}")
    return [fault if fault.startswith(shard.name) else f"{shard.name}: {fault}" for fault in faults]


def snapshot_faults(storage: Storage, snapshot: Snapshot) -> list[str]:
    """Differences between `sizes.json`, a snapshot, and the tars in the folder.

    Raises:
        NotFoundError: there is no `sizes.json`.
        FormatError: `sizes.json` is not an object of counts.
    """
    table = read_table(storage, snapshot)
    wanted = dict(zip(table.names(), table.num_samples.tolist(), strict=True))
    sizes = read_sound(storage, "sizes.json", _counts)
    faults = [
        f"sizes.json: {name} is {sizes.get(name)}, the snapshot says {wanted.get(name)}"
        for name in wanted | sizes
        if sizes.get(name) != wanted.get(name)
    ]
    there = {entry.path: entry.num_bytes for entry in storage.list() if is_shard_name(entry.path)}
    bytes_wanted = dict(zip(table.names(), table.num_bytes.tolist(), strict=True))
    faults += [
        f"{name}: {there.get(name, 0)} bytes are there, the snapshot says {size}"
        for name, size in bytes_wanted.items()
        if there.get(name) != size
    ]
    return faults


def _counts(blob: bytes, name: str) -> dict[str, int]:
    """The counts of a `sizes.json`, by shard. Raises `FormatError`."""
    try:
        return json_object(blob)
    except ValueError as error:
        raise FormatError(f"{name}: not a JSON object ({error})") from error
