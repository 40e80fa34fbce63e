"""Re-reads every snapshot of a view, and the totals and counts of the newest one: for `headrace verify`."""

from collections.abc import Iterator

import numpy as np

from headrace.errors import HeadraceError, NotFoundError
from headrace.format.beside.view_files import partitions_of, read_counts, read_totals, read_view
from headrace.format.beside.views import CountArray, NumberedView, PartitionCounts, ViewFile, ViewTotals, counts_of
from headrace.format.manifests.manifests import split_of
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_path
from headrace.locate.outputs import ShardFolder
from headrace.stores.storage import Storage
from headrace.verification.shard_check import Fault


def faults_of_view(audio: Storage, folder: ShardFolder) -> Iterator[Fault]:
    """Faults of a view: damaged snapshots, and files of the newest one that are damaged or do not agree.

    Args:
        audio: the folder with the snapshots of the samples that the view chooses from.
        folder: the view.
    """
    newest: NumberedView | None = None
    for number in folder.numbers:
        newest = None
        try:
            newest = read_view(folder.storage, number)
        except HeadraceError as error:
            yield Fault(f"{folder.storage.uri}/{snapshot_path(number)}", str(error))
    if newest is None:
        return
    try:
        found = read_snapshot(audio, newest.snapshot.audio_snapshot)
        table = read_table(audio, found.snapshot)
    except NotFoundError:  # nobody can read this view any more, so it does no harm; the next build makes it again
        return
    except HeadraceError:  # a fault of the audio, which is reported there
        return
    name = f"{folder.storage.uri}/{snapshot_path(newest.number)}"
    if found.snapshot.fingerprint != newest.snapshot.audio_fingerprint:
        yield Fault(name, f"it is not of snapshot {found.number} of the audio in {audio.uri}; build the view again")
        return
    yield from _faults_of_files(folder.storage, newest, table)


def _faults_of_files(storage: Storage, view: NumberedView, table: ShardTable) -> Iterator[Fault]:
    """Files of a view that are damaged or missing, and totals that are not those of the counts."""
    try:
        totals = read_totals(storage, view.snapshot)
    except HeadraceError as error:
        yield Fault(f"{storage.uri}/{view.snapshot.totals.path}", str(error))
        return
    name = f"{storage.uri}/{snapshot_path(view.number)}"
    if len(totals.totals) != len(table):
        yield Fault(name, f"it counts {len(totals.totals)} shards, its audio snapshot {len(table)}; build it again")
        return
    sums = dict.fromkeys(view.snapshot.splits, ViewTotals(0, 0, 0))
    is_whole = True
    for partition, rows in partitions_of(table):
        num_samples = table.num_samples[rows]
        file, dtype = view.snapshot.counts.get(partition), view.snapshot.definition.dtype
        counts = _counts(storage, file, np.zeros(int(num_samples.sum(dtype=np.int64)), dtype))
        if isinstance(counts, Fault):
            is_whole = False
            yield counts
            continue
        expected = PartitionCounts(partition, num_samples, counts).of_shards()
        found = totals.totals[rows], totals.crc32[rows]
        if not np.array_equal(expected.totals, found[0]) or not np.array_equal(expected.crc32, found[1]):
            yield Fault(name, f"the totals of {partition} are not those of its counts; build the view again")
        split = split_of(partition)
        sums[split] = _added(sums[split], counts)
    if is_whole and sums != view.snapshot.splits:
        yield Fault(name, "its totals by split are not those of its counts; build the view again")


def _counts(storage: Storage, file: ViewFile | None, nothing: CountArray) -> CountArray | Fault:
    """The counts of a partition, or what is wrong with their file; `nothing` if the view takes no sample of it."""
    if file is None:
        return nothing
    where = f"{storage.uri}/{file.path}"
    try:
        counts = counts_of(read_counts(storage, file), where)
    except HeadraceError as error:
        return Fault(where, str(error))
    if (len(counts), counts.dtype) != (len(nothing), nothing.dtype):
        return Fault(where, f"{len(nothing)} counts expected, {len(counts)} found; build the view again")
    return counts


def _added(before: ViewTotals, counts: CountArray) -> ViewTotals:
    return ViewTotals(
        before.num_samples + len(counts),
        before.num_chosen + int(np.count_nonzero(counts)),
        before.num_drawn + int(counts.sum(dtype=np.int64)),
    )
