"""Presents a part of a larger file, such as a member of a tar, as a file of its own, of which little is read.

It is what decoders seek in: bytes are read in blocks, where a decoder asks for them, through a function of the caller.
"""

import io
from collections.abc import Callable

ReadBytes = Callable[[int, int], memoryview]
"""Bytes [start, stop) of a member."""


class MemberFile(io.RawIOBase):
    """A readable and seekable file over a function that reads byte ranges."""

    def __init__(self, read: ReadBytes, num_bytes: int, block_bytes: int) -> None:
        """Read nothing yet.

        Args:
            read: gives the bytes of a range; called with ranges inside of the file only.
            num_bytes: size of the file.
            block_bytes: the least that is read at a time, and kept until the next read.
        """
        super().__init__()
        self._read = read
        self.num_bytes = num_bytes
        self._block_bytes = block_bytes
        self._position = 0
        self._kept: tuple[int, memoryview] = (0, memoryview(b""))

    def part(self, start: int, stop: int) -> memoryview:
        """Bytes [start, stop), fewer at the end of the file; the position stays."""
        stop = min(stop, self.num_bytes)
        first, blob = self._kept
        if not first <= start <= stop <= first + len(blob):
            last = min(self.num_bytes, max(stop, start + self._block_bytes))
            first, blob = self._kept = start, self._read(start, last)
        return blob[start - first : max(start, stop) - first]

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; raises `ValueError` for a place before the beginning."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.num_bytes}[whence]
        if base + offset < 0:
            raise ValueError(f"seek to byte {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        start = min(self._position, self.num_bytes)
        found = bytes(self.part(start, self.num_bytes if size < 0 else start + size))
        self._position = start + len(found)
        return found
