"""Files that the tables of a corpus name: by an absolute path of this machine, or by the URL of an object."""

import functools
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from headrace.errors import ConfigError, StorageError
from headrace.locate.names import expand_braces
from headrace.sources.bucket_source import stamp_of
from headrace.sources.listing import FileStamp
from headrace.stores.file_urls import is_file_url, path_of_file_url
from headrace.stores.hub_requests import parsed_name
from headrace.stores.storage import Bucket, open_bucket

_SPECIAL = "*?["
_COMMA = re.compile(r",(?![^{\[(<]*[}\])>])")


def is_url(file: str) -> bool:
    """Whether a file is an object of a store."""
    return "://" in file


@functools.lru_cache(maxsize=32)
def _bucket(root: str) -> Bucket:
    return open_bucket(root)


def forget_commits() -> None:
    """Open repositories again at the commits that they have when an object of them is next asked for."""
    _bucket.cache_clear()


def object_of(url: str) -> tuple[Bucket, str]:
    """The store of an object, and its path there."""
    if url.startswith("hf://"):
        repository, path = parsed_name(url)
        return _bucket(repository.uri), path
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    return _bucket(f"{scheme}://{bucket}"), path


def absolute(uri: str) -> str:
    """A path as absolute one, without a slash at its end; URLs stay, but those of local files become paths."""
    if is_file_url(uri):
        uri = path_of_file_url(uri)
    return uri.rstrip("/") if is_url(uri) else os.path.abspath(uri)  # noqa: PTH100 - links stay as they are


def joined(folder: str, name: str) -> str:
    """The file that a table in a folder names: an absolute path, a URL, or a path relative to the folder.

    >>> joined("/data/a", "../b.wav"), joined("s3://bucket/a", "./b.wav"), joined("/data", "/b.wav")
    ('/data/b.wav', 's3://bucket/a/b.wav', '/b.wav')
    """
    if is_url(name):
        return name
    scheme, mark, rest = folder.rpartition("://")
    if name.startswith("/"):
        return os.path.normpath(name)
    return scheme + mark + posixpath.normpath(f"{rest}/{name}")


def relative(root: str, file: str) -> str:
    """The path of a file in a listing: relative to the root if the file is below it, else the file itself.

    >>> relative("/data", "/data/b.wav"), relative("/data", "/other/b.wav")
    ('b.wav', '/other/b.wav')
    """
    return file.removeprefix(f"{root}/")


def folder_of(file: str) -> str:
    """The folder of a file."""
    return file.rpartition("/")[0] or "/"


def base_of(folder: str, name: str) -> str | None:
    """The folder or the nearest one above it below which there is a file of this name; None if no folder has it.

    The tables of recipes name files relative to the folder in which the recipe was run.
    """
    folders = [folder, *(folder.rsplit("/", number)[0] or "/" for number in range(1, folder.count("/") + 1))]
    return next((base for base in folders if stamp_of_file(joined(base, name)) is not None), None)


def stamp_of_file(file: str) -> FileStamp | None:
    """The stamp of a file; None if there is no such file, or it is not a regular one."""
    try:
        if is_url(file):
            storage, path = object_of(file)
            return stamp_of(storage.stat(path))
        status = os.stat(file)  # noqa: PTH116 - per file: a Path costs more than the stat
    except (OSError, ValueError):
        return None
    return FileStamp.of(status) if stat.S_ISREG(status.st_mode) else None


def stamps_of_files(files: Sequence[str]) -> dict[str, FileStamp | None]:
    """The stamp of each file, as `stamp_of_file`. The folder of objects is listed once for all of them."""
    found = {file: None if is_url(file) else stamp_of_file(file) for file in files}
    for folder in {folder_of(file) for file in files if is_url(file)}:
        storage, path = object_of(folder)
        entries = (entry for page in storage.pages(f"{path}/") for entry in page)
        there = ((f"{folder}/{entry.path.removeprefix(f'{path}/')}", entry) for entry in entries)
        found |= {file: stamp_of(entry) for file, entry in there if file in found}
    return found


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """A block with a file of a corpus's own, seekable. Raises `OSError`."""
    if is_url(file):
        storage, path = object_of(file)
        with storage.open(path) as data:
            yield data
    else:
        with Path(file).open("rb") as data:
            yield data


def files_in(folder: str) -> list[str]:
    """The files directly in a folder, sorted by name, without hidden ones; none if there is no such folder."""
    if is_url(folder):
        storage, path = object_of(folder)
        found = (entry.path.removeprefix(f"{path}/") for entry in storage.list(f"{path}/"))
        return [f"{folder}/{name}" for name in found if "/" not in name]
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name[0] != "." and entry.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [f"{folder}/{name}" for name in sorted(names)]


def files_of(uri: str, extensions: tuple[str, ...]) -> list[str]:
    """The files that `source.uri` names, sorted within each part.

    Args:
        uri: a file, a folder, a glob, a brace pattern, or several of these with commas between them.
        extensions: of the files in a folder that are meant.

    Raises:
        ConfigError: there is no such file, or the folder has none of them.
    """
    whole = absolute(uri)
    if not is_url(whole) and Path(whole).exists():
        found = [whole] if Path(whole).is_file() else _with(files_in(whole), extensions)
    else:
        parts = (
            _expanded(whole)
            if is_one_pattern(whole)
            else [part for piece in pieces(uri) for part in expand_braces(absolute(piece))]
        )
        found = [file for part in parts for file in _matching(part, extensions)]
    if not found:
        raise _none(uri, extensions)
    return list(dict.fromkeys(found))


def pieces(uri: str) -> list[str]:
    """The parts of a text with commas between them; commas inside of brackets divide nothing.

    >>> pieces("a.json,b_{0,1}.json")
    ['a.json', 'b_{0,1}.json']
    """
    return [piece for piece in _COMMA.split(uri) if piece]


def is_one_pattern(whole: str) -> bool:
    """Whether an absolute path is one pattern, below a folder whose name may have any characters."""
    folder, _, last = whole.rpartition("/")
    return not is_url(whole) and len(pieces(last)) == 1 and Path(folder).is_dir()


def _expanded(whole: str) -> list[str]:
    """The paths that a pattern means whose folder is meant as it is written."""
    folder, _, last = whole.rpartition("/")
    return [f"{folder}/{name}" for name in expand_braces(last)]


def root_of(uri: str, files: Sequence[str]) -> str:
    """The folder to which paths in a listing are relative: `source.uri` if it is a folder, else that of all files."""
    folder = absolute(uri)
    if all(file.startswith(f"{folder}/") for file in files):
        return folder
    folders = [f"{folder_of(file)}/" for file in files]
    return os.path.commonprefix(folders).rpartition("/")[0]  # noqa: RUF071 - of URLs, too; cut at a slash


def _matching(part: str, extensions: tuple[str, ...]) -> list[str]:
    """The files that one part of a pattern means; a name without special characters means itself.

    Raises `ConfigError` for a name of nothing: one of many manifests that is missing must not be overlooked.
    """
    folder, _, last = part.rpartition("/")
    if any(character in last for character in _SPECIAL):
        return [file for file in files_in(folder) if fnmatchcase(file.rpartition("/")[2], last)]
    if stamp_of_file(part) is not None:
        return [part]
    if not (found := _with(files_in(part), extensions)):
        raise _none(part, extensions)
    return found


def _none(place: str, extensions: tuple[str, ...]) -> ConfigError:
    endings = ", ".join(extensions)
    return ConfigError(
        f"source.uri: {place}: there is no such file, and no file ending in {endings} directly in such a folder; name "
        f"the folder that has the files, or a pattern such as FOLDER/*{extensions[0]}"
    )


def _with(files: list[str], extensions: tuple[str, ...]) -> list[str]:
    return [file for file in files if file.endswith(extensions)]


def readable(file: str, error: OSError) -> ConfigError:
    """The error that a file of the corpus's own cannot be read."""
    why = str(error) if isinstance(error, StorageError) else error.strerror or error
    return ConfigError(f"{file}: cannot be read: {why}")
