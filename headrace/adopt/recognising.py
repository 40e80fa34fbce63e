"""`recognise`: the layout of the files below a path, by the first recogniser that knows it."""

from headrace.adopt import corpora, folders, tables
from headrace.adopt.listing import FileList, Layout, counts_said, extensions_of
from headrace.errors import ConfigError

RECOGNISERS = (
    corpora.output,
    corpora.kaldi,
    corpora.nemo_tarred,
    corpora.nemo,
    corpora.lhotse,
    corpora.parquet,
    corpora.webdataset,
    tables.librispeech,
    tables.raven,
    tables.audiofolder,
    tables.any_table,
    folders.sidecars,
    folders.labels,
    folders.plain,
    corpora.tfrecord,
)
"""The most specific first. Each takes the names of files and the beginnings of a few of them."""


def recognise(files: FileList) -> Layout:
    """The layout of files.

    Raises:
        ConfigError: no recogniser knows it; the message says what was found.
    """
    for recogniser in RECOGNISERS:
        if (layout := recogniser(files)) is not None:
            return layout
    raise ConfigError(
        f"{files.path}: no layout is recognised. Found: {counts_said(extensions_of(files.names))}. Recordings have the "
        "extensions flac, wav, ogg, opus, mp3 and others; docs/corpora.md shows how to describe a corpus by hand"
    )
