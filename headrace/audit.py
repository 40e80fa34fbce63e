"""Whether a shard folder says of itself what is true: manifest, index, tar, snapshot and `sizes.json` compared.

Owns the comparisons that every build makes of what it has just written; each returns the faults found, in words. Sizes
and headers are read, payloads are not: re-reading every byte is `headrace verify`'s business.
"""

import json

from headrace.encoding.plans import AUDIO_SHARD_NOTE
from headrace.errors import HeadraceError, NotFoundError
from headrace.index import ShardIndex, group_members, index_name
from headrace.manifests import Manifest, ShardEntry, newest_manifest
from headrace.rejects import Reject
from headrace.samples import recording_key
from headrace.snapshots import Snapshot, read_table
from headrace.storage import Storage
from headrace.tar import read_members


def read_index(storage: Storage, shard: str) -> ShardIndex:
    """The index beside a shard."""
    path = index_name(shard)
    return ShardIndex.from_bytes(storage.read(path), path)


def conservation_faults(storage: Storage, manifest: Manifest) -> list[str]:
    """Samples that were planned and neither written nor refused, or written and never planned."""
    faults = []
    absent: list[str] = []
    for shard in manifest.shards:
        planned, written = set(shard.samples), set(read_index(storage, shard.name).keys())
        absent += sorted(planned - written)
        faults += [f"{shard.name}: {key} was written and not planned" for key in sorted(written - planned)]
    refused = [refusal for refusal in manifest.refused if refusal.code != Reject.TOO_SHORT]  # those plan no sample
    num_recordings = len({recording_key(key) for key in absent})  # at least
    if not num_recordings <= len(refused) <= len(absent):
        faults.append(
            f"{manifest.partition}: {len(absent)} planned samples of {num_recordings} recordings are not written, "
            f"{len(refused)} recordings are refused"
        )
    return faults


def pairing_faults(audio: Storage, storage: Storage, manifest: Manifest) -> list[str]:
    """Where a partition of latents does not hold exactly the samples of its audio, shard for shard, in its order."""
    numbered = newest_manifest(audio, manifest.partition)
    shards = {shard.name for shard in numbered.manifest.shards if shard.num_samples} if numbered else set()
    indexes = [read_index(storage, shard.name) for shard in manifest.shards]
    paired = {index.notes[AUDIO_SHARD_NOTE]: index for index in indexes}
    faults = [f"{name}: an audio shard without latents" for name in sorted(shards - set(paired))]
    faults += [f"{name}: latents of it are here, it is not in the audio" for name in sorted(set(paired) - shards)]
    faults += [
        f"{paired[name].shard}: holds other keys than the audio shard {name}"
        for name in sorted(shards & set(paired))
        if paired[name].keys() != read_index(audio, name).keys()
    ]
    return faults


def index_faults(storage: Storage, shard: ShardEntry) -> list[str]:
    """Where the index of a shard and the headers of its tar differ."""
    try:
        index = read_index(storage, shard.name)
        with storage.open(shard.name) as file:
            found = list(group_members(read_members(file, shard.name), shard.name))
    except (HeadraceError, OSError) as error:
        return [f"{shard.name}: {error}"]
    faults = []
    if (index.num_bytes, len(index)) != (storage.size(shard.name), shard.num_samples):
        faults.append(f"{shard.name}: index, manifest and tar do not agree on its size or number of samples")
    if index.keys() != [entry.key for entry in found]:
        return [*faults, f"{shard.name}: the index lists other keys than the tar holds"]
    faults += [
        f"{shard.name}: {entry.key}.{name} lies at {span}, the index says {index.range_of(i, name)}"
        for i, entry in enumerate(found)
        for name, span in entry.ranges.items()
        if index.range_of(i, name) != span
    ]
    return faults


def has_true_sizes(storage: Storage, snapshot: Snapshot) -> bool:
    """Whether `sizes.json` is there and says what a snapshot says."""
    try:
        table = read_table(storage, snapshot)
        sizes = json.loads(storage.read("sizes.json"))
    except (NotFoundError, ValueError):
        return False
    return bool(sizes == dict(zip(table.names(), table.num_samples.tolist(), strict=True)))


def snapshot_faults(storage: Storage, snapshot: Snapshot) -> list[str]:
    """Where `sizes.json`, the snapshot and the shards that are there differ."""
    table = read_table(storage, snapshot)
    wanted = dict(zip(table.names(), table.num_samples.tolist(), strict=True))
    sizes = json.loads(storage.read("sizes.json"))
    faults = [
        f"sizes.json: {name} is {sizes.get(name)}, the snapshot says {wanted.get(name)}"
        for name in wanted | sizes
        if sizes.get(name) != wanted.get(name)
    ]
    there = {entry.path: entry.num_bytes for entry in storage.list() if entry.path.endswith(".tar")}
    bytes_wanted = dict(zip(table.names(), table.num_bytes.tolist(), strict=True))
    faults += [
        f"{name}: {there.get(name, 0)} bytes are there, the snapshot says {size}"
        for name, size in bytes_wanted.items()
        if there.get(name) != size
    ]
    return faults
