"""Finds the snapshot of a set of columns that fits an audio snapshot, and the columns of each of its shards."""

from dataclasses import dataclass, field

from headrace.errors import FormatError, NotFoundError
from headrace.format.beside.column_files import read_columns, specs_of
from headrace.format.beside.column_table import ColumnSpec, ColumnTable
from headrace.format.manifests.manifests import parsed_name
from headrace.format.snapshots.snapshots import NumberedSnapshot, Snapshot, read_snapshot, read_table, snapshot_numbers
from headrace.stores.storage import Storage

_Place = tuple[str, int, int]  # split, bucket, sequence number


@dataclass(slots=True)
class ColumnSet:
    """The columns of one set for the shards of one audio snapshot.

    Attributes:
        storage: the folder of the set.
        snapshot: its snapshot.
        specs: names and types of the columns.
    """

    storage: Storage
    snapshot: NumberedSnapshot
    specs: tuple[ColumnSpec, ...]
    _files: dict[_Place, str] = field(init=False)

    def __post_init__(self) -> None:
        """List the files."""
        names = read_table(self.storage, self.snapshot.snapshot).names()
        self._files = {_place(name): name for name in names}

    def file_of(self, audio_shard: str) -> str:
        """Name of the `.columns` file of an audio shard.

        Raises:
            FormatError: the snapshot has no such file, so it belongs to another audio snapshot.
        """
        try:
            return self._files[_place(audio_shard)]
        except KeyError as error:
            raise FormatError(
                f"{self.storage.uri}: snapshot {self.snapshot.number} has no columns for {audio_shard}; build again"
            ) from error

    def read(self, audio_shard: str) -> ColumnTable:
        """The columns of an audio shard, with one row for each sample in its order. Raises as `read_columns`."""
        return read_columns(self.storage, self.file_of(audio_shard))


def fitting_columns(storage: Storage, audio: Snapshot) -> ColumnSet:
    """The newest columns of a set that fit an audio snapshot.

    Args:
        storage: the folder of the set, `columns/<set>/`.
        audio: the audio snapshot.

    Raises:
        NotFoundError: no snapshot of the set fits it.
        FormatError: a snapshot is damaged.
    """
    for number in reversed(snapshot_numbers(storage)):
        found = read_snapshot(storage, number)
        if found.snapshot.origin.get("audio_fingerprint") == audio.fingerprint:
            return ColumnSet(storage, found, specs_of(found.snapshot))
    raise NotFoundError(f"{storage.uri}: no snapshot of these columns fits the audio snapshot; build the columns again")


def _place(name: str) -> _Place:
    match = parsed_name(name)
    return match["split"], int(match["bucket"]), int(match["sequence"])
