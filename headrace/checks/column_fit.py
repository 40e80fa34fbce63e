"""Compares a snapshot of columns with the audio snapshot that it names: same shards, as many rows as samples."""

from headrace.errors import NotFoundError
from headrace.format.shard_table import ShardTable
from headrace.format.snapshots import Snapshot, read_snapshot, read_table
from headrace.stores.storage import Storage

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


def _rows(table: ShardTable) -> dict[_Place, int]:
    """Place of each shard → its number of samples or rows."""
    splits = [table.splits[number] for number in table.split.tolist()]
    places = zip(splits, table.bucket.tolist(), table.sequence.tolist(), strict=True)
    return dict(zip(places, table.num_samples.tolist(), strict=True))
