"""Where bytes live: one small protocol over a local folder, memory or an object store.

Owns atomic writes, create-if-absent, listing and range reads, all by POSIX paths relative to a root. It knows nothing
of audio, shards or snapshots. A reader sees a whole object or none. Stores open lazily in each process, so that a
value can be pickled to a worker or inherited over a fork.

`LocalStorage` is plain Python rather than obstore's local store: it starts no threads (safe to fork at any time),
takes any file name, and can hand out real paths to map or link. Both stores stand in this file because they answer to
one protocol line by line and share its errors.
"""

import contextlib
import io
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias, runtime_checkable
from urllib.parse import unquote, urlsplit

from headrace.errors import AlreadyExistsError, ConfigError, NotFoundError, StorageError, UnsafePathError
from headrace.exclusive import name_exclusively
from headrace.folder_walk import walk
from headrace.forked_obstore import keep_over_forks
from headrace.store_errors import missing_fault, place, store_fault

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_TEMPORARY_SUFFIX = ".headrace-tmp"
_PIECE_BYTES = 1 << 20  # what is written at once lies together in the page cache, and is read from there faster

Content: TypeAlias = bytes | list[bytes] | BinaryIO
"""What an object is made of: its bytes, pieces of them that need not be copied together, or a file of them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing: path relative to the root, size in bytes, time of last change in seconds (Unix)."""

    path: str
    num_bytes: int
    modified_seconds: float


@dataclass(frozen=True, slots=True)
class Transfer:
    """Limits for a caller that repeats failed requests itself: the store's client then tries each only once.

    Attributes:
        timeout_seconds: how long one request may take from connecting to its last byte.
    """

    timeout_seconds: float = 60.0


@runtime_checkable
class Storage(Protocol):
    """Objects under one root. Paths are relative, with `/`; one that leaves the root raises `UnsafePathError`."""

    @property
    def uri(self) -> str:
        """The root as a user would write it."""

    def at(self, folder: str) -> "Storage":
        """The same store with its root at `folder`."""

    def read(self, path: str) -> bytes:
        """All bytes. Raises `NotFoundError`."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each half-open range, in the order asked for. Raises `StorageError` if the object is shorter."""

    def open(self, path: str) -> BinaryIO:
        """A seekable binary file for reading. Raises `NotFoundError`."""

    def size(self, path: str) -> int:
        """Size in bytes. Raises `NotFoundError`."""

    def stat(self, path: str) -> Entry:
        """Size and time of last change. Raises `NotFoundError`."""

    def version(self, path: str) -> str:
        """What changes when the object does: its size, and its ETag or time of change. Raises `NotFoundError`."""

    def exists(self, path: str) -> bool:
        """Whether the object is there."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Objects whose path starts with the string `prefix`, recursively, sorted by path."""

    def write(self, path: str, data: Content) -> None:
        """Create or replace atomically. A file is read from where it stands to its end; pieces are joined."""

    def create(self, path: str, data: bytes) -> None:
        """Write only if absent, atomically: of several writers one wins. Raises `AlreadyExistsError`."""

    def delete(self, path: str) -> None:
        """Remove; an absent object is no error."""

    def local_path(self, path: str) -> Path | None:
        """The real file behind `path`, to map or link; None where there is none."""


def open_storage(uri: str | os.PathLike[str], transfer: Transfer | None = None) -> Storage:
    """The store behind a folder name, `file://` URL or object-store URL (`s3://bucket/prefix`, `http://…`, `memory://`).

    Args:
        uri: the root.
        transfer: limits of single requests; None leaves patience and repeats to the store's client.

    Raises:
        ConfigError: the scheme is not known.
    """
    text = os.fspath(uri)
    parts = urlsplit(text)
    if parts.scheme == "file":
        return LocalStorage(Path(unquote(parts.path)))
    if len(parts.scheme) <= 1:  # no scheme, or a drive letter
        return LocalStorage(Path(text))
    if parts.scheme in ObjectStorage.SCHEMES:
        return ObjectStorage(text.rstrip("/"), transfer=transfer)
    known = ", ".join(["file", *ObjectStorage.SCHEMES])
    raise ConfigError(f"{text}: unknown storage scheme {parts.scheme!r}; use a folder name or one of {known}")


def checked_path(path: str) -> str:
    """The path itself if it stays below its root.

    Raises:
        UnsafePathError: empty, absolute, or with an empty, `.` or `..` component, a backslash or a NUL.
    """
    components = path.split("/")
    if any(part in {"", ".", ".."} for part in components) or "\\" in path or "\0" in path:
        raise UnsafePathError(
            f"{path!r} does not name an object below the storage root: use a relative path like a/b.tar"
        )
    return path


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A folder. Writes go to a hidden temporary file beside the target and are renamed (or linked) into place."""

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
        with _translated_errors(path, self.uri), self.local_path(path).open("rb", buffering=0) as file:
            return file.read()  # whole, so a buffer would only cost

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage.read_ranges`."""
        with self.open(path) as file:
            return [_exactly(os.pread(file.fileno(), stop - start, start), start, stop, path) for start, stop in ranges]

    def open(self, path: str) -> BinaryIO:
        """See `Storage.open`."""
        with _translated_errors(path, self.uri):
            return self.local_path(path).open("rb")

    def size(self, path: str) -> int:
        """See `Storage.size`."""
        return self.stat(path).num_bytes

    def stat(self, path: str) -> Entry:
        """See `Storage.stat`."""
        with _translated_errors(path, self.uri):
            found = self.local_path(path).stat()
        return Entry(path, found.st_size, found.st_mtime)

    def version(self, path: str) -> str:
        """See `Storage.version`."""
        with _translated_errors(path, self.uri):
            found = self.local_path(path).stat()
        return f"{found.st_size}-{found.st_mtime_ns}"

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        return self.local_path(path).is_file()

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """See `Storage.list`. Hidden files are never listed: they are temporary, or not ours."""
        folder = prefix.rpartition("/")[0]
        if folder:
            checked_path(folder)
        for path, found in walk(self.root / folder, f"{folder}/" if folder else "", prefix):
            yield Entry(path, found.st_size, found.st_mtime)

    def write(self, path: str, data: Content) -> None:
        """See `Storage.write`."""
        target = self.local_path(path)
        with _translated_errors(path, self.uri), _temporary_sibling(target, data) as temporary:
            temporary.replace(target)

    def create(self, path: str, data: bytes) -> None:
        """See `Storage.create`."""
        target = self.local_path(path)
        with _translated_errors(path, self.uri), _temporary_sibling(target, data) as temporary:
            name_exclusively(temporary, target)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        with _translated_errors(path, self.uri):
            self.local_path(path).unlink(missing_ok=True)

    def leftovers(self) -> Iterator[Path]:
        """Temporary files of writers that died; `gc` removes old ones."""
        yield from self.root.rglob(f".*{_TEMPORARY_SUFFIX}")


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """An object store (or memory) through obstore. Credentials and endpoints come from the environment (`AWS_…`).

    The client is made on first use in each process, also in one that was forked (`forked_obstore`); a pickled value
    travels as its URI alone, so `memory://` does not travel.
    """

    SCHEMES = ("s3", "gs", "az", "abfs", "http", "https", "memory")

    uri: str
    prefix: str = ""
    transfer: Transfer | None = None
    _client: "dict[int, ObjectStore]" = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> tuple[str, str, Transfer | None]:
        """Leave the client behind: sockets and threads do not travel."""
        return self.uri, self.prefix, self.transfer

    def __setstate__(self, state: tuple[str, str, Transfer | None]) -> None:
        """Start without a client."""
        fields: tuple[object, ...] = (*state, {})
        for name, value in zip(("uri", "prefix", "transfer", "_client"), fields, strict=True):
            object.__setattr__(self, name, value)

    @property
    def client(self) -> "ObjectStore":
        """The obstore client of this process."""
        from obstore.store import MemoryStore, from_url

        pid = os.getpid()
        if pid not in self._client:
            base = self.uri.removesuffix(f"/{self.prefix}") if self.prefix else self.uri
            self._client[pid] = MemoryStore() if base.startswith("memory:") else from_url(base, **self._options(base))
            keep_over_forks(self._client[pid])
        return self._client[pid]

    def at(self, folder: str) -> "ObjectStorage":
        """See `Storage.at`."""
        below = self._full(folder)
        return ObjectStorage(f"{self.uri}/{folder}", below, self.transfer, self._client)

    def _options(self, base: str) -> dict[str, Any]:
        """What the client is made with. Plain-HTTP endpoints (a store inside a cluster) must be allowed by name."""
        options: dict[str, Any] = {"client_options": {}}
        endpoint = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", base))
        if endpoint.startswith("http://"):
            options["client_options"]["allow_http"] = True
        if self.transfer is not None:
            limit = timedelta(seconds=self.transfer.timeout_seconds)
            options["client_options"] |= {"timeout": limit, "connect_timeout": limit}
            options["retry_config"] = {"max_retries": 0}
        return options

    def _full(self, path: str) -> str:
        return f"{self.prefix}/{checked_path(path)}" if self.prefix else checked_path(path)

    def local_path(self, path: str) -> None:
        """See `Storage.local_path`."""
        checked_path(path)

    def read(self, path: str) -> bytes:
        """See `Storage.read`."""
        import obstore

        with _translated_errors(path, self.uri):
            return bytes(obstore.get(self.client, self._full(path)).bytes())

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage.read_ranges`. Near ranges travel in one request (obstore merges them)."""
        import obstore

        asked = list(dict.fromkeys(span for span in ranges if span[0] < span[1]))  # obstore refuses empty ones
        if not asked:
            return [b""] * len(ranges)
        with _translated_errors(path, self.uri):
            starts, ends = [start for start, _ in asked], [stop for _, stop in asked]
            blobs = obstore.get_ranges(self.client, self._full(path), starts=starts, ends=ends)
        found = {span: _exactly(bytes(blob), *span, path) for span, blob in zip(asked, blobs, strict=True)}
        return [found.get(span, b"") for span in ranges]

    def open(self, path: str) -> BinaryIO:
        """See `Storage.open`."""
        import obstore

        with _translated_errors(path, self.uri):
            return io.BufferedReader(_RawReader(obstore.open_reader(self.client, self._full(path))), _PIECE_BYTES)

    def size(self, path: str) -> int:
        """See `Storage.size`."""
        return self.stat(path).num_bytes

    def stat(self, path: str) -> Entry:
        """See `Storage.stat`."""
        import obstore

        with _translated_errors(path, self.uri):
            found = obstore.head(self.client, self._full(path))
        return Entry(path, found["size"], found["last_modified"].timestamp())

    def version(self, path: str) -> str:
        """See `Storage.version`."""
        import obstore

        with _translated_errors(path, self.uri):
            found = obstore.head(self.client, self._full(path))
        return f"{found['size']}-{found['e_tag'] or found['last_modified'].isoformat()}"

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        try:
            self.size(path)
        except NotFoundError:
            return False
        return True

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """See `Storage.list`."""
        import obstore

        folder = prefix.rpartition("/")[0]
        below = self._full(folder) if folder else (self.prefix or None)
        strip = len(self.prefix) + 1 if self.prefix else 0
        with _translated_errors(prefix, self.uri):
            found = [
                Entry(meta["path"][strip:], meta["size"], meta["last_modified"].timestamp())
                for chunk in obstore.list(self.client, below)
                for meta in chunk
                if meta["path"][strip:].startswith(prefix)
            ]
        yield from sorted(found, key=lambda entry: entry.path)

    def write(self, path: str, data: Content) -> None:
        """See `Storage.write`."""
        import obstore

        with _translated_errors(path, self.uri):
            obstore.put(self.client, self._full(path), b"".join(data) if isinstance(data, list) else data)

    def create(self, path: str, data: bytes) -> None:
        """See `Storage.create`. One PUT: the only condition that every S3 store honours (multipart ones do not)."""
        import obstore

        with _translated_errors(path, self.uri):
            obstore.put(self.client, self._full(path), data, mode="create", use_multipart=False)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        import obstore

        with contextlib.suppress(NotFoundError), _translated_errors(path, self.uri):
            obstore.delete(self.client, self._full(path))


class _RawReader(io.RawIOBase):
    """obstore's reader as a standard raw file, so that `io.BufferedReader` can stand on it."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - obstore does not export the type
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        data = memoryview(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())


def _exactly(blob: bytes, start: int, stop: int, path: str) -> bytes:
    if len(blob) != stop - start:
        raise StorageError(f"{path}: bytes {start}..{stop} asked for, {len(blob)} bytes came: the object is shorter")
    return blob


@contextlib.contextmanager
def _translated_errors(path: str, uri: str) -> Iterator[None]:
    """Every store's errors in our family, naming the object."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(missing_fault(error, path, uri)) from error
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path}: exists already in {uri}") from error
    except OSError as error:
        raise StorageError(f"{place(path, uri)}: {error.strerror or error}") from error
    except Exception as error:
        if not type(error).__module__.startswith("obstore"):
            raise
        if type(error).__name__ == "AlreadyExistsError":  # obstore's own class, not a FileExistsError
            raise AlreadyExistsError(f"{path}: exists already in {uri}") from error
        raise StorageError(store_fault(error, path, uri)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # obstore's, of a range beyond the end: not even an Exception
            raise
        raise StorageError(f"{path} in {uri}: {error}; is the object shorter than its index says?") from error


@contextlib.contextmanager
def _temporary_sibling(target: Path, data: Content) -> Iterator[Path]:
    """A hidden file with `data` in the target's folder, gone at the end unless it was renamed."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_TEMPORARY_SUFFIX}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("xb", buffering=_PIECE_BYTES) as file:
            if isinstance(data, bytes):
                file.write(data)
            elif isinstance(data, list):
                file.writelines(data)
            else:
                while chunk := data.read(_PIECE_BYTES):
                    file.write(chunk)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
