"""An object of a bucket as a file that is read in pieces, all of the same version of the object.

Requests are few: pieces are large, and larger for a reader that goes straight on. Sizes come from the listing.
"""

from collections.abc import Callable

from headrace.stores.ranged_files import RawFile
from headrace.stores.storage import Bucket, StoredObject

_MOST_BYTES = 16 << 20


class ObjectFile(RawFile):
    """An object, opened for reading. Use it below an `io.BufferedReader`.

    Raises:
        NotFoundError: the object is gone, when it is opened or read.
        FileChangedError: the object was replaced since it was opened, when it is read.
    """

    def __init__(
        self,
        storage: Bucket,
        path: str,
        num_bytes: int,
        accept: Callable[[StoredObject], None],
        *,
        first_bytes: int,
    ) -> None:
        """Read the first piece.

        Args:
            storage: the store.
            path: the object.
            num_bytes: its size, at least 1.
            accept: raises an error for an object that is not the expected one.
            first_bytes: size of a piece after a jump.
        """
        super().__init__(num_bytes)
        self._first_bytes = first_bytes
        self._storage, self._path, self._accept = storage, path, accept
        self._start, self._piece = 0, b""
        self.tag: str | None = None
        """ETag of the object; None if the store has none."""
        self._fetch(0)

    def read_at(self, start: int, stop: int) -> memoryview:
        """See `RawFile.read_at`."""
        if not self._start <= start < self._start + len(self._piece):
            self._fetch(start)
        return memoryview(self._piece)[start - self._start : stop - self._start]

    def _fetch(self, start: int) -> None:
        """Make the piece that begins at `start` the current one. It is twice as long if the last one ended there."""
        goes_on = bool(self._piece) and start == self._start + len(self._piece)
        length = min(_MOST_BYTES, 2 * len(self._piece)) if goes_on else self._first_bytes
        found = self._storage.fetch(self._path, self._accept, (start, min(start + length, self._size)), self.tag)
        self.tag = found.tag
        self._start, self._piece = start, found.data
