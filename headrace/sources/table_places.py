"""Finds the files of the user's metadata table: those that paths and glob patterns of `source.metadata` name."""

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.path_patterns import has_pattern, path_pattern
from headrace.stores.storage import is_hidden, open_bucket


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The place of a file of a table.

    Attributes:
        name: the file's name as the YAML has it; for a pattern, with the names that it matches.
        place: absolute path, or URL of a bucket's object.
    """

    name: str
    place: str


def table_places(
    names: Sequence[str], resolve: Callable[[str], str], source: str, output: str
) -> tuple[TablePlace, ...]:
    """The files that paths and glob patterns name, each once, in the order of their paths.

    A relative path is looked for below the root, then below the source. A name that nothing is found for is there
    too, with the place where it was expected first. Files of the output are left out of what patterns find.

    Args:
        names: paths, URLs and patterns.
        resolve: returns the absolute path, or the URL, of a name.
        source: absolute path, or URL, of the recordings.
        output: absolute path, or URL, of the output.
    """
    found = {one.place: one for name in names for one in _places(name, resolve, source, output)}
    return tuple(sorted(found.values(), key=lambda one: one.place))


def _places(name: str, resolve: Callable[[str], str], source: str, output: str) -> list[TablePlace]:
    first = resolve(name)
    is_relative = "://" not in name and not name.startswith(("/", "~"))
    folders = (resolve("."), source) if is_relative else ("",)
    for folder in folders:
        there = _found(name if folder else first, folder, output)
        if there:
            return [TablePlace(one if is_relative else _as_written(name, place), place) for one, place in there]
    return [TablePlace(name, first)]


def _as_written(name: str, place: str) -> str:
    return place if has_pattern(name) else name


def _found(name: str, folder: str, output: str) -> list[tuple[str, str]]:
    """Names below a folder, or whole paths without one, and their places."""
    path = os.path.join(folder, name)  # noqa: PTH118 - also of URLs
    if "://" in path:
        return _objects(name, path, output) if has_pattern(name) else [(name, path)]
    if os.path.lexists(path) or not has_pattern(name):
        return [(name, path)] if os.path.lexists(path) else []
    names = glob.glob(name, root_dir=folder or None, recursive=True)  # noqa: PTH207 - of text, relative to a folder
    pairs = [(one, os.path.join(folder, one)) for one in names]  # noqa: PTH118 - as above
    return [pair for pair in pairs if os.path.isfile(pair[1]) and not _is_below(pair[1], output)]  # noqa: PTH113 - text


def _objects(name: str, url: str, output: str) -> list[tuple[str, str]]:
    """The objects of a bucket that a pattern matches; hidden ones only if a name in the pattern begins with a dot."""
    plain = next(number for number, part in enumerate(url.split("/")) if has_pattern(part))
    root = "/".join(url.split("/")[:plain])
    below, before = url[len(root) + 1 :], name[: len(name) - len(url) + len(root) + 1]
    pattern = path_pattern(below)
    found = {entry.path for page in open_bucket(root).pages() for entry in page if pattern.fullmatch(entry.path)}
    paths = [path for path in sorted(found) if is_hidden(below) or not is_hidden(path)]
    return [(before + path, f"{root}/{path}") for path in paths if not _is_below(f"{root}/{path}", output)]


def _is_below(place: str, folder: str) -> bool:
    return place.startswith(folder.rstrip("/") + "/")
