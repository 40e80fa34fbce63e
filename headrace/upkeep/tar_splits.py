"""Decides the splits of tars of others, and their places in the list of a snapshot."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.format.snapshots.tar_lists import TarList
from headrace.stores.storage import Storage

_MOST_SPLITS = 32
_ALL = "all"
_SPLIT = re.compile(r"[A-Za-z-]+(?=[-_.]?\d|[-_.]|$)")


def _split_of(path: str) -> str:
    """The split of a tar: the beginning of its file name, or else the name of its folder.

    >>> [_split_of(path) for path in ("dev-clean-000.tar", "x/train_0001_of_0002.tar", "test/00000.tar", "00000.tar")]
    ['dev-clean', 'train', 'test', 'all']
    """
    *folders, file = path.rpartition(".")[0].split("/")
    for part in (file, *folders[-1:]):
        if match := _SPLIT.match(part):
            return match[0].strip("-") or _ALL
    return _ALL


def splits_of(tars: TarList, names: Iterable[str]) -> dict[str, str]:
    """Path of each tar → its split: where it is, or else by its name. Names of too many kinds are no splits."""
    by_name = {name: _split_of(name) for name in names}
    are_splits = len({*tars.paths, *by_name.values()}) <= _MOST_SPLITS
    there = {path: split for path, (split, _) in tars.places().items()}
    return {name: there.get(name, split if are_splits else _ALL) for name, split in by_name.items()}


def placed(tars: TarList, storage: Storage, splits: Mapping[str, str]) -> TarList:
    """The list of tars with new ones at the end of their splits, and without those that are gone."""
    paths = {
        split: [path if path in splits or (path and storage.exists(path)) else "" for path in listed]
        for split, listed in tars.paths.items()
    }
    there = {path for listed in paths.values() for path in listed}
    for name, split in splits.items():
        if name not in there:
            paths.setdefault(split, []).append(name)
    return replace(tars, paths={split: tuple(listed) for split, listed in sorted(paths.items())})
