"""Records of the files that a garbage collection (gc) is about to delete, so that no build starts to use them.

A gc writes a record into `condemned/`, reads again which files manifests and snapshots name, deletes the others, and
removes the record. A build names files first and then reads the records: condemned files count as deleted. So either
the gc sees that a file is named, or the build sees the record (docs/format.md).
"""

import contextlib
import fcntl
import os
import platform
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace.errors import FormatError, NotFoundError
from headrace.format.indexes.index import files_of_shard
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json
from headrace.stores.client_errors import translated_errors
from headrace.stores.exclusive_files import name_exclusively
from headrace.stores.refetch import read_sound
from headrace.stores.storage import TEMPORARY_SUFFIX, Storage

_FOLDER = "condemned/"
_FORMAT_KEY = "headrace_condemned"
_KERNEL = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Condemnation:
    """A record of one gc.

    Attributes:
        path: the file of the record.
        modified_seconds: when it was written, Unix time.
        paths: files that this gc may delete.
        is_dead: whether this gc has certainly ended without removing the record, so that it deletes nothing more.
    """

    path: str
    modified_seconds: float
    paths: frozenset[str]
    is_dead: bool


@contextlib.contextmanager
def condemned(storage: Storage, paths: Iterable[str]) -> Iterator[None]:
    """A block in which files are on record. If it fails, the record remains: deletions may still be under way."""
    record = f"{_FOLDER}{secrets.token_hex(8)}.json"
    about = {"host": platform.node(), "kernel": _kernel(), "process": os.getpid()}
    local = storage.local_path(record)
    if local is None:
        storage.create(record, _content(paths, **about, is_locked=False))
        yield
    else:
        with contextlib.ExitStack() as stack:
            with translated_errors(record, storage.uri):
                stack.enter_context(_locked(local, lambda is_locked: _content(paths, **about, is_locked=is_locked)))
            yield
    storage.delete(record)


def condemnations(storage: Storage) -> list[Condemnation]:
    """All records in a shard folder.

    Raises:
        FormatError: a record is damaged.
    """
    found = []
    for entry in storage.list(_FOLDER):
        try:
            content = read_sound(storage, entry.path, _parsed)
        except NotFoundError:  # removed since it was listed: its files are deleted, or stay
            continue
        try:
            paths = typed(list[str], content.get("paths"))
        except ValueError as error:
            raise FormatError(
                f"{entry.path}: a record without a list of paths ({error}); delete it when no gc is running"
            ) from error
        is_ours = bool(content.get("is_locked")) and content.get("kernel") == _kernel()
        is_dead = is_ours and _is_free(storage.local_path(entry.path))
        found.append(Condemnation(entry.path, entry.modified_seconds, frozenset(paths), is_dead))
    return found


def condemned_paths(storage: Storage) -> frozenset[str]:
    """Every file that a gc may delete at any time, even if the file does not exist yet or is written again.

    Raises:
        FormatError: a record is damaged.
    """
    return frozenset().union(*(record.paths for record in condemnations(storage) if not record.is_dead))


def _parsed(blob: bytes, name: str) -> dict[str, Any]:
    return versioned_json(blob, name, _FORMAT_KEY)


def lasting_sizes(storage: Storage, prefix: str = "") -> dict[str, int]:
    """Size in bytes of each file whose path begins with `prefix`, without files that a gc may delete.

    Files that a committed or proposed manifest named before this call stay: no gc that is running deletes them.
    """
    doomed = condemned_paths(
        storage
    )  # before the listing: the files of a record that is removed later are gone by then
    return {entry.path: entry.num_bytes for entry in storage.list(prefix) if entry.path not in doomed}


def is_condemned(shard: str, doomed: frozenset[str]) -> bool:
    """Whether a file of a shard is on record."""
    return any(path in doomed for path in files_of_shard(shard))


def _content(paths: Iterable[str], **about: object) -> bytes:
    return versioned_bytes(_FORMAT_KEY, {**about, "paths": list(paths)})


@contextlib.contextmanager
def _locked(record: Path, content: Callable[[bool], bytes]) -> Iterator[None]:
    """A record in a local folder, locked from its creation until its writer ends, however it ends."""
    record.parent.mkdir(parents=True, exist_ok=True)
    temporary = record.with_name(f".{record.name}{TEMPORARY_SUFFIX}")
    with temporary.open("xb") as file:
        try:
            file.write(content(_lock(file)))
            file.flush()
            name_exclusively(temporary, record)
        finally:
            temporary.unlink(missing_ok=True)
        yield


def _lock(file: BinaryIO) -> bool:
    """Lock a file for as long as it is open; False if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _is_free(record: Path | None) -> bool:
    """Whether no process holds the lock of a record."""
    if record is None:
        return False
    try:
        with record.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # held, removed since, or the file system has no locks
        return False
    return True


def _kernel() -> str:
    """Id of the running kernel: processes with the same id see each other's locks."""
    try:
        return _KERNEL.read_text().strip()
    except OSError:
        return platform.node()
