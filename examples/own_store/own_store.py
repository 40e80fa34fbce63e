"""A store of one's own: counts what is read from another store, to find out what a training job costs."""

from collections.abc import Sequence
from typing import Any

from headrace.stores.storage import Storage


class CountingStorage:
    """A store that passes everything on to another.

    Attributes:
        num_bytes: bytes that were read, whole objects and ranges.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.num_bytes = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all other methods of the protocol
        if name == "_storage" or name.startswith("__"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._storage, name)

    def at(self, folder: str) -> "CountingStorage":
        """A folder of the store, which counts by itself."""
        return CountingStorage(self._storage.at(folder))

    def read(self, path: str) -> bytes:
        """The content of an object."""
        blob = self._storage.read(path)
        self.num_bytes += len(blob)
        return blob

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of an object."""
        self.num_bytes += sum(stop - start for start, stop in ranges)
        return self._storage.read_ranges(path, ranges)
