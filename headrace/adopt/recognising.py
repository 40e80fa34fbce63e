"""`recognise`: the layout of the files below a path, by the first recogniser that knows it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from headrace.adopt import corpora, folders, tables
from headrace.adopt.listing import FileList, Layout, beside_table, counts_said, extensions_of, listed
from headrace.errors import ConfigError

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
    if beside is not None and tables.is_table(beside):
        raise ConfigError(
            f"{files.path}: no layout is recognised: as a table, it names no recording below {beside.root}: adopt the "
            "folder that has both; docs/corpora.md shows how to describe a corpus by hand"
        )
    raise ConfigError(
        f"{files.path}: no layout is recognised. Found: {counts_said(extensions_of(files.names))}. Recordings have the "
        "extensions flac, wav, ogg, opus, mp3 and others; docs/corpora.md shows how to describe a corpus by hand"
    )
