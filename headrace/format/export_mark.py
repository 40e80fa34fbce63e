"""Reads and writes the mark of an export: a hidden file that lists the files that exports wrote to a folder.

Only these files may be replaced or removed by the next export to that folder. While some of them may be missing, the
mark says so, and the folder is not read.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.errors import FormatError, NoShardsError, NotFoundError, StorageError
from headrace.format.versioned_json import json_bytes
from headrace.stores.storage import Storage

MARK = ".headrace-export.json"


class _Mark(BaseModel):
    """Files by name, each with its possible sizes in bytes: two while an export replaces the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    is_complete: bool = True
    lists_all: bool | None = None  # None: as `is_complete`, which said this alone in the first marks
    files: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Owned:
    """The files of earlier exports in a folder, with the possible sizes of each.

    Attributes:
        files: the files.
        is_complete: False while an export changes the folder, and after one that was interrupted meanwhile.
        lists_all: False if a process that exported to a bucket was killed, so that files may be missing in the list.
            A file that is missing there and has the name of one that is exported now then counts as that export's.
    """

    files: Mapping[str, tuple[int, ...]]
    is_complete: bool = True
    lists_all: bool = True

    def has(self, path: str, num_bytes: int) -> bool:
        """Whether a file was written by an export."""
        return num_bytes in self.files.get(path, ())


def write_mark(
    target: Storage, files: Mapping[str, Iterable[int]], *, is_complete: bool, lists_all: bool = True
) -> None:
    """Write the mark, which lists the files of an export before the first of them is replaced."""
    sizes = {name: sorted(set(files[name])) for name in sorted(files)}
    target.write(MARK, json_bytes({"version": 1, "is_complete": is_complete, "lists_all": lists_all, "files": sizes}))


def read_mark(target: Storage) -> Owned | None:
    """The files that the mark lists; None without a mark.

    Raises:
        FormatError: the mark cannot be read.
    """
    try:
        found = _Mark.model_validate_json(target.read(MARK))
    except NotFoundError:
        return None
    except ValidationError as error:
        raise FormatError(f"{target.uri}/{MARK}: is not a mark of an export; export to an empty folder") from error
    lists_all = found.is_complete if found.lists_all is None else found.lists_all
    return Owned(found.files, found.is_complete, lists_all)


def check_exported(folder: Storage) -> None:
    """Raise `NoShardsError` if an export has not written all of a folder. Marks that cannot be read are ignored."""
    found = None
    with contextlib.suppress(FormatError, StorageError):
        found = read_mark(folder)
    if found is not None and not found.is_complete:
        raise NoShardsError(
            f"{folder.uri}: an export to this folder is running or was interrupted, so files may be missing or old; "
            f"wait for its end, or export again (or delete {MARK} there if you know that all are right)"
        )
