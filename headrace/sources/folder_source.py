"""Recordings in a folder of this machine: `FolderSource`, and which files of the folder are listed.

Listed are:

- each file whose name, and whose folders' names, do not begin with a dot;
- a symbolic link to a file inside the root (with `follow_links` to any file), as a file under the link's own path;
- a symbolic link to a folder likewise: its files under the link's path, unless another path already reaches
  them. So no file is listed twice, and a loop of links ends;
- an entry that cannot be used, with a code and a reason: a link that leaves the root or is broken, a name that is not
  UTF-8, a pipe, a folder without read permission.

An opened file is checked again, so that without `follow_links` nothing outside the root is read. No audio is looked at
here.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from headrace.errors import ConfigError, FileChangedError, UnsafePathError
from headrace.format.rejects import RejectReason
from headrace.path_patterns import ignoring
from headrace.sources.content_digests import DigestedFile, read_digest
from headrace.sources.listing import NO_CTIME, FileStamp, Listing
from headrace.stores.file_urls import is_file_url, path_of_file_url
from headrace.stores.regular_files import oddity

_CHUNK_ENTRIES = 1000
_NOT_REGULAR = "not a regular file but a pipe, socket or device"


def open_folder(
    uri: str | os.PathLike[str],
    *,
    exclude: Sequence[str | os.PathLike[str]] = (),
    ignore: Sequence[str] = (),
    follow_links: bool = False,
) -> "FolderSource":
    """Open a folder of this machine as a source.

    Args:
        uri: the root folder, or its `file://` URL.
        exclude: files and folders below the root that are not recordings: the metadata table, the output.
        ignore: glob patterns of files that are not recordings.
        follow_links: whether symbolic links may lead out of the root.

    Raises:
        ConfigError: the root is not a folder, or the root is excluded.
    """
    text = os.fspath(uri)
    text = path_of_file_url(text) if is_file_url(text) else text
    root = Path(text)
    if not root.is_dir():
        raise ConfigError(f"source.uri {text}: {_why_no_folder(root)}")
    if os.path.realpath(root) in map(os.path.realpath, exclude):
        raise ConfigError(
            f"source.uri {text}: output.uri or the path of a table (source.metadata, exclude, columns) is the same "
            "folder; give the output a folder of its own, inside or outside, and name the file of a table"
        )
    return FolderSource(root, tuple(Path(path) for path in exclude), tuple(ignore), follow_links)


def _why_no_folder(root: Path) -> str:
    """Explain what is in the place of an expected folder."""
    if root.is_file():
        return f"a file, not a folder; name the folder of the recordings, such as {root.parent}"
    if (odd := oddity(root)) is not None:
        return f"{odd}, not a folder; name the folder of the recordings"
    return f"there is no such folder (looked for {root.absolute()})"


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder of this machine."""

    root: Path
    exclude: tuple[Path, ...] = ()
    ignore: tuple[str, ...] = ()
    follow_links: bool = False
    _real_root: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_real_root", os.path.realpath(self.root))

    @property
    def uri(self) -> str:
        """The folder's name."""
        return str(self.root)

    def list(self) -> Iterator[Listing]:
        """See `Source.list`."""
        excluded = frozenset(os.path.realpath(path) for path in self.exclude)
        return _FolderWalk(self._real_root, excluded, self.ignore, follow_links=self.follow_links).chunks()

    @contextmanager
    def open(self, path: str, stamp: FileStamp) -> Iterator[BinaryIO]:
        """See `Source.open`. The opened file is checked, not its name: a link may change before the file is opened."""
        with open(self._below(path), "rb", opener=_open_without_waiting) as file:
            self._check_opened(file, path, stamp)
            yield file
        _check(path, stamp, os.stat(self._below(path)))  # noqa: PTH116 - per file: a Path costs more than the stat

    def open_digested(self, path: str, stamp: FileStamp) -> AbstractContextManager[DigestedFile]:
        """See `Source.open_digested`."""
        return read_digest(self.open(path, stamp))

    def rows(self) -> None:
        """See `Corpus.rows`: there are none."""

    def _check_opened(self, file: BinaryIO, path: str, stamp: FileStamp) -> None:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, _NOT_REGULAR, path)
        real = _real_path(file)
        if not (self.follow_links or _is_inside(real, self._real_root)):
            raise UnsafePathError(f"{path!r} leads to {_shown(real)}, outside the source root {self.root}")
        _check(path, stamp, status)

    def _below(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise UnsafePathError(f"{path!r} leaves the source root {self.root}")
        return f"{self._real_root}/{path}"


class _FolderWalk:
    """One listing of a folder tree: real folders first, then linked folders that were not listed yet."""

    def __init__(self, root: str, excluded: frozenset[str], ignore: tuple[str, ...], *, follow_links: bool) -> None:
        self._root = root
        self._excluded = excluded
        self._excluded_files = {_identity(path) for path in excluded if Path(path).is_file()}
        self._ignores, self._follow_links = ignoring(ignore), follow_links
        self._visited = {_identity(path) for path in excluded if Path(path).is_dir()}
        self._links: list[str] = []
        self._found = Listing()
        self._num_seen = 0  # entries since the last chunk

    def chunks(self) -> Iterator[Listing]:
        yield from self._tree("")
        while self._links:
            # Sorted: which of two links to one folder is followed must not depend on the order of the disk.
            links, self._links = sorted(self._links), []
            for link in links:
                yield from self._tree(f"{link}/")
        yield self._found

    def _tree(self, prefix: str) -> Iterator[Listing]:
        pending = [prefix]
        while pending:
            prefix = pending.pop()
            for entry in self._entries(prefix):
                path = prefix + entry.name
                self._num_seen += 1
                if entry.is_symlink():
                    self._add_link(entry.path, path)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.path not in self._excluded:
                        pending.append(f"{path}/")
                else:
                    self._add_file(entry, path)
                if self._num_seen >= _CHUNK_ENTRIES:  # also if they are all folders: the caller may have to stop
                    yield self._found
                    self._found, self._num_seen = Listing(), 0

    def _entries(self, prefix: str) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a folder one by one: a folder may hold a million files."""
        folder = f"{self._root}/{prefix}"
        try:
            identity = _identity(folder)
            if identity in self._visited:
                return
            self._visited.add(identity)
            with os.scandir(folder) as entries:
                yield from (entry for entry in entries if entry.name[0] != ".")
        except FileNotFoundError:  # removed after its parent was read
            return
        except OSError as error:
            self._reject(prefix.rstrip("/"), RejectReason.UNREADABLE, f"the folder cannot be read: {error.strerror}")

    def _add_file(self, entry: os.DirEntry[str], path: str) -> None:
        if self._ignores(path):
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            self._reject(path, RejectReason.UNREADABLE, f"cannot be read: {error.strerror}")
            return
        if entry.path not in self._excluded:
            self._add_status(path, status)

    def _add_link(self, full: str, path: str) -> None:
        target = os.path.realpath(full)
        if target in self._excluded:
            return
        if self._ignores(path) and not Path(full).is_dir():
            return
        if not (self._follow_links or _is_inside(target, self._root)):
            reason = (
                f"a symbolic link to {_shown(target)}, outside the source root; copy the file into the root, or write "
                "source.follow_links: true"
            )
            self._reject(path, RejectReason.OUTSIDE_ROOT, reason)
            return
        try:
            status = Path(full).stat()
        except OSError as error:
            reason = f"a symbolic link to {_shown(target)}, which cannot be read: {error.strerror}"
            self._reject(path, RejectReason.UNREADABLE, reason)
            return
        if stat.S_ISDIR(status.st_mode):
            self._links.append(path)
        else:
            self._add_status(path, status)

    def _add_status(self, path: str, status: os.stat_result) -> None:
        if (status.st_dev, status.st_ino) in self._excluded_files:
            return
        if not stat.S_ISREG(status.st_mode):
            self._reject(path, RejectReason.UNREADABLE, _NOT_REGULAR)
        elif not _is_text(path):
            reason = "its name or a folder's name is not valid UTF-8; rename it"
            self._found.add(_shown(path), FileStamp.of(status), RejectReason.BAD_NAME, reason)
        else:
            self._found.add(path, FileStamp.of(status))

    def _reject(self, path: str, code: RejectReason, reason: str) -> None:
        self._found.add(_shown(path), None, code, reason)


def _check(path: str, stamp: FileStamp, status: os.stat_result) -> None:
    found = FileStamp.of(status)
    if stamp.ctime_ns == NO_CTIME:  # not to be compared
        found = replace(found, ctime_ns=NO_CTIME)
    if found != stamp:
        raise FileChangedError(f"{path}: the file changed since it was listed")


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file. If a pipe has replaced it, return at once instead of waiting for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _real_path(file: BinaryIO) -> str:
    """Real path of an open file. On Linux one call; `os.path.realpath` costs as much as a short read."""
    try:
        return os.readlink(f"/proc/self/fd/{file.fileno()}")  # noqa: PTH115 - called per file
    except OSError:  # no /proc
        return os.path.realpath(file.name)


def _is_inside(real: str, root: str) -> bool:
    return real == root or real.startswith(root.rstrip("/") + "/")


def _identity(folder: str) -> tuple[int, int]:
    status = Path(folder).stat()
    return status.st_dev, status.st_ino


def _is_text(path: str) -> bool:
    """Whether the name is UTF-8 on disk. Python decodes other bytes to surrogates, which no table can hold."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
