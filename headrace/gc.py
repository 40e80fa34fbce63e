"""Removing what no kept snapshot needs: old snapshots, their manifests and shards, and what dead writers left.

Owns the decision, which is pure, and carrying it out in an order that readers and a crash survive: names before what
they name, an index before its tar. Nothing younger than a day goes, since a build writes shards before it names them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.index import INDEX_SUFFIX, index_name
from headrace.manifests import newest_manifests
from headrace.outputs import Part
from headrace.snapshots import NumberedSnapshot, read_snapshot, read_table
from headrace.storage import Entry, LocalStorage, Storage

MIN_AGE_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What must stay in a shard folder.

    Attributes:
        snapshots: files below `snapshots/`.
        manifests: files below `manifests/`.
        shards: names of tars.
    """

    snapshots: frozenset[str]
    manifests: frozenset[str]
    shards: frozenset[str]


@dataclass(frozen=True, slots=True)
class Garbage:
    """What can go from a shard folder, in the order of removal, and how many bytes that frees.

    Attributes:
        part: name of the folder in its output.
        storage: the folder.
        entries: the files.
        kept: numbers of the snapshots that stay.
        num_young: files that nothing needs either, but younger than a day, so that they stay for now.
    """

    part: str
    storage: Storage
    entries: tuple[Entry, ...]
    kept: tuple[int, ...]
    num_young: int = 0

    @property
    def num_bytes(self) -> int:
        """Size of all files together."""
        return sum(entry.num_bytes for entry in self.entries)

    @property
    def num_shards(self) -> int:
        """How many of the files are tars."""
        return sum(entry.path.endswith(".tar") for entry in self.entries)


def find_garbage(parts: Sequence[Part], *, keep: int, now_seconds: float) -> list[Garbage]:
    """What can go from the shard folders of an output.

    The newest `keep` snapshots of each folder stay, audio snapshots that kept latents were computed from, all shards
    that these or the newest manifest of any partition name, and every file younger than a day.

    Args:
        parts: the shard folders of one output, together, so that latents keep their audio.
        keep: how many snapshots to keep, at least 1.
        now_seconds: the time, Unix.

    Raises:
        ConfigError: `keep` is less than 1, or a part stands for itself: then what its latents need is not known.
    """
    if any(part.name == "." for part in parts):
        raise ConfigError(f"{parts[0].storage.uri}: is one shard folder of an output; name the output itself")
    if keep < 1:
        raise ConfigError(f"--keep {keep}: expected at least 1; without a snapshot there is no data set")
    kept = {part.name: set(part.numbers[-keep:]) for part in parts}
    if "audio" in kept:
        for part in parts:
            kept["audio"] |= {number for n in kept[part.name] if (number := _audio_of(part.snapshot(n))) is not None}
    return [_garbage(part, sorted(kept[part.name] & set(part.numbers)), now_seconds) for part in parts]


def collect(garbage: Garbage, progress: Callable[[Entry], None] = lambda entry: None) -> None:  # noqa: ARG005
    """Remove it, but for what somebody has come to need since it was found."""
    for entry in _unneeded(garbage.entries, _kept(garbage.storage, garbage.kept)):
        garbage.storage.delete(entry.path)
        progress(entry)


def find_leftovers(storage: Storage, *, now_seconds: float) -> list[Entry]:
    """Temporary files of writers that died more than a day ago, anywhere below a local folder."""
    if not isinstance(storage, LocalStorage):
        return []  # object stores drop what was not uploaded whole
    found = []
    for path in storage.leftovers():
        try:
            stat = path.stat()
        except FileNotFoundError:  # of a writer that lives, and is done
            continue
        if now_seconds - stat.st_mtime > MIN_AGE_SECONDS:
            found.append(Entry(path.relative_to(storage.root).as_posix(), stat.st_size, stat.st_mtime))
    return sorted(found, key=lambda entry: entry.path)


def remove_leftovers(storage: Storage, entries: Iterable[Entry]) -> None:
    """Remove what `find_leftovers` found."""
    for entry in entries:
        storage.delete(entry.path)


def _audio_of(numbered: NumberedSnapshot) -> int | None:
    """The audio snapshot that a snapshot of latents was computed from."""
    number = numbered.snapshot.origin.get("audio_snapshot")
    return number if isinstance(number, int) else None


def _garbage(part: Part, numbers: list[int], now_seconds: float) -> Garbage:
    kept = _kept(part.storage, numbers)
    unneeded = list(_unneeded(list(part.storage.list()), kept))
    old = tuple(entry for entry in unneeded if now_seconds - entry.modified_seconds > MIN_AGE_SECONDS)
    return Garbage(part.name, part.storage, old, tuple(numbers), len(unneeded) - len(old))


def _kept(storage: Storage, numbers: Iterable[int]) -> Kept:
    snapshots: set[str] = set()
    newest = newest_manifests(storage)
    manifests = {_manifest_path(name, numbered.number) for name, numbered in newest.items()}
    shards = {shard.name for numbered in newest.values() for shard in numbered.manifest.shards}
    for number in numbers:
        snapshot = read_snapshot(storage, number).snapshot
        snapshots |= {f"snapshots/{number:08d}.json", f"snapshots/{snapshot.table}"}
        manifests |= {_manifest_path(name, frozen) for name, frozen in snapshot.manifests.items()}
        shards |= set(read_table(storage, snapshot).names())
    return Kept(frozenset(snapshots), frozenset(manifests), frozenset(shards))


def _manifest_path(partition: str, number: int) -> str:
    return f"manifests/{partition}/{number:08d}.json"


def _unneeded(entries: Sequence[Entry], kept: Kept) -> Iterator[Entry]:
    """Files of ours that nothing kept names: snapshots, tables, manifests, indexes, tars, in this order."""
    kinds: Mapping[int, frozenset[str]] = {
        0: kept.snapshots,
        1: kept.snapshots,
        2: kept.manifests,
        3: frozenset(map(index_name, kept.shards)),
        4: kept.shards,
    }
    ranked = sorted((kind, entry.path, entry) for entry in entries if (kind := _kind(entry.path)) is not None)
    return (entry for kind, path, entry in ranked if path not in kinds[kind])


def _kind(path: str) -> int | None:
    """Place in the order of removal; None for files that are not this module's."""
    folder, _, file = path.rpartition("/")
    if folder == "snapshots":
        return {"json": 0, "shards": 1}.get(file.rpartition(".")[2])
    if folder.startswith("manifests/") and file.endswith(".json"):
        return 2
    if folder == "" and file.endswith(INDEX_SUFFIX):
        return 3
    return 4 if folder == "" and file.endswith(".tar") else None
