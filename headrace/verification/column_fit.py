"""Compares a snapshot of columns with the audio snapshot that it names: same shards, as many rows as samples."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.errors import HeadraceError, NotFoundError
from headrace.format.manifests.manifests import parsed_name
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import Snapshot, read_snapshot, read_table, snapshot_numbers, snapshot_path
from headrace.locate.outputs import ShardFolder
from headrace.locate.shard_list import LocatedShard
from headrace.stores.storage import Storage
from headrace.verification.shard_check import Fault

_Place = tuple[str, int, int]  # split, bucket, sequence number


def shard_misfits(audio: Storage, columns: Storage, snapshot: Snapshot) -> list[str]:
    """Differences between a snapshot of columns and its audio snapshot. Reads the tables of shards, and no shard.

    Args:
        audio: the folder of audio shards.
        columns: the folder of the set of columns.
        snapshot: the snapshot of columns.
    """
    number = snapshot.origin.get("audio_snapshot")
    try:
        wanted = read_snapshot(audio, number).snapshot
    except NotFoundError as error:
        return [f"the audio snapshot {number} does not exist: {error}"]
    if wanted.fingerprint != snapshot.origin.get("audio_fingerprint"):
        return [f"the audio snapshot {number} is another one than these columns name; build again"]
    expected, found = _rows(read_table(audio, wanted)), _rows(read_table(columns, snapshot))
    faults = []
    for place in sorted(expected.keys() | found.keys()):
        if expected.get(place, 0) != found.get(place, 0):
            split, bucket, sequence = place
            faults.append(
                f"{split}_{bucket:04d}_{sequence:06d}: {expected.get(place, 0)} samples, {found.get(place, 0)} rows"
            )
    return faults


def misfits(audio: Storage, folder: ShardFolder) -> Iterator[Fault]:
    """Misfits between a set of columns' newest snapshot and its audio, unless a gc removed the audio.

    A snapshot that cannot be read is reported elsewhere.
    """
    try:
        newest = folder.snapshot()
        if newest.snapshot.origin.get("audio_snapshot") in snapshot_numbers(audio):
            where = f"{folder.storage.uri}/{snapshot_path(newest.number)}"
            yield from (Fault(where, what) for what in shard_misfits(audio, folder.storage, newest.snapshot))
    except HeadraceError:
        return


def with_partners(
    columns: Sequence[LocatedShard], shards: Sequence[LocatedShard], folder: ShardFolder, audio: Storage
) -> list[LocatedShard]:
    """The files of a set of columns, each with the audio shard that it fits, if they are of the newest audio.

    Args:
        columns: the files of the newest snapshot of the set.
        shards: shards of the output, with those of the newest audio snapshot.
        folder: the folder of the set.
        audio: the folder of audio shards.
    """
    try:
        newest = folder.snapshot().snapshot.origin.get("audio_fingerprint")
        if newest != read_snapshot(audio).snapshot.fingerprint:
            return list(columns)
    except HeadraceError:  # a snapshot that cannot be read is reported elsewhere
        return list(columns)
    of_audio = {_place(shard.name): shard for shard in shards if shard.storage and shard.storage.uri == audio.uri}
    return [replace(shard, fits=of_audio.get(_place(shard.name))) for shard in columns]


def _place(name: str) -> _Place:
    match = parsed_name(name)
    return match["split"], int(match["bucket"]), int(match["sequence"])


def _rows(table: ShardTable) -> dict[_Place, int]:
    """Place of each shard → its number of samples or rows."""
    splits = [table.splits[number] for number in table.split.tolist()]
    places = zip(splits, table.bucket.tolist(), table.sequence.tolist(), strict=True)
    return dict(zip(places, table.num_samples.tolist(), strict=True))
