"""Finds samples with raw latents in local shards, for the copy-only fast path.

A `LocalLatents` takes little time to make: all of its numbers come from one row of the shard's index. A `StoredSample`,
which can be any kind of sample, takes several times as long.
"""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.errors import IntegrityError, NotFoundError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.tars.member_names import JSON_FIELD, LATENT_FIELD
from headrace.streaming.cache.opened import FileShard
from headrace.streaming.shards.access import ShardAccess

NO_LATENTS = ABSENT
"""Width of a sample whose latents were rejected; it has no frames."""
_FIELDS = {LATENT_FIELD, JSON_FIELD}


@dataclass(frozen=True, slots=True, eq=False)
class LocalShard:
    """A shard that is a local file and holds latents, perhaps JSON, and nothing else.

    Attributes:
        index: its index.
        file: the open file.
        json_field: place of the JSON in `index.fields`; -1 without JSON.
    """

    index: ShardIndex
    file: FileShard
    json_field: int

    @classmethod
    def opened(cls, access: ShardAccess, shard: int) -> "LocalShard | None":
        """A shard for which `holds_only_latents` is true; None unless it is a local file.

        Also None if the file cannot be opened; reading row by row then reports why.
        """
        index = access.index(shard)
        try:
            file = access.open_file(shard, patient=False)
        except (IntegrityError, NotFoundError):
            return None
        json_field = index.fields.index(JSON_FIELD) if JSON_FIELD in index.fields else ABSENT
        return None if file is None else cls(index, file, json_field)

    @property
    def form(self) -> tuple[tuple[str, ...], str]:
        """Fields and dtype, which the shards of one batch must have in common."""
        return self.index.fields, self.index.tensor_dtype

    def sample(self, row: int) -> "LocalLatents | None":
        """A sample; None if it has no raw latents, or if reading it row by row would report an error."""
        length, _, _, start, _, num_frames, width, crc32, *spans = self.index.numbers[row].tolist()
        key = self.index.key(row)
        if start == ABSENT:
            if key not in self.index.rejections:
                return None
            start = length = num_frames = 0
        elif not 0 <= length <= num_frames:
            return None
        if self.json_field == ABSENT or (json_start := spans[2 * self.json_field]) == ABSENT:
            return LocalLatents(self, key, start, num_frames, length, width, crc32)
        json_bytes = spans[2 * self.json_field + 1] - json_start
        if json_bytes == 0:  # not valid JSON
            return None
        checksum = spans[2 * len(self.index.fields) + self.json_field]
        return LocalLatents(self, key, start, num_frames, length, width, crc32, json_start, json_bytes, checksum)


class LocalLatents(NamedTuple):
    """The raw latents and the JSON of one sample in a local file.

    Attributes:
        shard: the shard.
        key: the sample's `__key__`.
        start: first byte of the latents.
        num_frames: stored latent frames.
        length: `encoder_length`.
        width: D; `NO_LATENTS` if the latents were rejected when they were made.
        crc32: CRC-32 of all latents; -1 if unknown.
        json_start: first byte of the JSON.
        json_bytes: number of its bytes; 0 without JSON.
        json_crc32: its CRC-32; -1 if unknown, or without JSON.
    """

    shard: LocalShard
    key: str
    start: int
    num_frames: int
    length: int
    width: int
    crc32: int = ABSENT
    json_start: int = 0
    json_bytes: int = 0
    json_crc32: int = ABSENT


def holds_only_latents(index: ShardIndex) -> bool:
    """Whether the samples of a shard have latents of one output in time, perhaps JSON, and nothing else."""
    has_one = len(index.outputs) == 1 and index.outputs[0].is_timed
    return has_one and LATENT_FIELD in index.fields and _FIELDS.issuperset(index.fields)
