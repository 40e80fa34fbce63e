"""Reads what the newest manifests were built from, at a cost that does not grow with the number of shards.

Of a partition that has not changed since the newest snapshot, the snapshot says it. Of the others, the first lines of
the manifest are parsed, once per process.
"""

from headrace.errors import NotFoundError
from headrace.format.manifests.manifests import (
    ManifestSummary,
    newest_entries,
    newest_manifest,
    numbered_entries,
    read_summary,
)
from headrace.format.parsed_once import read_once
from headrace.format.snapshots.snapshots import SNAPSHOTS, FrozenPartition, Snapshot
from headrace.stores.storage import Storage, StoredObject


def newest_summaries(storage: Storage) -> dict[str, ManifestSummary]:
    """Partition → summary of its newest manifest, sorted; for all partitions that have one.

    Raises:
        FormatError: a manifest or the newest snapshot is damaged.
    """
    frozen, seconds = _frozen(storage)
    summaries: dict[str, ManifestSummary] = {}
    for partition, (number, entry) in sorted(newest_entries(storage).items()):
        known = frozen.get(partition)
        # A manifest that is younger than the snapshot is another one: the folder of manifests was made again.
        if known is not None and known.number == number and entry.modified_seconds <= seconds:
            summaries[partition] = ManifestSummary(number, known.wanted, known.digest)
        elif (found := _summary(storage, partition, number, entry)) is not None:
            summaries[partition] = found
    return summaries


def _frozen(storage: Storage) -> tuple[dict[str, FrozenPartition], float]:
    """The partitions of the newest snapshot, and when it was written; nothing if no snapshot exists."""
    entries = dict(numbered_entries(storage, SNAPSHOTS))
    if not entries:
        return {}, 0.0
    newest = entries[max(entries)]
    try:
        return read_once(storage, newest, Snapshot.from_json).partitions, newest.modified_seconds
    except NotFoundError:  # deleted by gc since it was listed
        return {}, 0.0


def _summary(storage: Storage, partition: str, number: int, entry: StoredObject) -> ManifestSummary | None:
    try:
        return read_summary(storage, number, entry)
    except NotFoundError:  # deleted by gc since it was listed, so there is a newer one
        found = newest_manifest(storage, partition)
        return None if found is None else ManifestSummary(found.number, found.wanted, found.digest)
