"""The mark that an export leaves in its folder: which tars there are its own, to replace or to remove.

Owns the hidden file and the verdict on a folder that is to be exported to. It places and removes nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.index import index_name
from headrace.manifests import json_bytes
from headrace.storage import Storage

MARK = ".headrace-export.json"


class _Mark(BaseModel):
    """Tars by name, each with the sizes in bytes that it may have: two while an export is replacing it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    tars: dict[str, tuple[int, ...]]


def own_tars(target: Storage, wanted: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The tars that former exports left in a folder, or meant to when they were cut off, with the sizes of each.

    Args:
        target: the folder.
        wanted: tars that are to be written now.

    Raises:
        ConfigError: the folder holds what no export wrote: anything, where it has no mark; other tars, changed ones, or
            an index in the place of a wanted one, where it has.
        FormatError: the mark cannot be read.
    """
    marked = _read_mark(target)
    there = {entry.path: entry.num_bytes for entry in target.list()}
    tars = sorted(path for path in there if path.endswith(".tar"))
    if marked is None:
        if there:
            held = f"{len(tars)} tars ({tars[0]})" if tars else f"files ({min(there)})"
            raise ConfigError(
                f"{target.uri}: holds {held} and no mark of an export ({MARK}), so they may be somebody's own; export "
                "to an empty folder. Exports of older versions have no mark: remove that folder first, the data set "
                "keeps its shards"
            )
        return {}
    foreign = [path for path in tars if there[path] not in marked.get(path, ())]
    foreign += sorted(index_name(name) for name in wanted if name not in marked and index_name(name) in there)
    if foreign:
        raise ConfigError(
            f"{target.uri}: {foreign[0]} is not what an export wrote there ({len(foreign)} such files); move them "
            "away, or export to an empty folder"
        )
    return marked


def write_mark(target: Storage, tars: Mapping[str, Iterable[int]]) -> None:
    """Say which tars are an export's own, before any of them is written."""
    target.write(MARK, json_bytes({"version": 1, "tars": {name: sorted(set(tars[name])) for name in sorted(tars)}}))


def _read_mark(target: Storage) -> dict[str, tuple[int, ...]] | None:
    """What the mark says; None without one."""
    try:
        return _Mark.model_validate_json(target.read(MARK)).tars
    except NotFoundError:
        return None
    except ValidationError as error:
        raise FormatError(
            f"{target.uri}/{MARK}: is no mark of an export of this version; export to an empty folder"
        ) from error
