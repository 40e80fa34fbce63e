"""Writes samples into numbered tars of about the size of the data set's shards."""

import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.exports.folder import ExportFolder
from headrace.format.tars.tar import TarWriter
from headrace.format.tars.tar_buffer import TarBuffer


class WrittenTar(NamedTuple):
    """A tar of a series: its split, its number within the split, its path, and its samples."""

    split: str
    number: int
    path: str
    num_samples: int


class TarSeries:
    """Tars that are written one after the other. A split begins a new tar."""

    def __init__(
        self,
        folder: ExportFolder,
        path_of: Callable[[str, int], str],
        most_bytes: int,
        closed: Callable[[WrittenTar], None] = lambda tar: None,  # noqa: ARG005
    ) -> None:
        """Write nothing yet.

        Args:
            folder: gets the tars.
            path_of: path of the tar of a split with a number, counted from 0 in each split.
            most_bytes: a tar of this size or more is complete.
            closed: called after each tar was written.
        """
        self._folder, self._path_of, self._most_bytes, self._closed = folder, path_of, most_bytes, closed
        self._numbers: dict[str, int] = {}
        self._split: str | None = None
        self._num_samples = 0
        self.num_tars = 0

    def add(self, split: str, members: Mapping[str, bytes]) -> int:
        """Append a sample. Returns the number of its tar.

        Args:
            split: its split.
            members: name of each member and its bytes.
        """
        if self._split is not None and (split != self._split or self._tar.num_bytes >= self._most_bytes):
            self.close()
        if self._split is None:
            self._open(split)
        for name, blob in members.items():
            self._tar.add(name, blob, len(blob))
        self._num_samples += 1
        return self._numbers[split]

    def close(self) -> None:
        """Complete the present tar, if there is one."""
        if self._split is None:
            return
        split, number = self._split, self._numbers[self._split]
        path = self._path_of(split, number)
        self._tar.finish()
        self._folder.write(path, self._buffer.content())
        self._buffer.close()
        self._closed(WrittenTar(split, number, path, self._num_samples))
        self._split, self._num_samples = None, 0

    def _open(self, split: str) -> None:
        self._split = split
        self._numbers[split] = self._numbers.get(split, -1) + 1
        self.num_tars += 1
        self._buffer = self._folder.until_end(contextlib.closing(TarBuffer()))
        self._tar = TarWriter(self._buffer)
