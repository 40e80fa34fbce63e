"""Where raw recordings lie: listing a source root and opening what it holds.

Owns what counts as a file of the source (hidden names, symbolic links, names that are not text) and the check that
nothing outside the root is read. It looks at no audio and decides no rejection by content.

What a local source lists:

- every file whose name, and whose folders' names, do not begin with a dot;
- a symbolic link to a file inside the root: as a file under the link's own path;
- a symbolic link to a folder inside the root: its files under the link's path, but only where no other path reaches
  them, so that nothing comes twice and a loop of links ends;
- what it cannot offer (a link that leaves the root or leads nowhere, a name that is not UTF-8, a pipe, a folder
  without permission): one row with the code and the reason.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from headrace.errors import ConfigError, UnsafePathError
from headrace.rejects import Reject

_CHUNK_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells a changed file from an unchanged one without reading it."""

    num_bytes: int
    mtime_ns: int


@dataclass(slots=True)
class Listing:
    """A chunk of what a source holds, as columns: one entry in each per file.

    Attributes:
        path: relative POSIX paths.
        num_bytes: sizes; None for an entry that cannot be opened.
        mtime_ns: times of change in nanoseconds since 1970; None likewise.
        code: why an entry is refused (`Reject`); None for a file that can be opened.
        reason: the same as a sentence.
    """

    path: list[str] = field(default_factory=list)
    num_bytes: list[int | None] = field(default_factory=list)
    mtime_ns: list[int | None] = field(default_factory=list)
    code: list[str | None] = field(default_factory=list)
    reason: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.path)

    def add(self, path: str, size: int | None, mtime_ns: int | None, code: str | None, reason: str | None) -> None:
        """One more entry."""
        self.path.append(path)
        self.num_bytes.append(size)
        self.mtime_ns.append(mtime_ns)
        self.code.append(code)
        self.reason.append(reason)


class Source(Protocol):
    """Recordings under one root, by relative POSIX path."""

    @property
    def uri(self) -> str:
        """The root as a user would write it."""

    def list(self) -> Iterator[Listing]:
        """All files in chunks, in any order; entries with a `code` cannot be opened."""

    def stamp(self, path: str) -> Stamp:
        """Size and time of last change now. Raises `UnsafePathError`, `FileNotFoundError`."""

    def open(self, path: str) -> BinaryIO:
        """A seekable binary file. Raises `UnsafePathError` for a path that leaves the root, `OSError` otherwise."""


def open_folder(uri: str | os.PathLike[str], *, exclude: Sequence[str | os.PathLike[str]] = ()) -> "LocalSource":
    """The source in a folder of this machine.

    Args:
        uri: the root folder, or its `file://` URL.
        exclude: files and folders that are no recordings though they lie under the root: the metadata table, an output.

    Raises:
        ConfigError: the root is not a folder, or the output.
    """
    text = os.fspath(uri).removeprefix("file://")
    root = Path(text)
    if not root.is_dir():
        raise ConfigError(f"source.uri {text}: there is no such folder (looked for {root.absolute()})")
    if os.path.realpath(root) in map(os.path.realpath, exclude):
        raise ConfigError(
            f"source.uri {text}: is the output's folder as well; give the output one of its own, inside or not"
        )
    return LocalSource(root, tuple(Path(path) for path in exclude))


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A folder of this machine."""

    root: Path
    exclude: tuple[Path, ...] = ()
    _real_root: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_real_root", os.path.realpath(self.root))

    @property
    def uri(self) -> str:
        """The folder's name."""
        return str(self.root)

    def list(self) -> Iterator[Listing]:
        """See `Source.list`."""
        return _Walk(self._real_root, frozenset(os.path.realpath(path) for path in self.exclude)).chunks()

    def stamp(self, path: str) -> Stamp:
        """See `Source.stamp`."""
        status = os.stat(self._below(path))  # noqa: PTH116 - called per file: a Path costs more than the stat
        return Stamp(status.st_size, status.st_mtime_ns)

    def open(self, path: str) -> BinaryIO:
        """See `Source.open`. What was opened is checked, not what the name said before: links may be turned."""
        file = open(self._below(path), "rb")  # noqa: PTH123, SIM115 - as above; and the caller closes it
        real = _real_path(file)
        if not _is_inside(real, self._real_root):
            file.close()
            raise UnsafePathError(f"{path!r} leads to {_shown(real)}, outside the source root {self.root}")
        return file

    def _below(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise UnsafePathError(f"{path!r} leaves the source root {self.root}")
        return f"{self._real_root}/{path}"


class _Walk:
    """One walk over a folder tree: real folders first, then linked ones that nothing has reached yet."""

    def __init__(self, root: str, excluded: frozenset[str]) -> None:
        self._root = root
        self._excluded = excluded
        self._visited = {_identity(path) for path in excluded if Path(path).is_dir()}
        self._links: list[str] = []
        self._found = Listing()

    def chunks(self) -> Iterator[Listing]:
        yield from self._tree("")
        while self._links:
            # Sorted, so that which of two links to one folder is walked does not hang on the order of the disk.
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
                if entry.is_symlink():
                    self._add_link(entry.path, path)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.path not in self._excluded:
                        pending.append(f"{path}/")
                else:
                    self._add_file(entry, path)
                if len(self._found) >= _CHUNK_ROWS:
                    yield self._found
                    self._found = Listing()

    def _entries(self, prefix: str) -> Iterator[os.DirEntry[str]]:
        """What a folder holds, one by one: a folder may hold a million files."""
        folder = f"{self._root}/{prefix}"
        try:
            identity = _identity(folder)
            if identity in self._visited:
                return
            self._visited.add(identity)
            with os.scandir(folder) as entries:
                yield from (entry for entry in entries if entry.name[0] != ".")
        except FileNotFoundError:  # removed since its parent was read
            return
        except OSError as error:
            self._refuse(prefix.rstrip("/"), Reject.UNREADABLE, f"the folder cannot be read: {error.strerror}")

    def _add_file(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            self._refuse(path, Reject.UNREADABLE, f"cannot be read: {error.strerror}")
            return
        if entry.path not in self._excluded:
            self._add_status(path, status)

    def _add_link(self, full: str, path: str) -> None:
        target = os.path.realpath(full)
        if target in self._excluded:
            return
        if not _is_inside(target, self._root):
            reason = f"a symbolic link to {_shown(target)}, outside the source root; copy the file into the root"
            self._refuse(path, Reject.OUTSIDE_ROOT, reason)
            return
        try:
            status = Path(full).stat()
        except OSError as error:
            reason = f"a symbolic link to {_shown(target)}, which cannot be read: {error.strerror}"
            self._refuse(path, Reject.UNREADABLE, reason)
            return
        if stat.S_ISDIR(status.st_mode):
            self._links.append(path)
        else:
            self._add_status(path, status)

    def _add_status(self, path: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._refuse(path, Reject.UNREADABLE, "not a regular file but a pipe, socket or device")
        elif not _is_text(path):
            reason = "its name or a folder's name is not valid UTF-8; rename it"
            self._found.add(_shown(path), status.st_size, status.st_mtime_ns, Reject.BAD_NAME, reason)
        else:
            self._found.add(path, status.st_size, status.st_mtime_ns, None, None)

    def _refuse(self, path: str, code: Reject, reason: str) -> None:
        self._found.add(_shown(path), None, None, code, reason)


def _real_path(file: BinaryIO) -> str:
    """Where an open file lies. Linux says it in one call; walking the path in Python costs as much as a short read."""
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
    """Whether the name was UTF-8 on disk; Python stands in surrogates for other bytes, which no table can hold."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
