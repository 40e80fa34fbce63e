"""Keeps small tables in the cache folder that follow from the data alone and are costly to make again.

All ranks of a host, all epochs and all later runs read a file that one process has made.
"""

import contextlib
import hashlib
import json
import logging
import mmap
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from headrace.errors import FormatError
from headrace.format import tables
from headrace.streaming.concurrency.host_lock import locked

_log = logging.getLogger(__name__)

T = TypeVar("T")
Table = tuple[dict[str, NDArray[Any]], dict[str, str]]
"""Arrays and metadata, as `tables.pack` takes them."""


def kept_path(folder: Path, kind: str, *origin: object) -> Path:
    """Path of a table: in the folder of its kind, named by a digest of what it follows from (values of JSON)."""
    return folder / kind / f"{hashlib.sha256(json.dumps(origin).encode()).hexdigest()[:32]}.{kind}"


def kept(path: Path, parse: Callable[[Table], T | None], make: Callable[[], Table]) -> T:
    """The result of `parse` for the kept table, or for a new one if the file is absent, damaged, or does not fit.

    Args:
        path: path of the table.
        parse: None for a table that does not fit. Processes share the memory of the arrays.
        make: makes the table, while other processes of the host wait.
    """
    if (found := _read(path, parse)) is not None:
        return found
    with locked(path):
        if (found := _read(path, parse)) is not None:
            return found
        table = make()
        _keep(path, table)
    made = parse(table)
    assert made is not None
    return made


def changed_lengths(shard: str, place: Path) -> FormatError:
    """The error for a shard whose index has other lengths than those that were counted, and are kept in `place`."""
    return FormatError(
        f"{shard}: the lengths in its index are not those that were counted: the shard or its index has changed since; "
        f"start again after removing {place}"
    )


def _keep(path: Path, table: Table) -> None:
    """Write a table for other processes; a failure is not an error, since this process has it."""
    blob = tables.pack(*table)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        for left in path.parent.glob(f".{path.name}.*"):  # of processes that were killed: this one holds the lock
            left.unlink(missing_ok=True)
    try:
        temporary.write_bytes(blob)
        temporary.rename(path)
    except OSError as error:
        _log.warning("%s: %s: what was counted is not kept, and is counted again in each run", path, error.strerror)
        with contextlib.suppress(OSError):
            temporary.unlink()


def _read(path: Path, parse: Callable[[Table], T | None]) -> T | None:
    try:
        with path.open("rb") as file:
            blob = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return parse(tables.unpack(blob, str(path)))
    except (OSError, FormatError, KeyError, ValueError):  # absent, incomplete or damaged
        return None
