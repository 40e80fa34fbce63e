"""Gathers the stamps of the files of a source part by part, in temporary files: 40 bytes a file."""

import tempfile
from contextlib import suppress
from typing import Any

import numpy as np

from headrace.sources.listing import SourceStamps, sorted_stamps, stamps_of
from headrace.stores.temporary_room import temporary_room

_KEPT_BYTES = 1 << 20


class GatheredStamps:
    """Stamps of many parts. `close` deletes the temporary files; each column is in memory while it is small."""

    def __init__(self) -> None:
        """No stamps yet."""
        self._dtypes = [column.dtype for column in stamps_of((), (), ()).columns]
        self._files = [tempfile.SpooledTemporaryFile(_KEPT_BYTES) for _ in self._dtypes]  # noqa: SIM115 - `close` closes them
        self._num_rows = 0

    def __len__(self) -> int:
        return self._num_rows

    def add(self, stamps: SourceStamps) -> None:
        """Add the stamps of a part. Raises `StorageError` if the temporary folder is full."""
        self._num_rows += len(stamps)
        with temporary_room("a listing"):
            for file, column in zip(self._files, stamps.columns, strict=True):
                file.write(column.tobytes())

    def all(self) -> SourceStamps:
        """All stamps so far, sorted."""
        return sorted_stamps(self._column)

    def close(self) -> None:
        """Forget all stamps."""
        for file in self._files:
            with suppress(OSError):
                file.close()

    def _column(self, at: int) -> np.ndarray[Any, Any]:
        with temporary_room("a listing"):
            self._files[at].seek(0)
            return np.frombuffer(self._files[at].read(), self._dtypes[at])
