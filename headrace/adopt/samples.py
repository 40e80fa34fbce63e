"""Reads five samples of a data set by the catalog's own scan, so that they are those that a build writes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from headrace.audio import AudioFormat, AudioInfo, Span, decode, decode_spans
from headrace.catalog.rows.recordings import parsed_channels
from headrace.catalog.rows.schemas import AUDIO_SCHEMA, OWN_COLUMNS
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.update import scan_settings
from headrace.catalog.tables.corpus_tables import open_rows
from headrace.catalog.tables.metadata_files import MetadataTable, open_metadata_files
from headrace.config.dataset import DatasetConfig
from headrace.errors import AudioError
from headrace.sources.content_digests import DigestedFile
from headrace.sources.listing import FileStamp, Listing
from headrace.sources.sources import Corpus, corpus_of
from headrace.sources.table_places import table_places

_TEXTS = (
    "text",
    "txt",
    "normalized",
    "transcript",
    "transcription",
    "sentence",
    "caption",
    "label",
    "Species",
    "Common Name",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the data set.

    Attributes:
        key: its key.
        path: the recording.
        start_frame: first frame of its span.
        stop_frame: one past the last frame.
        channels: the chosen channels; empty for all.
        info: facts of the recording's header.
        stamp: the recording when it was scanned.
        metadata: the values of the user's columns, without nulls.
    """

    key: str
    path: str
    start_frame: int
    stop_frame: int
    channels: tuple[int, ...]
    info: AudioInfo
    stamp: FileStamp
    metadata: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.stop_frame - self.start_frame) / self.info.sample_rate_hz

    @property
    def text(self) -> str:
        """The column of text that most corpora have, or else the first column of text; empty without one."""
        texts = {name: value for name, value in self.metadata.items() if isinstance(value, str)}
        return next((texts[name] for name in (*_TEXTS, *texts) if name in texts), "")


@dataclass(frozen=True, slots=True)
class Samples:
    """The first samples of a data set.

    Attributes:
        corpus: the source.
        found: the samples.
        faults: path and reason of recordings and rows that a build would reject.
    """

    corpus: Corpus
    found: tuple[Sample, ...]
    faults: tuple[tuple[str, str], ...]

    def sound(self, sample: Sample, seconds: float) -> np.ndarray[Any, Any]:
        """The beginning of a sample as float32 (channels, frames). Raises `AudioError`."""
        stop = min(sample.stop_frame, sample.start_frame + round(seconds * sample.info.sample_rate_hz))
        span = Span(sample.start_frame, stop, sample.channels)
        with self.corpus.open(sample.path, sample.stamp) as file:
            _, encode = next(iter(decode_spans(file, sample.info, AudioFormat(), [span])))
            encoded = encode()
            if isinstance(encoded, AudioError):
                raise encoded
            data = encoded.payload if isinstance(encoded.payload, bytes) else encoded.payload.read()
        return decode(data)[0]


def first_samples(config: DatasetConfig, folder: Path, examples: Iterable[str], count: int) -> Samples:
    """Read samples.

    Args:
        config: the data set.
        folder: the folder to which relative paths in the YAML are relative.
        examples: paths of recordings whose samples are wanted, for a source without rows of its own.
        count: number of samples.

    Raises:
        HeadraceError: as in a scan.
    """
    source = config.source.model_copy(update={"settle_seconds": 0.0})
    config = config.model_copy(update={"source": source})
    tables = _tables(config, folder)
    corpus = corpus_of(source, source.uri, exclude=[config.output.uri, *map(str, tables)])
    rows = corpus.rows()
    table: MetadataTable | None = None
    wanted = set(examples)
    if rows is not None:
        first = list(islice(filter(None, rows.read()), count))
        wanted = {str(row[name]) for row in first for name in source.fields.values() or ["path"] if row.get(name)}
        table = open_rows(iter(first), source)
    elif tables:
        named = [(path, str(path)) for path in tables]
        texts = source.text_columns
        table = open_metadata_files(named, path_column=source.path_column, text_columns=texts, form=source.table)
    return _scanned(config, corpus, table, wanted, count)


def _scanned(
    config: DatasetConfig, corpus: Corpus, table: MetadataTable | None, wanted: set[str], count: int
) -> Samples:
    files = _FewFiles(corpus, frozenset(wanted), config.source.sidecars)
    found = scan(files, None, scan_settings(config, table), table)
    faults = found.rejected.filter(pl.col("path").is_in(list(wanted))).select("path", "reason")
    rows = found.recordings.head(count).iter_rows(named=True)
    return Samples(corpus, tuple(map(_sample, rows)), tuple(faults.head(count).rows()))


def _tables(config: DatasetConfig, folder: Path) -> list[Path]:
    names = config.source.metadata or ()
    found = table_places(names, lambda name: str(folder / name), config.source.uri, config.output.uri)
    return [Path(one.place) for one in found]


def _sample(row: Mapping[str, Any]) -> Sample:
    info = AudioInfo(**{name: row[name] for name in AUDIO_SCHEMA})
    own = {name: value for name, value in row.items() if name not in OWN_COLUMNS and value is not None}
    stop = info.num_frames if row["stop_frame"] is None else row["stop_frame"]
    stamp = FileStamp(row["num_bytes"], row["mtime_ns"], row["ctime_ns"])
    channels = parsed_channels(row["channels"])
    return Sample(row["key"], row["path"], row["start_frame"] or 0, stop, channels, info, stamp, own)


@dataclass(frozen=True, slots=True)
class _FewFiles:
    """A source that lists some of the files of another one; with sidecars, also those beside them."""

    corpus: Corpus
    wanted: frozenset[str]
    sidecars: tuple[str, ...]

    @property
    def uri(self) -> str:
        return self.corpus.uri

    def list(self) -> Iterator[Listing]:
        missing = set(self.wanted)
        beside = {f"{base}.{end}" for path in self.wanted for base in _bases(path) for end in self.sidecars}
        for chunk in self.corpus.list():
            columns = [getattr(chunk, column.name) for column in fields(chunk)]
            at = [number for number, path in enumerate(chunk.path) if path in self.wanted or path in beside]
            yield Listing(*([column[number] for number in at] for column in columns))
            missing.difference_update(chunk.path)
            if not (missing or beside):
                return

    def open(self, path: str, stamp: FileStamp) -> AbstractContextManager[BinaryIO]:
        return self.corpus.open(path, stamp)

    def open_digested(self, path: str, stamp: FileStamp) -> AbstractContextManager[DigestedFile]:
        return self.corpus.open_digested(path, stamp)


def _bases(path: str) -> tuple[str, str]:
    return path, path.rpartition(".")[0]
