"""Distinguishes the files of earlier exports in a folder from those of others, by the mark."""

import re

from headrace.errors import ConfigError
from headrace.format.export_mark import MARK, Owned, read_mark
from headrace.format.tars.tar_names import is_plain_tar
from headrace.stores.storage import Storage

_PARQUET = re.compile(r"data/[^/]+-\d{5}-of-\d{5}\.parquet")


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
    found = read_mark(target)
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
    if found.lists_all and foreign:
        raise foreign_files(target, foreign)
    return found


def foreign_files(target: Storage, paths: list[str]) -> ConfigError:
    """The error about files that no export wrote."""
    return ConfigError(
        f"{target.uri}: {paths[0]} was not written by an export ({len(paths)} such files); move them away, or "
        "export to an empty folder"
    )
