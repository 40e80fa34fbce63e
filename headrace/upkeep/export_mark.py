"""Reads and writes the mark of an export: a hidden file that lists the tars that exports wrote to a folder.

Only these tars may be replaced or removed by the next export to that folder.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.format.indexes.index import index_name
from headrace.format.tars.tar_names import is_plain_tar
from headrace.format.versioned_json import json_bytes
from headrace.stores.storage import Storage

MARK = ".headrace-export.json"


class _Mark(BaseModel):
    """Tars by name, each with its possible sizes in bytes: two while an export replaces the tar."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    tars: dict[str, tuple[int, ...]]


def own_tars(target: Storage, wanted: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The tars of earlier exports in a folder, with the sizes of each; of an interrupted export all that it planned.

    Args:
        target: the folder.
        wanted: tars that are to be written now.

    Raises:
        ConfigError: the folder holds files and no mark; or it holds a mark, and tars that the mark does not list,
            changed tars, or an index with the name of a wanted one.
        FormatError: the mark cannot be read.
    """
    marked = _read_mark(target)
    there = {entry.path: entry.num_bytes for entry in target.list()}
    tars = sorted(path for path in there if is_plain_tar(path))
    if marked is None:
        if there:
            held = f"{len(tars)} tars ({tars[0]})" if tars else f"files ({min(there)})"
            raise ConfigError(
                f"{target.uri}: holds {held} and no mark of an export ({MARK}), so they may be somebody's files; "
                "export to an empty folder. If an export whose mark was deleted wrote them, remove the folder first: "
                "the data set keeps its shards"
            )
        return {}
    foreign = [path for path in tars if there[path] not in marked.get(path, ())]
    foreign += sorted(index_name(name) for name in wanted if name not in marked and index_name(name) in there)
    if foreign:
        raise ConfigError(
            f"{target.uri}: {foreign[0]} was not written by an export ({len(foreign)} such files); move them away, or "
            "export to an empty folder"
        )
    return marked


def write_mark(target: Storage, tars: Mapping[str, Iterable[int]]) -> None:
    """Write the mark, which lists the tars of an export before the first of them is written."""
    target.write(MARK, json_bytes({"version": 1, "tars": {name: sorted(set(tars[name])) for name in sorted(tars)}}))


def _read_mark(target: Storage) -> dict[str, tuple[int, ...]] | None:
    """The tars that the mark lists; None without a mark."""
    try:
        return _Mark.model_validate_json(target.read(MARK)).tars
    except NotFoundError:
        return None
    except ValidationError as error:
        raise FormatError(f"{target.uri}/{MARK}: is not a mark of an export; export to an empty folder") from error
