"""Reads and writes the mark of an export: a hidden file that lists the files that exports wrote to a folder.

Only these files may be replaced or removed by the next export to that folder.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.format.tars.tar_names import is_plain_tar
from headrace.format.versioned_json import json_bytes
from headrace.stores.storage import Storage

MARK = ".headrace-export.json"
_PARQUET = re.compile(r"data/[^/]+-\d{5}-of-\d{5}\.parquet")


class _Mark(BaseModel):
    """Files by name, each with its possible sizes in bytes: two while an export replaces the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    is_complete: bool = True
    files: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Owned:
    """The files of earlier exports in a folder, with the possible sizes of each.

    Attributes:
        files: the files.
        is_complete: False if a process that exported to a bucket was killed, so that files may be missing in the list.
            A file that is missing there and has the name of one that is exported now then counts as that export's.
    """

    files: Mapping[str, tuple[int, ...]]
    is_complete: bool = True

    def has(self, path: str, num_bytes: int) -> bool:
        """Whether a file was written by an export."""
        return num_bytes in self.files.get(path, ())


def holds_samples(path: str) -> bool:
    """Whether readers of an export take a file for one of it by its name: a tar, or a part of a split in Parquet."""
    return is_plain_tar(path) or _PARQUET.fullmatch(path) is not None


def owned_files(target: Storage) -> Owned:
    """The files of earlier exports in a folder.

    Raises:
        ConfigError: the folder holds files and no mark; or a mark, and files with samples that the mark does not list.
        FormatError: the mark cannot be read.
    """
    there = {entry.path: entry.num_bytes for entry in target.list()}
    tars = sorted(path for path in there if is_plain_tar(path))
    found = _read_mark(target)
    if found is None:
        if there:
            held = f"{len(tars)} tars ({tars[0]})" if tars else f"files ({min(there)})"
            raise ConfigError(
                f"{target.uri}: holds {held} and no mark of an export ({MARK}), so they may be somebody's files; "
                "export to an empty folder. If an export whose mark was deleted wrote them, remove the folder first: "
                "the data set keeps its shards"
            )
        return Owned({})
    foreign = [path for path in sorted(there) if holds_samples(path) and not found.has(path, there[path])]
    if found.is_complete and foreign:
        raise foreign_files(target, foreign)
    return found


def foreign_files(target: Storage, paths: list[str]) -> ConfigError:
    """The error about files that no export wrote."""
    return ConfigError(
        f"{target.uri}: {paths[0]} was not written by an export ({len(paths)} such files); move them away, or "
        "export to an empty folder"
    )


def write_mark(target: Storage, files: Mapping[str, Iterable[int]], *, is_complete: bool = True) -> None:
    """Write the mark, which lists the files of an export before the first of them is replaced."""
    sizes = {name: sorted(set(files[name])) for name in sorted(files)}
    target.write(MARK, json_bytes({"version": 1, "is_complete": is_complete, "files": sizes}))


def _read_mark(target: Storage) -> Owned | None:
    """The files that the mark lists; None without a mark."""
    try:
        found = _Mark.model_validate_json(target.read(MARK))
    except NotFoundError:
        return None
    except ValidationError as error:
        raise FormatError(f"{target.uri}/{MARK}: is not a mark of an export; export to an empty folder") from error
    return Owned(found.files, found.is_complete)
