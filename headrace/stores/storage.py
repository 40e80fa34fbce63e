"""The protocol of a store of bytes, and the choice of a store by its URL.

A store holds objects under POSIX paths relative to a root: a local folder (`local`), an object store or memory
(`objects`), or the Hugging Face Hub (`hub`). A reader sees a whole object or none. Stores connect lazily, in each
process for itself, so a store can be pickled to a worker or inherited over a fork. A revision of the Hub is replaced by
its commit when the store is opened.

Other packages import from this module alone what they need of stores.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit

from headrace.errors import ConfigError
from headrace.signed_urls import check_no_password, is_signed, unsigned
from headrace.stores.contents import Content, FetchResponse, StoredObject, checked_path, is_hidden
from headrace.stores.file_urls import is_file_url, path_of_file_url
from headrace.stores.hub import HubStorage, pinned, revision_of
from headrace.stores.local import TEMPORARY_SUFFIX, LocalStorage
from headrace.stores.objects import ObjectStorage
from headrace.stores.requests import Transfer

__all__ = [
    "SCHEMES",
    "TEMPORARY_SUFFIX",
    "Bucket",
    "Content",
    "FetchResponse",
    "HubStorage",
    "LocalStorage",
    "ObjectStorage",
    "Storage",
    "StoredObject",
    "Transfer",
    "checked_path",
    "is_hidden",
    "open_bucket",
    "open_storage",
    "pinned",
    "revision_of",
]

SCHEMES = ("file", "hf", *ObjectStorage.SCHEMES)
"""The schemes of URLs that `open_storage` takes."""

Bucket: TypeAlias = ObjectStorage | HubStorage
"""A store that `open_bucket` opens."""


@runtime_checkable
class Storage(Protocol):
    """Objects under one root. Paths are relative, with `/`; a path out of the root raises `UnsafePathError`."""

    @property
    def uri(self) -> str:
        """The root as a user would write it."""

    def at(self, folder: str) -> "Storage":
        """Return this store with its root at `folder`."""

    def read(self, path: str) -> bytes:
        """All bytes. Raises `NotFoundError`."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each half-open range, in the given order. Raises `StorageError` if the object is shorter.

        No bytes between the ranges are read: `streaming.shards.coalesce` decides which ranges are read as one.
        """

    def open(self, path: str) -> BinaryIO:
        """A seekable binary file for reading. Raises `NotFoundError`."""

    def size(self, path: str) -> int:
        """Size in bytes. Raises `NotFoundError`."""

    def stat(self, path: str) -> StoredObject:
        """Size and time of last change. Raises `NotFoundError`."""

    def version(self, path: str) -> str:
        """A string that changes with the object: its size, and its ETag or time of change. Raises `NotFoundError`."""

    def exists(self, path: str) -> bool:
        """Whether the object exists."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Objects whose path starts with the string `prefix`, recursively, sorted by path.

        Folders and buckets leave out hidden objects: a name below the prefix's folder begins with a dot.
        """

    def write(self, path: str, data: Content) -> None:
        """Create or replace an object atomically. A file is read from its current position; pieces are joined."""

    def create(self, path: str, data: bytes) -> None:
        """Create an object atomically: one of several writers succeeds. Raises `AlreadyExistsError`."""

    def delete(self, path: str) -> None:
        """Delete an object; it is not an error if it does not exist."""

    def local_path(self, path: str) -> Path | None:
        """The local file of an object, to map or link; None for stores that are not local folders."""


def open_storage(uri: str | os.PathLike[str], transfer: Transfer | None = None) -> Storage:
    """The store behind a folder name, `file://` URL or object-store URL (`s3://bucket/prefix`, `http://…`, `hf://…`).

    Args:
        uri: the root.
        transfer: how requests are sent and repeated; for None, obstore repeats them by its own rules.

    Raises:
        ConfigError: the scheme is unknown, `://` does not follow it, the URL has a password or a query, or a
            `file://` URL has no absolute path.
    """
    text = os.fspath(uri)
    if is_file_url(text):
        return LocalStorage(Path(path_of_file_url(text)))
    if len(urlsplit(text).scheme) <= 1:  # no scheme, or a drive letter
        return LocalStorage(Path(text))
    return open_bucket(text, transfer)


def open_bucket(url: str, transfer: Transfer | None = None) -> Bucket:
    """The object store behind a URL. Arguments and errors as for `open_storage`."""
    check_no_password(url)
    if is_signed(url):
        raise ConfigError(f"{unsigned(url)}?…: a URL with a query, as a signed one, names one file, and no folder")
    scheme = urlsplit(url).scheme
    if scheme in SCHEMES[1:]:
        if not url.startswith(f"{scheme}://"):
            rest = url.removeprefix(f"{scheme}:").lstrip("/")
            raise ConfigError(f"{url}: a URL has two slashes after its scheme: {scheme}://{rest}")
        store = HubStorage if scheme == "hf" else ObjectStorage
        return store.opened(url.rstrip("/"), transfer)
    known = ", ".join(SCHEMES)
    raise ConfigError(f"{url}: unknown storage scheme {scheme!r}; use a folder name or one of {known}")
