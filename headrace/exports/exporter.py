"""The protocol `Exporter`, and what an exporter is given: whole shards or single samples, in snapshot order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.beside.column_table import ColumnSpec
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.stores.storage import Storage
from headrace.streaming.output_fields import OutputField

COPY = "-copy"
"""Between the key of a sample and the number of its repetition."""


class Takes(StrEnum):
    """Unit in which an exporter is given the data."""

    SHARDS = "shards"
    SAMPLES = "samples"


@dataclass(frozen=True, slots=True)
class ExportFields:
    """Contents of an export, before the first shard or sample is given.

    Attributes:
        name: name of the data set, for cards.
        snapshot: number of the audio snapshot.
        splits: split → samples that are given, those that a view repeats counted as often.
        num_bytes: about the bytes that are given.
        shard_bytes: size of the average shard, at least a mebibyte.
        audio: names of the audio fields; empty for shards without audio.
        columns: the columns of the samples' metadata; None if their types are not known.
        sets: sets of columns that are joined.
        latents: sets of latents that are joined, and the outputs of each.
        view: name of the view; None for all samples.
    """

    name: str
    snapshot: int
    splits: Mapping[str, int]
    num_bytes: int
    shard_bytes: int = 1 << 20
    audio: tuple[str, ...] = ("audio",)
    columns: tuple[ColumnSpec, ...] | None = None
    sets: tuple[str, ...] = ()
    latents: Mapping[str, tuple[OutputField, ...]] = field(default_factory=dict)
    view: str | None = None

    @property
    def are_shards_whole(self) -> bool:
        """Whether the exported samples are those of the shards, with nothing added and none left out or repeated."""
        return not (self.sets or self.latents or self.view)

    def folder(self, split: str) -> str:
        """Prefix of a split's files where a form has one data set in a folder: empty for the only split."""
        return f"{split}/" if len(self.splits) > 1 else ""

    def check_audio(self, to: str, most: int | None = 1) -> None:
        """Raise `ConfigError` unless samples have audio, and at most `most` audio fields."""
        if not self.audio or (most is not None and len(self.audio) > most):
            found = f"have {len(self.audio)} audio fields ({', '.join(self.audio)})" if self.audio else "have no audio"
            raise ConfigError(f"{self.name}: samples {found}, and {to} takes one; use --to webdataset")

    def check_no_latents(self, to: str) -> None:
        """Raise `ConfigError` if latents are joined."""
        if self.latents:
            raise ConfigError(
                f"--latents {','.join(self.latents)}: {to} has no place for latents; use --to webdataset or parquet"
            )


@dataclass(frozen=True, slots=True)
class ExportShard:
    """A shard of the snapshot.

    Attributes:
        split: its split.
        prefix: first part of the names of its folder's shards: empty, or `latent_`.
        storage: its folder.
        name: its name there.
        num_samples: number of its samples.
        num_bytes: its size.
        rows: of a view, the row of each sample that it takes, ascending, int64 (n,); None without a view.
    """

    split: str
    prefix: str
    storage: Storage
    name: str
    num_samples: int
    num_bytes: int
    rows: NDArray[np.int64] | None = None

    def index(self) -> ShardIndex:
        """Its index. Raises `NotFoundError` or `FormatError`."""
        return read_index(self.storage, self.name)


class ExportAudio(NamedTuple):
    """An audio field of a sample.

    Attributes:
        extension: `flac`, `opus`, …
        blob: the file.
        num_frames: -1 if unknown.
        num_channels: 0 if unknown.
    """

    extension: str
    blob: bytes
    num_frames: int
    num_channels: int


@dataclass(frozen=True, slots=True)
class ExportSample:
    """A sample.

    Attributes:
        key: its `__key__`.
        copy: 0, or the number of the repetition if a view takes the sample several times.
        split: its split.
        sample_rate_hz: 0 if unknown.
        audio: name → audio field.
        metadata: its JSON with the joined columns; None values are missing ones.
        latents: set → the `.pth` file; a set lacks samples whose latents were rejected.
    """

    key: str
    copy: int
    split: str
    sample_rate_hz: int
    audio: Mapping[str, ExportAudio]
    metadata: Mapping[str, Any]
    latents: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name that no other sample of the export has: the key, or for repetitions `<key>-copy1` and so on."""
        return f"{self.key}{COPY}{self.copy}" if self.copy else self.key

    @property
    def seconds(self) -> float:
        """Duration of the first audio field. Raises `ConfigError` if it is unknown."""
        first = next(iter(self.audio.values()))
        if first.num_frames < 0 or not self.sample_rate_hz:
            raise ConfigError(f"sample {self.key!r}: its length is unknown; build or index the data set again")
        return first.num_frames / self.sample_rate_hz


class Written(NamedTuple):
    """Number of files that hold samples, and how many of them are hard links."""

    num_files: int
    num_linked: int = 0


class Exporter(Protocol):
    """Writes one export: a `ShardExporter`, a `SampleExporter` or both, made by a function of an `ExportFolder`."""

    def begin(self, fields: ExportFields) -> Takes:
        """Declare whether shards or samples are given.

        Raises:
            ConfigError: the form cannot hold these fields; the message says what to do.
        """

    def finish(self) -> Written:
        """Write the rest, and last the files by which readers find the others."""


@runtime_checkable
class ShardExporter(Exporter, Protocol):
    """An exporter whose `begin` may return `Takes.SHARDS`."""

    def add_shard(self, shard: ExportShard) -> None:
        """Take the next shard, in snapshot order."""


@runtime_checkable
class SampleExporter(Exporter, Protocol):
    """An exporter whose `begin` may return `Takes.SAMPLES`."""

    def add(self, sample: ExportSample) -> None:
        """Take the next sample, in snapshot order."""


def user_metadata(metadata: Mapping[str, Any], apart: Sequence[str] = ("headrace",)) -> dict[str, Any]:
    """The metadata without Headrace's own facts, and without missing values."""
    return {name: value for name, value in metadata.items() if name not in apart and value is not None}
