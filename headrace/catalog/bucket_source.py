"""Recordings in an object store: `BucketSource`, a `Source` over a `Storage`.

An object is listed if it would be listed in a local folder: neither its name nor a folder's name begins with a dot.
Opening an object of up to 64 MiB downloads it in one request into an anonymous file; a larger one is read in pieces.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headrace.catalog.listing import FileStamp, Listing
from headrace.errors import UnsafePathError
from headrace.format.rejects import RejectReason
from headrace.machine import anonymous_file
from headrace.stores.storage import Storage, StoredObject, checked_path

_CHUNK_ROWS = 10_000
_WHOLE_BYTES = 64 << 20
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BucketSource:
    """A prefix of an object store.

    Attributes:
        storage: the prefix.
        exclude: paths below the prefix of files and folders that are not recordings.
    """

    storage: Storage
    exclude: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        """The prefix's URL."""
        return self.storage.uri

    def list(self) -> Iterator[Listing]:
        """See `Source.list`."""
        found = Listing()
        for entry in self.storage.list():
            if self._is_recording(entry.path):
                _add(found, entry)
            if len(found) >= _CHUNK_ROWS:
                yield found
                found = Listing()
        yield found

    def stamp(self, path: str) -> FileStamp:
        """See `Source.stamp`."""
        return stamp_of(self.storage.stat(path))

    def open(self, path: str) -> BinaryIO:
        """See `Source.open`."""
        if self.storage.size(path) > _WHOLE_BYTES:
            return self.storage.open(path)
        file = os.fdopen(anonymous_file("headrace-recording"), "w+b")
        file.write(self.storage.read(path))
        file.seek(0)
        return file

    def _is_recording(self, path: str) -> bool:
        is_hidden = path.startswith(".") or "/." in path
        return not is_hidden and not any(path == aside or path.startswith(f"{aside}/") for aside in self.exclude)


def stamp_of(entry: StoredObject) -> FileStamp:
    """Size and modification time of an object."""
    return FileStamp(entry.num_bytes, round(entry.modified_seconds * _NS))


def _add(found: Listing, entry: StoredObject) -> None:
    stamp = stamp_of(entry)
    try:
        checked_path(entry.path)
    except UnsafePathError as error:
        found.add(entry.path, stamp.num_bytes, stamp.mtime_ns, RejectReason.BAD_NAME.value, str(error))
    else:
        found.add(entry.path, stamp.num_bytes, stamp.mtime_ns, None, None)
