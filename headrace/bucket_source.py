"""Raw recordings in an object store: a `Source` over a `Storage`.

Owns what of a bucket is a recording, which is what it would be in a folder (nothing whose name, or whose folder's name,
begins with a dot), and how one is opened: in one request, into a file without a name, so that it is decoded as a local
one is. A recording too large for that is read piece by piece.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from headrace.errors import ConfigError, UnsafePathError
from headrace.machine import anonymous_file
from headrace.rejects import Reject
from headrace.sources import Listing, Source, Stamp, open_folder
from headrace.storage import Entry, Storage, checked_path, open_storage

_CHUNK_ROWS = 10_000
_WHOLE_BYTES = 64 << 20
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BucketSource:
    """A prefix of an object store.

    Attributes:
        storage: it.
        exclude: paths below it, of files and folders that are no recordings.
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

    def stamp(self, path: str) -> Stamp:
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


def open_source(uri: str | os.PathLike[str], *, exclude: Sequence[str | os.PathLike[str]] = ()) -> Source:
    """The source behind a folder name, a `file://` URL, or the URL of a bucket (`s3://bucket/prefix`, `gs://…`, `az://…`).

    Args:
        uri: the root.
        exclude: files and folders that are no recordings though they lie under the root: the metadata table, an output.

    Raises:
        ConfigError: the scheme is not known or cannot be listed, or the root is not a folder, or the output.
    """
    text = os.fspath(uri)
    aside = [os.fspath(path) for path in exclude]
    if "://" not in text.removeprefix("file://"):
        return open_folder(text, exclude=[path for path in aside if "://" not in path])
    if text.startswith(("http://", "https://")):
        raise ConfigError(
            f"source.uri {text}: a web server lists no files; use a folder, or a bucket by s3://, gs:// or az://"
        )
    root = text.rstrip("/")
    if root in (path.rstrip("/") for path in aside):
        raise ConfigError(f"source.uri {text}: is the output as well; give the output a prefix of its own")
    below = tuple(path.removeprefix(f"{root}/").rstrip("/") for path in aside if path.startswith(f"{root}/"))
    return BucketSource(open_storage(root), below)


def _add(found: Listing, entry: Entry) -> None:
    stamp = stamp_of(entry)
    try:
        checked_path(entry.path)
    except UnsafePathError as error:
        found.add(entry.path, stamp.num_bytes, stamp.mtime_ns, Reject.BAD_NAME.value, str(error))
    else:
        found.add(entry.path, stamp.num_bytes, stamp.mtime_ns, None, None)


def stamp_of(entry: Entry) -> Stamp:
    """What tells a changed object from an unchanged one."""
    return Stamp(entry.num_bytes, round(entry.modified_seconds * _NS))
