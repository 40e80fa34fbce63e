"""Recordings in an object store: `BucketSource`, a `Source` over an object store.

An object is listed if it would be listed in a local folder: neither its name nor a folder's name begins with a dot.

Opening an object of up to 64 MiB downloads it by one request into an anonymous file. A larger one is read in pieces.
Both check the size and time of the object in the responses, so that no further requests are needed.
"""

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from headrace.config.source import Digests
from headrace.errors import FileChangedError, UnsafePathError
from headrace.format.rejects import RejectReason
from headrace.machine import anonymous_file
from headrace.path_patterns import ignoring
from headrace.sources.content_digests import DigestedFile, digest_of_tag, read_digest
from headrace.sources.listing import NO_CTIME, FileStamp, Listing, tabled_ns
from headrace.sources.object_file import ObjectFile
from headrace.stores.storage import Bucket, StoredObject, checked_path, is_hidden, revision_of

_WHOLE_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_HEADER_BYTES = 128 << 10
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BucketSource:
    """A prefix of an object store.

    Attributes:
        storage: the prefix.
        exclude: paths below the prefix of files and folders that are not recordings.
        digests: where the digests of recordings come from.
        ignore: glob patterns of other objects that are not recordings.
    """

    storage: Bucket
    exclude: tuple[str, ...] = ()
    digests: Digests = Digests.READ
    ignore: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        """The prefix's URL, without the commit at which a repository is read: the source is the same at all."""
        commit = revision_of(self.storage)
        return self.storage.uri.replace(f"@{commit}", "", 1) if commit else self.storage.uri

    def list(self) -> Iterator[Listing]:
        """See `Source.list`. A chunk for each response of the store, as it arrives."""
        for page in self.storage.pages():
            found = Listing()
            for entry in page:
                if self._is_recording(entry.path):
                    _add(found, entry)
            yield found

    @contextmanager
    def open(self, path: str, stamp: FileStamp) -> Iterator[BinaryIO]:
        """See `Source.open`."""
        accept = partial(_check, stamp=stamp)
        if stamp.num_bytes > _WHOLE_BYTES:
            raw = ObjectFile(self.storage, path, stamp.num_bytes, accept, first_bytes=_PIECE_BYTES)
            with io.BufferedReader(raw) as file:
                yield file
            return
        found = self.storage.fetch(path, accept)
        with os.fdopen(anonymous_file("headrace-recording"), "w+b") as whole:
            whole.write(found.data)
            del found
            whole.seek(0)
            yield whole

    @contextmanager
    def open_digested(self, path: str, stamp: FileStamp) -> Iterator[DigestedFile]:
        """See `Source.open_digested`. With `Digests.STORE` only the pieces that the caller reads are downloaded."""
        if self.digests == Digests.READ or not stamp.num_bytes:
            with read_digest(self.open(path, stamp)) as found:
                yield found
            return
        accept = partial(_check, stamp=stamp)
        raw = ObjectFile(self.storage, path, stamp.num_bytes, accept, first_bytes=_HEADER_BYTES)
        with io.BufferedReader(raw) as file:
            if raw.tag is not None:
                yield DigestedFile(file, digest_of_tag(raw.tag, path))
            else:
                with read_digest(nullcontext(file)) as found:
                    yield found

    def rows(self) -> None:
        """See `Corpus.rows`: there are none."""

    def _is_recording(self, path: str) -> bool:
        is_aside = any(path == aside or path.startswith(f"{aside}/") for aside in self.exclude)
        return not (is_hidden(path) or is_aside or ignoring(self.ignore)(path))


def stamp_of(entry: StoredObject) -> FileStamp:
    """Size and modification time of an object. A number from its ETag takes the place of the change time.

    So a change within the second of the last one is seen, too. The number is less than the current time.
    """
    return FileStamp(entry.num_bytes, tabled_ns(round(entry.modified_seconds * _NS)), _number_of(entry.tag))


def is_at(found: FileStamp, stamp: FileStamp) -> bool:
    """Whether an object with a stamp that was found may be the listed one: its tag and time do not differ.

    Listings of some stores give the time with a fraction of a second, which responses to other requests lack.
    """
    has_tag = NO_CTIME in {found.ctime_ns, stamp.ctime_ns} or found.ctime_ns == stamp.ctime_ns
    return has_tag and abs(found.mtime_ns - stamp.mtime_ns) < _NS


def _number_of(tag: str | None) -> int:
    """A number of 60 bits from an ETag, whose quotation marks some responses lack; `NO_CTIME` without one."""
    bare = (tag or "").removeprefix("W/").strip('"')
    return int(hashlib.sha256(bare.encode()).hexdigest()[:15], 16) if bare else NO_CTIME


def _add(found: Listing, entry: StoredObject) -> None:
    stamp = stamp_of(entry)
    try:
        checked_path(entry.path)
    except UnsafePathError as error:
        found.add(entry.path, stamp, RejectReason.BAD_NAME.value, str(error))
    else:
        found.add(entry.path, stamp)


def _check(entry: StoredObject, stamp: FileStamp) -> None:
    """Raise `FileChangedError` if an object is not the listed one."""
    if entry.num_bytes != stamp.num_bytes or not is_at(stamp_of(entry), stamp):
        raise FileChangedError(f"{entry.path}: the object changed since it was listed")
