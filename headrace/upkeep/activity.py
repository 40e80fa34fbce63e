"""Finds signs of builds that are running, or were killed: `headrace gc --now` deletes nothing while there is one.

Otherwise gc needs no such sign: it leaves files younger than a day alone.
"""

from collections.abc import Iterator
from importlib.metadata import entry_points

from headrace.format.manifests.manifests import newest_entries, read_listed
from headrace.format.shards.condemned import condemnations
from headrace.format.shards.journal import all_noted
from headrace.format.snapshots.snapshots import proposals, read_snapshot, read_table, snapshot_numbers
from headrace.locate.outputs import possible_folders, view_folders
from headrace.stores.storage import LocalStorage, Storage

RUNS_GROUP = "headrace.active_runs"
"""Entry points that list runs in progress: a function without arguments that returns a description of each."""


def signs_of_builds(output: Storage) -> list[str]:
    """Signs that something is writing to an output; empty if there are none.

    Only a local folder shows shards that are being written: in a bucket they appear when they are complete.
    """
    folders = [*possible_folders(output).values(), *(view.storage for view in view_folders(output))]
    return [*_runs(), *_writers(output), *(sign for folder in folders for sign in _signs_in(folder))]


def _signs_in(folder: Storage) -> Iterator[str]:
    left = dict[str, float]()  # by a gc that was killed; a build that came after it may write them again
    for record in condemnations(folder):
        if record.is_dead:
            left |= dict.fromkeys(record.paths, record.modified_seconds)
        else:
            yield f"{folder.uri}/{record.path}: the record of a deletion that is under way, or was killed elsewhere"
    newest = max(snapshot_numbers(folder), default=0)
    for number, path in proposals(folder):
        if number > newest:
            yield f"{folder.uri}/{path}: a snapshot that was proposed and is not committed"
    times = {entry.path: entry.modified_seconds for entry in folder.list()} if left else {}
    noted = (name for name in all_noted(folder) if name not in left or times.get(name, 0.0) > left[name])
    there = [name for name in noted if folder.exists(name)]
    unnamed = set(there) - _named(folder) if there else set()
    if unnamed:
        yield f"{folder.uri}: the journal of a build has {len(unnamed)} shards that no manifest names ({min(unnamed)})"


def _named(folder: Storage) -> set[str]:
    """Shards that a snapshot or the newest manifest of a partition names."""
    names: set[str] = set()
    for number in snapshot_numbers(folder):
        names.update(read_table(folder, read_snapshot(folder, number).snapshot).names())
    for partition, (number, entry) in newest_entries(folder).items():
        if (listed := read_listed(folder, partition, number, entry)) is not None:
            names |= {shard.name for shard in listed.manifest.shards}
    return names


def _writers(output: Storage) -> Iterator[str]:
    if isinstance(output, LocalStorage):
        for path in output.leftovers():
            yield f"{path}: a file that is being written, or was left by a killed writer"


def _runs() -> Iterator[str]:
    for point in entry_points(group=RUNS_GROUP):
        yield from point.load()()
