"""Checks that metadata columns declared frame-aligned have one entry for each latent frame.

The types of the columns are checked before anything is encoded, the lengths in published latent shards. Labels that are
shifted against their latents would train a model on noise, without any error. Of the shards only the JSON is read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.catalog.rows.metadata_columns import metadata_columns
from headrace.errors import FormatError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import Manifest
from headrace.format.typed_json import sample_json
from headrace.stores.storage import Storage


@dataclass(frozen=True, slots=True)
class AlignmentFault:
    """A column of a sample whose length is not the number of latent frames.

    Attributes:
        shard: file name of the latent shard.
        key: key of the sample.
        column: the metadata column.
        num_latent_frames: T, the expected length.
        found: the length; None when the column is missing or not a list.
    """

    shard: str
    key: str
    column: str
    num_latent_frames: int
    found: int | None

    def __str__(self) -> str:
        """One line for a person."""
        found = "is missing or not a list" if self.found is None else f"has {self.found} entries"
        expected = f"its latents have {self.num_latent_frames} frames"
        return f"{self.shard}: sample {self.key!r}: column {self.column!r} {found}, {expected}"


def column_faults(recordings: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Why columns of the catalog cannot be frame-aligned: they are missing, or hold no lists."""
    types = {user: recordings.schema[stored] for stored, user in metadata_columns(recordings).items()}
    lists = ", ".join(sorted(user for user, dtype in types.items() if isinstance(dtype, (pl.List, pl.Array)))) or "none"
    return [
        f"frame_aligned: the metadata column {column!r} {_shortcoming(types.get(column))}; columns of lists: {lists}"
        for column in columns
        if not isinstance(types.get(column), (pl.List, pl.Array))
    ]


def _shortcoming(dtype: pl.DataType | None) -> str:
    return "is not there" if dtype is None else f"is {dtype}, not a list per recording"


def alignment_faults(storage: Storage, manifest: Manifest, columns: Sequence[str]) -> Iterator[AlignmentFault]:
    """The faults of all samples of a partition of latents, in the order of the samples.

    Samples whose latents were rejected are not checked.

    Args:
        storage: the folder of the latents.
        manifest: manifest of the partition.
        columns: names of the columns that are declared frame-aligned (`frame_aligned` in the YAML).

    Raises:
        FormatError: a shard has samples without JSON, or with JSON that is not valid.
    """
    if not columns:
        return
    for shard in manifest.shards:
        index = read_index(storage, shard.name)
        for i, text in enumerate(_texts(storage, index)):
            num_latent = int(index.num_frames[i])
            if num_latent == ABSENT:
                continue
            metadata = sample_json(text, shard.name, index.key(i))
            for column in columns:
                value = metadata.get(column)
                found = len(value) if isinstance(value, list) else None
                if found != num_latent:
                    yield AlignmentFault(shard.name, index.key(i), column, num_latent, found)


def _texts(storage: Storage, index: ShardIndex) -> list[bytes]:
    """The JSON of every sample of a shard."""
    spans = [index.range_of(i, "json") for i in range(len(index))]
    if None in spans:
        raise FormatError(
            f"{index.shard}: sample {index.key(spans.index(None))!r} has no .json; build the latents again"
        )
    return storage.read_ranges(index.shard, [span for span in spans if span is not None])
