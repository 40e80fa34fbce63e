"""An object of a bucket as a file that is read in pieces, all of the same version of the object.

Requests are few: pieces are large, and larger for a reader that goes straight on. Sizes come from the listing.
"""

import io
import os
from collections.abc import Callable
from typing import Any

from headrace.stores.storage import Bucket, StoredObject

_MOST_BYTES = 16 << 20


class ObjectFile(io.RawIOBase):
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
        self._first_bytes = first_bytes
        self._storage, self._path, self._size, self._accept = storage, path, num_bytes, accept
        self._position = 0
        self._start, self._piece = 0, b""
        self.tag: str | None = None
        """ETag of the object; None if the store has none."""
        self._fetch(0)

    def readable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        """See `io.RawIOBase`."""
        if self._position >= self._size:
            return 0
        if not self._start <= self._position < self._start + len(self._piece):
            self._fetch(self._position)
        first = self._position - self._start
        data = memoryview(self._piece)[first : first + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """See `io.IOBase`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """See `io.IOBase`."""
        return self._position

    def _fetch(self, start: int) -> None:
        """Make the piece that begins at `start` the current one. It is twice as long if the last one ended there."""
        goes_on = bool(self._piece) and start == self._start + len(self._piece)
        length = min(_MOST_BYTES, 2 * len(self._piece)) if goes_on else self._first_bytes
        found = self._storage.fetch(self._path, self._accept, (start, min(start + length, self._size)), self.tag)
        self.tag = found.tag
        self._start, self._piece = start, found.data
