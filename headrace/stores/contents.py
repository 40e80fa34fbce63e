"""Types and checks that all stores share: the content of an object, an entry of a listing, a valid path."""

from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

from headrace.errors import StorageError, UnsafePathError

PIECE_BYTES = 1 << 20
"""Bytes copied at once: bytes that are written together are together in the page cache, and read faster."""

Content: TypeAlias = bytes | list[bytes] | list[bytes | memoryview] | BinaryIO
"""The content to write to an object: its bytes, pieces of them that need not be joined first, or a file to read."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a store.

    Attributes:
        path: relative to the root.
        num_bytes: size.
        modified_seconds: time of last change (Unix); of many stores in whole seconds.
        tag: ETag, which differs for other bytes; None if it is not known.
    """

    path: str
    num_bytes: int
    modified_seconds: float
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The response to a request for an object or a part of it.

    Attributes:
        data: the bytes.
        entry: the object that they are from. Its time may lack the fraction of the second that a listing has.
        tag: the object's ETag, with its quotation marks; None if the store has none.
    """

    data: bytes
    entry: StoredObject
    tag: str | None


def is_hidden(path: str, prefix: str = "") -> bool:
    """Whether a name in a path begins with a dot; with a prefix, a name below the folder that it is in.

    >>> is_hidden("a/.b/c"), is_hidden("a/.b/c", "a/.b/")
    (True, False)
    """
    return "/." in f"/{path[prefix.rfind('/') + 1 :]}"


def checked_path(path: str) -> str:
    """The path itself, if it stays below the root of its store.

    Raises:
        UnsafePathError: empty, absolute, or with an empty, `.` or `..` component, a backslash or a NUL.
    """
    components = path.split("/")
    if any(part in {"", ".", ".."} for part in components) or "\\" in path or "\0" in path:
        raise UnsafePathError(
            f"{path!r} does not name an object below the storage root: use a relative path like a/b.tar"
        )
    return path


def exactly(blob: bytes, start: int, stop: int, path: str) -> bytes:
    """The bytes of a range, if there are as many as were asked for. Raises `StorageError`."""
    if len(blob) != stop - start:
        raise StorageError(f"{path}: bytes {start}..{stop} requested, {len(blob)} received: the object is shorter")
    return blob
