"""Finds the shard folders of an output of Headrace: audio, latents and columns, each with its snapshots."""

from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.format.beside.views import VIEWS
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, read_table, snapshot_numbers
from headrace.format.snapshots.tar_lists import TARS
from headrace.format.tars.tar_names import TAR_SUFFIX
from headrace.locate.listing import listed_snapshots
from headrace.locate.names import is_folder_name
from headrace.stores.storage import Storage

AUDIO = "audio"
LATENTS = "latents"
COLUMNS = "columns"
_FAMILIES = (LATENTS, COLUMNS, VIEWS)  # folders of an output that hold one shard folder for each name
ITSELF = "."
"""Name of a shard folder that the user named directly, not by its output."""


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """A folder of shards with snapshots.

    Attributes:
        name: `audio`, `tars`, `latents/<name>` or `columns/<set>`; `.` for a shard folder that was named directly.
        storage: the folder.
        numbers: numbers of its snapshots, ascending; at least one.
    """

    name: str
    storage: Storage
    numbers: tuple[int, ...]

    def snapshot(self, number: int | None = None) -> NumberedSnapshot:
        """One of its snapshots, the newest by default. Raises `NotFoundError`."""
        return read_snapshot(self.storage, self.numbers[-1] if number is None else number)


def output_of(named: str, folder: ShardFolder) -> str:
    """The name of the output that a shard folder belongs to.

    Args:
        named: the name that led to the folder.
        folder: the shard folder.
    """
    if folder.name == TARS:
        return folder.storage.uri.rstrip("/").rpartition("/")[0]
    if folder.name != ITSELF:
        return named.rstrip("/")
    parent = named.rstrip("/").rpartition("/")[0]
    return parent.rpartition("/")[0] if parent.rpartition("/")[2] in _FAMILIES else parent


def place_of(output: str, family: str, name: str) -> str:
    """The place of a part of an output: `OUTPUT/columns/captions` for a name, and a folder as it is."""
    return name if is_folder_name(name) else f"{output}/{family}/{name}"


def meant_folder(storage: Storage) -> ShardFolder | None:
    """The shard folder whose samples a folder means: itself, or the audio of an output; None if neither has snapshots.

    Raises:
        UnlistedError: the web server does not list folders.
    """
    for name, folder in ((ITSELF, storage), (AUDIO, storage.at(AUDIO))):
        if numbers := listed_snapshots(folder):
            return ShardFolder(name, folder, tuple(numbers))
    return None


def possible_folders(storage: Storage) -> dict[str, Storage]:
    """Folders of an output that may hold shards, with snapshots or without: audio, latents and columns by name."""
    names = [AUDIO, *_below(storage, LATENTS), *_below(storage, COLUMNS)]
    return {name: storage.at(name) for name in names}


def shard_folders(storage: Storage) -> list[ShardFolder]:
    """The shard folders with snapshots: the folder itself, or those of an output; empty for anything else."""
    if numbers := snapshot_numbers(storage):
        return [ShardFolder(ITSELF, storage, tuple(numbers))]
    return folders_of_output(storage)


def folders_of_output(storage: Storage) -> list[ShardFolder]:
    """The shard folders of an output that have snapshots: audio first, then latents and columns by name."""
    found = possible_folders(storage).items()
    return [
        ShardFolder(name, folder, tuple(numbers)) for name, folder in found if (numbers := snapshot_numbers(folder))
    ]


def view_folders(storage: Storage) -> list[ShardFolder]:
    """The views of an output, by name; they have snapshots, and no shards."""
    folders = {name: storage.at(name) for name in names_of_views(storage)}
    return [
        ShardFolder(name, folder, tuple(numbers))
        for name, folder in folders.items()
        if (numbers := snapshot_numbers(folder))
    ]


def names_of_views(storage: Storage) -> list[str]:
    """The folders of an output that may be views, with snapshots or without: `views/loud`, sorted."""
    return _below(storage, VIEWS)


def table_of_tars(storage: Storage, found: NumberedSnapshot, split: str | None) -> tuple[ShardTable, slice]:
    """The result of `table_of_split` for shards that are tars.

    Raises:
        ConfigError: the snapshot has no such split, or it is of a set of columns, which has no tars.
    """
    table, rows = table_of_split(storage, found, split)
    if len(table) and table.suffix != TAR_SUFFIX:
        raise ConfigError(
            f"{storage.uri}: a set of columns, which has no tars: name the audio or the latents; `headrace columns` "
            "exports columns as Parquet"
        )
    return table, rows


def table_of_split(storage: Storage, found: NumberedSnapshot, split: str | None) -> tuple[ShardTable, slice]:
    """The table of shards of a snapshot, and the rows of one split in it (all rows for None).

    Raises:
        ConfigError: the snapshot has no such split; the message lists its splits.
    """
    if split is not None and split not in found.snapshot.splits:
        known = ", ".join(found.snapshot.splits) or "none"
        raise ConfigError(f"{storage.uri}, snapshot {found.number}: no split {split!r}; it has {known}")
    table = read_table(storage, found.snapshot)
    return table, table.rows_of(split)


def _below(storage: Storage, family: str) -> list[str]:
    """The folders in one of the folders of an output: `latents/crepe`, sorted."""
    return sorted({"/".join(entry.path.split("/")[:2]) for entry in storage.list(f"{family}/")})
