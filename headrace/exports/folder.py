"""Defines `ExportFolder`, which keeps the files of an export out of sight until the export is complete."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self, TypeVar, cast

from headrace.errors import ConfigError
from headrace.exports.mark import foreign_files, holds_samples, owned_files
from headrace.format.export_mark import MARK, Owned, write_mark
from headrace.format.indexes.index_files import is_index_file, other_name
from headrace.format.tars.tar_names import TAR_SUFFIX
from headrace.stores.client_errors import translated_errors
from headrace.stores.storage import Content, Storage

_STAGE = ".headrace-export"
_IN_MEMORY_BYTES = 8 << 20
T = TypeVar("T")


class ExportFolder:
    """The target of an export.

    In a local folder, files are staged in a hidden folder, and `publish` moves them into place in the order in which
    they were written. A bucket cannot rename: there each file is in place at once, and the exporter writes last what
    readers look for first. The mark lists all files, so an export that was interrupted anywhere can be repeated.
    """

    def __init__(self, target: Storage) -> None:
        """Compare the target with its mark.

        Raises:
            ConfigError, FormatError: see `owned_files`.
        """
        self.uri = target.uri
        self._target = target
        self._owned: Owned = owned_files(target)
        self._is_staged = target.local_path(_STAGE) is not None
        self._stage = target.at(_STAGE) if self._is_staged else target
        self._sizes: dict[str, int] = {}
        self._edited: set[str] = set()
        self._opened = contextlib.ExitStack()
        self._is_published = False
        self._begun: set[str] = set()  # folders whose mark says that files may be missing

    def __enter__(self) -> Self:
        """Begin to write. Raises `ConfigError` if another process of this host exports to the folder."""
        if (stage := self._target.local_path(_STAGE)) is not None:
            with contextlib.ExitStack() as lock:
                lock.enter_context(_alone(stage.parent))
                self._owned = owned_files(self._target)  # which another export may have changed until now
                self._opened.push(lock.pop_all())
        self._drop_stage()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close scratch files, and drop what was not published; in a bucket, note what was written."""
        self._drop_stage()
        self._opened.close()
        if self._begun and not self._is_staged and not self._is_published:
            write_mark(self._target, self._both(), is_complete=False)

    def write(self, path: str, data: Content) -> None:
        """Write a file. Raises `ConfigError` if it is in place at once and would replace somebody's file."""
        where = path if self._is_staged else self._destination(path)
        if not self._is_staged:
            self._begin([where])
        self._stage.write(where, data)
        self._sizes[where] = self._stage.size(where)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a file that users edit: an edited one stays as it is."""
        if not self._target.exists(path) or self._owned.has(path, self._target.size(path)):
            self.write(path, data)

    def former(self, path: str) -> bytes | None:
        """A file of an earlier export, as it is now; None without one."""
        return self._target.read(path) if path in self._owned.files and self._target.exists(path) else None

    def write_edited(self, path: str, data: bytes) -> None:
        """Write a file that users edit and that `former` gave: an edited one is replaced."""
        if path in self._owned.files:
            self._edited.add(path)
        self.write(path, data)

    def link(self, path: str, source: Storage, name: str) -> bool:
        """Hard-link a file, or copy it where that is not possible. Returns whether it is a hard link."""
        source.size(name)  # raises an error with its name if it is gone
        if self._is_staged and self._is_linked(path, source, name):
            self._sizes[path] = self._stage.size(path)
            return True
        with source.open(name) as file:
            self.write(path, file)
        return False

    def until_end(self, context: contextlib.AbstractContextManager[T]) -> T:
        """Enter a context that is left at the end of the export at the latest, such as that of an open file."""
        return self._opened.enter_context(context)

    def scratch(self) -> BinaryIO:
        """A temporary file, in memory while it is small."""
        return cast("BinaryIO", self.until_end(tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)))

    def open(self, path: str) -> BinaryIO:
        """A file that was written, for reading."""
        return self._stage.open(path)

    def publish(self) -> int:
        """Make all files visible, and remove those of earlier exports. Returns how many of these had samples.

        Raises:
            ConfigError: a file that no export wrote has the name of a new one. Nothing is changed then.
        """
        moves = {self._destination(path) if self._is_staged else path: path for path in self._sizes}
        self._sizes = {name: self._sizes[path] for name, path in moves.items()}
        self._check_leftovers()
        if self._is_staged:
            self._begin(self._both())
            for name, path in moves.items():
                self._move(path, name)
        num_removed = sum([self._remove(name) for name in sorted(self._owned.files.keys() - self._sizes.keys())])
        for folder in sorted((self._begun | _folders(self._both())) - {""}):
            self._target.at(folder).delete(MARK)
            self._drop_empty_folders(f"{folder}/{MARK}")
        write_mark(self._target, {name: (size,) for name, size in self._sizes.items()}, is_complete=True)
        self._is_published = True
        return num_removed

    def _begin(self, paths: Iterable[str]) -> None:
        """Mark the target, and the folders of these files in it, as incomplete: readers open either."""
        for folder in sorted(({""} | _folders(paths)) - self._begun):
            self._begun.add(folder)
            if folder:
                write_mark(self._target.at(folder), {}, is_complete=False)
            else:
                write_mark(self._target, self._both(), is_complete=False, lists_all=self._is_staged)

    def _both(self) -> dict[str, tuple[int, ...]]:
        """Files of earlier exports and of this one, each with its possible sizes."""
        own = {name: (size,) for name, size in self._sizes.items()}
        files = self._owned.files
        return {name: (*files.get(name, ()), *own.get(name, ())) for name in {**files, **own}}

    def _destination(self, path: str) -> str:
        """The name of a file in the target: another one for an index whose name is taken by another tool's file."""
        is_ours = not self._target.exists(path) or self._owned.has(path, self._target.size(path))
        if is_ours or path in self._edited:
            return path
        tar = path.removesuffix(".idx") + TAR_SUFFIX
        if path.endswith(".idx") and tar in self._owned.files:
            return path if is_index_file(self._target, path) else other_name(tar)
        if self._owned.lists_all:
            raise foreign_files(self._target, [path])
        return path

    def _check_leftovers(self) -> None:
        """Raise for files with samples, neither of this export nor of an earlier one that was completed."""
        if self._owned.lists_all:
            return
        known = self._sizes.keys() | self._owned.files.keys()
        if left := [
            entry.path for entry in self._target.list() if holds_samples(entry.path) and entry.path not in known
        ]:
            raise ConfigError(
                f"{self.uri}: {left[0]} was left by an export that was interrupted, or is somebody's file "
                f"({len(left)} such files); delete them, and export again"
            )

    def _is_linked(self, path: str, source: Storage, name: str) -> bool:
        """Hard-link a file if both places are on one local disk. Returns whether that was possible."""
        original, link = source.local_path(name), self._stage.local_path(path)
        if original is None or link is None:
            return False
        with translated_errors(path, self.uri):
            return _link(original, link)

    def _move(self, path: str, name: str) -> None:
        source, target = self._stage.local_path(path), self._target.local_path(name)
        assert source is not None
        assert target is not None
        with translated_errors(name, self.uri):
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)

    def _remove(self, name: str) -> bool:
        """Remove a file of an earlier export. Returns whether it had samples; a changed file stays."""
        if not self._target.exists(name) or not self._owned.has(name, self._target.size(name)):
            return False
        self._target.delete(name)
        self._drop_empty_folders(name)
        return holds_samples(name)

    def _drop_empty_folders(self, name: str) -> None:
        """Remove the local folders above a removed file that hold nothing else."""
        for folder in [str(parent) for parent in PurePosixPath(name).parents][:-1]:
            if (path := self._target.local_path(folder)) is not None:
                with contextlib.suppress(OSError):
                    path.rmdir()

    def _drop_stage(self) -> None:
        if (folder := self._target.local_path(_STAGE)) is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _folders(paths: Iterable[str]) -> set[str]:
    """The folders of tars below the target."""
    return {path.rpartition("/")[0] for path in paths if path.endswith(TAR_SUFFIX)}


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A block that one export to a folder at a time is in, on this host; a kill ends it."""
    with translated_errors(".", str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another export to this folder is running; wait for its end") from None
        except OSError:  # a network share that cannot lock a folder
            pass
        yield
    finally:
        os.close(descriptor)


def _link(source: Path, target: Path) -> bool:
    """Make a hard link. Returns whether the disk could do it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or a file system without hard links
        return False
    return True
