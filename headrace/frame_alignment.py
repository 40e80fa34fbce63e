"""Whether metadata columns that are declared frame-aligned have one entry for each latent frame.

Owns that check, of the columns before anything is encoded and over published latent shards: labels of frames that have
slipped against the latents train a model on noise, without any error. Of the shards it reads the samples' JSON only.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.errors import FormatError
from headrace.index import ShardIndex, index_name
from headrace.manifests import Manifest
from headrace.metadata_columns import metadata_columns
from headrace.storage import Storage


@dataclass(frozen=True, slots=True)
class AlignmentFault:
    """A column of a sample that does not fit its latents.

    Attributes:
        shard: file name of the latent shard.
        key: the sample's.
        column: the metadata column.
        num_latent_frames: T, what its length should be.
        found: its length; None when it is missing or no list.
    """

    shard: str
    key: str
    column: str
    num_latent_frames: int
    found: int | None

    def __str__(self) -> str:
        """One line for a person."""
        found = "is missing or no list" if self.found is None else f"has {self.found} entries"
        expected = f"its latents have {self.num_latent_frames} frames"
        return f"{self.shard}: sample {self.key!r}: column {self.column!r} {found}, {expected}"


def column_faults(recordings: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Why columns of the catalog cannot be frame-aligned, whatever their lengths: not there, or no lists."""
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
    """Faults of all samples of a partition of latents, in their order; none when the columns are aligned.

    Args:
        storage: the folder of the latents.
        manifest: what the partition holds.
        columns: names of the columns that are declared frame-aligned (`frame_aligned` in the YAML).

    Raises:
        FormatError: a shard has samples without JSON.
    """
    if not columns:
        return
    for shard in manifest.shards:
        path = index_name(shard.name)
        index = ShardIndex.from_bytes(storage.read(path), path)
        for i, text in enumerate(_texts(storage, index)):
            metadata = json.loads(text)
            num_latent = int(index.num_frames[i])
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
