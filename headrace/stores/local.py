"""A local folder as a store.

`LocalStorage` is plain Python, and does not use obstore's local store: it starts no threads, so that the process can
fork at any time; it takes any file name; and it gives real paths, which can be mapped or linked.
"""

import contextlib
import io
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.errors import StorageError
from headrace.stores.client_errors import translated_errors
from headrace.stores.contents import PIECE_BYTES, Content, StoredObject, checked_path, exactly
from headrace.stores.exclusive_files import name_exclusively
from headrace.stores.folder_walk import walk, walk_odd
from headrace.stores.regular_files import check_regular, open_regular

TEMPORARY_SUFFIX = ".headrace-tmp"
_PARTS_PER_CALL = 1024  # the most that the kernel takes


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A local folder. Objects are written to a hidden temporary file beside the target, then renamed or linked."""

    root: Path

    @property
    def uri(self) -> str:
        """The folder's name."""
        return str(self.root)

    def at(self, folder: str) -> "LocalStorage":
        """See `Storage.at`."""
        return LocalStorage(self.root / checked_path(folder))

    def local_path(self, path: str) -> Path:
        """See `Storage.local_path`."""
        return self.root / checked_path(path)

    def read(self, path: str) -> bytes:
        """See `Storage.read`."""
        with translated_errors(path, self.uri), self._opened(path, 0) as file:
            return file.read()  # a buffer would only cost time, as the file is read whole

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage.read_ranges`."""
        with translated_errors(path, self.uri), self._opened(path, 0) as file:
            return [exactly(os.pread(file.fileno(), stop - start, start), start, stop, path) for start, stop in ranges]

    def open(self, path: str) -> BinaryIO:
        """See `Storage.open`."""
        with translated_errors(path, self.uri):
            return io.BufferedReader(_LocalFile(cast("io.FileIO", self._opened(path, 0)), path, self.uri))

    def _opened(self, path: str, buffering: int) -> BinaryIO:
        """A regular file, opened; pipes and the like are rejected without waiting."""
        return open(self.local_path(path), "rb", buffering, opener=open_regular)

    def size(self, path: str) -> int:
        """See `Storage.size`."""
        return self.stat(path).num_bytes

    def stat(self, path: str) -> StoredObject:
        """See `Storage.stat`."""
        found = self._status(path)
        return StoredObject(path, found.st_size, found.st_mtime)

    def version(self, path: str) -> str:
        """See `Storage.version`."""
        found = self._status(path)
        return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"

    def _status(self, path: str) -> os.stat_result:
        with translated_errors(path, self.uri):
            found = (name := self.local_path(path)).stat()
            check_regular(name, found.st_mode)
        return found

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        with translated_errors(path, self.uri):
            return self.local_path(path).is_file()

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """See `Storage.list`. Hidden files are never listed: they are temporary, or of other programs."""
        folder = prefix.rpartition("/")[0]
        if folder:
            checked_path(folder)
        with translated_errors(folder, self.uri):
            for path, found in walk(self.root / folder, f"{folder}/" if folder else "", prefix):
                yield StoredObject(path, found.st_size, found.st_mtime)

    def list_odd(self, prefix: str = "") -> Iterator[str]:
        """Paths that are not regular files: folders, pipes, broken links."""
        folder = prefix.rpartition("/")[0]
        if folder:
            checked_path(folder)
        with translated_errors(folder, self.uri):
            yield from walk_odd(self.root / folder, f"{folder}/" if folder else "", prefix)

    def write(self, path: str, data: Content) -> None:
        """See `Storage.write`."""
        target = self.local_path(path)
        with translated_errors(path, self.uri), _temporary_sibling(target, data) as temporary:
            temporary.replace(target)

    def create(self, path: str, data: bytes) -> None:
        """See `Storage.create`."""
        target = self.local_path(path)
        with translated_errors(path, self.uri), _temporary_sibling(target, data) as temporary:
            name_exclusively(temporary, target)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        with translated_errors(path, self.uri):
            self.local_path(path).unlink(missing_ok=True)

    def leftovers(self) -> Iterator[Path]:
        """Temporary files of writers that were killed; `gc` deletes old ones."""
        with translated_errors("", self.uri):
            yield from self.root.rglob(f".*{TEMPORARY_SUFFIX}")


class _LocalFile(io.RawIOBase):
    """A file of a folder; a read that fails raises a `StorageError` that names the file."""

    def __init__(self, file: io.FileIO, path: str, uri: str) -> None:
        self._file, self._path, self._uri = file, path, uri

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - as below
        with translated_errors(self._path, self._uri):
            return self._file.readinto(buffer)

    def readall(self) -> bytes:
        with translated_errors(self._path, self._uri):
            return self._file.readall()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def _temporary_sibling(target: Path, data: Content) -> Iterator[Path]:
    """A block with a hidden file that holds `data` in the target's folder; deleted at the end unless renamed."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    _make_folder(target.parent)
    try:
        with temporary.open("xb", buffering=PIECE_BYTES) as file:
            if isinstance(data, bytes):
                file.write(data)
            elif isinstance(data, list):
                _write_pieces(file.fileno(), data)
            else:
                while chunk := data.read(PIECE_BYTES):
                    file.write(chunk)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _write_pieces(descriptor: int, pieces: Iterable[bytes | memoryview]) -> None:
    """Write pieces one after another, without joining them first: a buffer would copy every byte once more."""
    for parts in _parts_of_calls(pieces):
        left = parts
        while num_bytes := sum(map(len, left)):
            written = os.writev(descriptor, left)
            left = [] if written == num_bytes else _behind(left, written)


def _parts_of_calls(pieces: Iterable[bytes | memoryview]) -> Iterator[list[memoryview]]:
    """The bytes of pieces, in parts that are written by one call each: one to two mebibytes.

    For a longer write, Linux takes the page cache from large blocks of free memory, which the host of a virtual machine
    may have to provide first: ten megabytes in one call took 2 ms or 15.
    """
    parts: list[memoryview] = []
    num_bytes = 0
    for piece in pieces:
        for start in range(0, len(piece), PIECE_BYTES):
            parts.append(memoryview(piece)[start : start + PIECE_BYTES])
            num_bytes += len(parts[-1])
            if num_bytes >= PIECE_BYTES or len(parts) == _PARTS_PER_CALL:
                yield parts
                parts, num_bytes = [], 0
    yield parts


def _behind(parts: Sequence[memoryview], num_bytes: int) -> list[memoryview]:
    """The parts without their first `num_bytes` bytes."""
    for number, part in enumerate(parts):
        if num_bytes < len(part):
            return [part[num_bytes:], *parts[number + 1 :]]
        num_bytes -= len(part)
    return []


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents. Raises `StorageError` if a file has the name of one of them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:  # whose messages would name the object
        raise StorageError(f"{folder}: the folder cannot be created ({error.strerror})") from error
