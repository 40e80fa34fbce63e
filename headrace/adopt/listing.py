"""`FileList`: the names below a path, and the beginnings of a few of these files. `Layout`: what was recognised."""

import functools
import os
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.audio_names import AUDIO_EXTENSIONS
from headrace.errors import ConfigError, IntegrityError
from headrace.format.tars.unpacking import unpacked_stream
from headrace.path_patterns import ignoring

_MOST_FILES = 1_000_000
_HEAD_BYTES = 256 << 10
_MOST_MEMBERS = 60
_AUDIO = frozenset((*AUDIO_EXTENSIONS, "oga", "sph"))
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\0", b"PK\x03\x04")  # gzip, zstd, bzip2, xz, zip
AUDIO_PATTERNS = tuple(f"*.{extension}" for extension in sorted(_AUDIO))

FIELDS_GUIDE = "docs/corpora.md, Audio fields"


@dataclass(frozen=True)
class FileList:
    """Files below a folder.

    Attributes:
        path: what the user named: a folder, or one file.
        root: the folder.
        names: paths relative to the root, sorted; hidden files are left out.
        is_whole: whether these are all files.
        table: the file that the user named as the table of the recordings; empty if any file may be one.
    """

    path: Path
    root: Path
    names: tuple[str, ...]
    is_whole: bool = True
    table: str = ""

    @functools.cached_property
    def audio(self) -> tuple[str, ...]:
        """The recordings, by their extensions."""
        return tuple(name for name in self.names if name.rpartition(".")[2].lower() in _AUDIO)

    @functools.cached_property
    def by_stem(self) -> dict[str, str]:
        """Recording without its extension, and with it → the recording."""
        return {key: name for name in self.audio for key in (name.rpartition(".")[0], name)}

    @functools.cached_property
    def by_end(self) -> dict[str, list[str]]:
        """Last part of a key of `by_stem` → these keys."""
        found: dict[str, list[str]] = {}
        for key in self.by_stem:
            found.setdefault(key.rpartition("/")[2], []).append(key)
        return found

    def sidecar_extension(self, name: str) -> str:
        """The extension of a file beside a recording of its name, such as `normalized.txt`; empty for another file."""
        folder, slash, last = name.rpartition("/")
        dots = (at for at, character in enumerate(last) if character == ".")
        return next((last[at + 1 :] for at in dots if f"{folder}{slash}{last[:at]}" in self.by_stem), "")

    @functools.cached_property
    def others(self) -> tuple[str, ...]:
        """Files that are neither recordings nor beside a recording of their name."""
        audio = frozenset(self.audio)
        return tuple(name for name in self.names if name not in audio and not self.sidecar_extension(name))

    @property
    def tables(self) -> tuple[str, ...]:
        """Files that may be tables of the recordings: the one that the user named, or `others`."""
        return (self.table,) if self.table else self.others

    def rows(self, name: str, most: int) -> list[dict[str, Any]]:
        """The first rows of a Parquet file, without nulls; none of a file that cannot be read."""
        import polars as pl  # noqa: PLC0415 - not for other layouts

        if not self.is_file(name):
            return []
        try:
            found = pl.scan_parquet(self.root / name, glob=False).head(most).collect()
        except (OSError, pl.exceptions.PolarsError):
            return []
        return [{key: cell for key, cell in row.items() if cell is not None} for row in found.iter_rows(named=True)]

    def lines(self, name: str) -> list[str]:
        """The first lines of a file that are not blank; none of a file that cannot be read or is not text."""
        if not self.is_file(name):
            return []
        try:
            with (self.root / name).open("rb") as raw:
                stream = unpacked_stream(raw, name) if name.endswith((".gz", ".zst")) else raw
                data = stream.read(_HEAD_BYTES)
            lines = data.decode("utf-8-sig").splitlines() if len(data) < _HEAD_BYTES else _whole_lines(data)
        except (OSError, IntegrityError, UnicodeDecodeError):
            return []
        return [line for line in lines if line.strip()]

    def members(self, name: str) -> list[str]:
        """The names of the first members of a tar; none of a damaged one."""
        if not self.is_file(name):
            return []
        with suppress(OSError, tarfile.TarError), tarfile.open(self.root / name, "r:") as tar:
            return [member.name for member in islice(tar, _MOST_MEMBERS)]
        return []

    def is_compressed(self, name: str) -> bool:
        """Whether a file is a compressed tar, or another archive, whatever its name says."""
        with suppress(OSError):
            if self.is_file(name):
                with (self.root / name).open("rb") as file:
                    return file.read(6).startswith(_COMPRESSED)
        return False

    def is_file(self, name: str) -> bool:
        """Whether it is a regular file: a pipe would never end."""
        return (self.root / name).is_file()


def _whole_lines(data: bytes) -> list[str]:
    return data[: data.rfind(b"\n") + 1].decode("utf-8-sig").splitlines()


def listed(path: Path) -> FileList:
    """The files below a folder, or one file. Raises `ConfigError` if there is nothing of this name."""
    if path.is_file():
        return FileList(path, path.parent, (path.name,))
    if not path.is_dir():
        raise ConfigError(f"{path}: there is no such file or folder")
    names = list(islice(_below(path), _MOST_FILES + 1))
    return FileList(path, path, tuple(sorted(names[:_MOST_FILES])), len(names) <= _MOST_FILES)


def beside_table(path: Path) -> FileList:
    """The files of a table's folder, of which no other is taken for a table."""
    return replace(listed(path.parent), table=path.name)


def _below(path: Path) -> Iterator[str]:
    """Paths of files, as a listing of the source spells them."""
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        place = os.path.relpath(folder, path)
        found = (name if place == "." else f"{place}/{name}" for name in files if not name.startswith("."))
        yield from (os.fsencode(name).decode("utf-8", "backslashreplace") for name in found)


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout, and the section `source` that reads it.

    Attributes:
        name: of the layout, for people.
        source: keys of the section `source`; without `uri`, that is the path itself.
        used: patterns of the files that the section reads, as in `source.ignore`.
        notes: sentences about what was understood.
        examples: paths below `uri` of recordings for the samples; empty for the first.
        group_by: a column whose values should not cross splits.
    """

    name: str
    source: Mapping[str, Any]
    used: tuple[str, ...]
    notes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    group_by: str = ""

    def with_sidecars(self, beside: "Layout | None") -> "Layout":
        """The layout, with the sidecars of another one."""
        if beside is None or "uri" in self.source:
            return self
        return replace(self, source={**self.source, **beside.source}, used=(*self.used, *beside.used))

    def without_sidecars(self, reason: str) -> "Layout":
        """The layout without its sidecars, with a note that says why."""
        ends = self.source["sidecars"]
        note = f"not read: the files *.{', *.'.join(ends)} beside recordings: {reason}"
        chosen = {name: value for name, value in self.source.items() if name != "sidecars"}
        used = tuple(pattern for pattern in self.used if pattern.removeprefix("*.") not in ends)
        return replace(self, source=chosen, used=used, notes=(*self.notes, note))

    def unused(self, files: FileList) -> list[str]:
        """The files that the section does not read."""
        is_used = ignoring(self.used)
        alone = frozenset(files.others).difference(self.used) if "sidecars" in self.source else frozenset[str]()
        return [name for name in files.names if name in alone or not (is_used(name) or is_used(name.lower()))]


def extensions_of(names: Iterable[str]) -> dict[str, int]:
    """Number of files by extension, the most frequent first; files without one are counted under their names."""
    last = (name.rpartition("/")[2] for name in names)
    return dict(Counter(f"*.{one.rpartition('.')[2]}" if "." in one else one for one in last).most_common())


def counts_said(counts: Mapping[str, int]) -> str:
    """The result of `extensions_of`, for people."""
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no files"
