"""`recognise`: the layout of the files below a path, by the first recogniser that knows it."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from headrace.adopt import corpora, folders, tables
from headrace.adopt.listing import FileList, Layout, beside_table, counts_said, extensions_of, listed
from headrace.errors import ConfigError
from headrace.format.other_formats import index_path, recognised
from headrace.format.tars.tar_names import is_plain_tar

Recogniser: TypeAlias = Callable[[FileList], Layout | None]
_TABLES: tuple[Recogniser, ...] = (tables.librispeech, tables.raven, tables.audiofolder, tables.any_table)
RECOGNISERS: tuple[Recogniser, ...] = (
    corpora.output,
    corpora.kaldi,
    corpora.nemo_tarred,
    corpora.nemo,
    corpora.lhotse,
    corpora.parquet,
    corpora.webdataset,
    *_TABLES,
    folders.sidecars,
    folders.labels,
    folders.plain,
    corpora.tfrecord,
)
"""The most specific first. Each takes the names of files and the beginnings of a few of them."""
_PACKED_TABLE = re.compile(r"(?i).*\.(jsonl?|csv|tsv|txt)\.(gz|zst)")
_PACKED = (".tar", ".gz", ".tgz", ".zst", ".zip", ".7z", ".rar", ".bz2", ".tbz2", ".tbz", ".xz", ".txz", ".lzma")


def recognise(path: Path) -> tuple[FileList, Layout]:
    """The files below a folder, or one file, and their layout; of a table, the files of its folder.

    Raises:
        ConfigError: there is no such file, no recogniser knows it, or it is a recording; the message says what was
            found.
    """
    files = listed(path)
    if path.is_dir():
        return files, _first(RECOGNISERS, files) or _unknown(files)
    if files.audio:
        raise ConfigError(
            f"{path}: is one recording, and a corpus is a folder, a manifest, a table or a tar; adopt its folder: "
            f"headrace adopt {path.parent}"
        )
    if (layout := _first(RECOGNISERS, files)) is not None:
        return files, layout
    beside = beside_table(path)
    return beside, _first(_TABLES, beside) or _unknown(files, beside)


def _first(recognisers: Sequence[Recogniser], files: FileList) -> Layout | None:
    return next((layout for recogniser in recognisers if (layout := recogniser(files)) is not None), None)


def _unknown(files: FileList, beside: FileList | None = None) -> NoReturn:
    """Raise `ConfigError` for files that no recogniser knows.

    Args:
        files: the files.
        beside: of one file, the files of its folder.
    """
    named_by_index = _other_library(beside) if beside is not None and files.path.name == "index.json" else ""
    if beside is not None and tables.is_table(beside) and not named_by_index:
        raise ConfigError(
            f"{files.path}: no layout is recognised: as a table, it names no recording below {beside.root}: adopt the "
            "folder that has both; docs/corpora.md shows how to describe a corpus by hand"
        )
    known = named_by_index or _other_library(files) or _first_said(files)
    raise ConfigError(
        f"{files.path}: no layout is recognised. Found: {counts_said(extensions_of(files.names))}. "
        f"{known or 'Recordings have the extensions flac, wav, ogg, opus, mp3 and others'}; "
        "docs/corpora.md shows how to describe a corpus by hand"
    )


def _other_library(files: FileList) -> str:
    """The data set of another library that these files are, and what to do; empty for anything else."""
    names = [name for name in files.names if not name.lower().endswith(_PACKED)]
    if files.path.is_dir():
        names += sorted(name for name in os.listdir(files.root) if name[0] == ".")  # noqa: PTH208 - names alone
    index = index_path(names)
    found = recognised(names, b"" if index is None else "\n".join(files.lines(index)).encode())
    return "" if found is None else f"It is {found.what}: {found.way_out}"


def _first_said(files: FileList) -> str:
    """Why the first archive, or link to a folder, is not read, and what to do; empty without one."""
    for name in files.names:
        if _PACKED_TABLE.fullmatch(name):
            return f"{name} is a table that names no recordings, or is damaged"
        if files.is_compressed(name):
            return f"{name} is a compressed archive, and recordings are read in place: unpack it, and adopt the folder"
        if is_plain_tar(name):
            return f"{name} is a tar without recordings among its first members, or is damaged"
    links = (path for path in sorted(files.root.iterdir()) if path.is_symlink() and path.is_dir())
    if link := next(links, None):
        return f"{link.name} is a link to a folder, and is not followed: adopt {link.resolve()}"
    return ""
