"""Makes batches of raw latents from local files by copying bytes: the copy-only fast path.

`copy_plan` decides whether a batch qualifies, and finds its samples. `CopiedBatch` then reads each sample with one
`preadv` call: its latents go from the page cache into their row of the batch, its JSON into a buffer beside it. The
kernel gets only slices of these two buffers, so a wrong number in an index cannot make it write anywhere else
(docs/design/0042).

This path reports no errors. If anything is not as the indexes say, the batch is made again row by row, and that reports
which sample is wrong. Both ways give the same bytes.
"""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.checksums import crc32
from headrace.format.indexes.index import ABSENT
from headrace.format.tensors.tensors import storage_dtype
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch, Latents
from headrace.streaming.batches.json_texts import parsed_together
from headrace.streaming.batches.open_batch import OpenBatch
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.batches.user_fields import StackedField, ValueKind
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING, Rows
from headrace.streaming.output_fields import OutputField
from headrace.streaming.samples.fields import START_SECONDS
from headrace.streaming.samples.local_latents import NO_LATENTS, LocalLatents
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.settings import OnMissingLatents

_MOST_BETWEEN = 4 << 10  # bytes between a sample's latents and its JSON that are read with them


class SampleCopy(NamedTuple):
    """Copy of one sample into a row of the batch.

    Attributes:
        row: row of the batch.
        sample: the sample.
        first: first latent frame.
        length: number of latent frames: `encoder_length` of the row.
    """

    row: int
    sample: LocalLatents
    first: int
    length: int


class SampleRead(NamedTuple):
    """One sample's reads from its file.

    Attributes:
        descriptor: the open file.
        start: first byte of the latents in the file.
        begin: their first byte in the batch.
        end: the byte of the batch after their last one.
        between: bytes between latents and JSON in the file; negative if the JSON comes first, 0 without JSON.
        json_bytes: number of bytes of the JSON.
        crc32: CRC-32 of the latents; -1 if it is unknown, or if they are read in part.
    """

    descriptor: int
    start: int
    begin: int
    end: int
    between: int
    json_bytes: int
    crc32: int = ABSENT


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Copies to make for one batch.

    Attributes:
        copies: a copy for each row that is not padding, in order; they keep their files open.
        shape: (B, T, D) of the batch's latents.
        dtype: name of the latents' dtype.
        is_cropped: whether samples are cropped, so that the batch has the first frame of each.
    """

    copies: Sequence[SampleCopy]
    shape: tuple[int, int, int]
    dtype: str
    is_cropped: bool

    def reads(self) -> list[SampleRead]:
        """The reads of all samples."""
        _, num_frames, width = self.shape
        frame_bytes = width * storage_dtype(self.dtype).itemsize
        row_bytes = num_frames * frame_bytes
        found = []
        for row, sample, first, length in self.copies:
            start, begin, num_bytes = sample.start + first * frame_bytes, row * row_bytes, length * frame_bytes
            between = sample.json_start - start - num_bytes if sample.json_bytes else 0
            descriptor = sample.shard.file.file_descriptor
            checksum = sample.crc32 if length == sample.num_frames else ABSENT
            found.append(SampleRead(descriptor, start, begin, begin + num_bytes, between, sample.json_bytes, checksum))
        return found


def copy_plan(streams: Sequence[StreamReader], plan: BatchPlan, processing: SampleProcessing) -> CopyPlan | None:
    """Plan a batch that is made by copying; None unless all of its samples are raw latents in local files."""
    config = processing.config
    if config.transform is not None or config.sample_rate_hz is not None or processing.pads_fields:
        return None
    samples = _samples(streams, plan.rows)
    if samples is None:
        return None
    widths = {sample.width for sample in samples.values()}
    if NO_LATENTS in widths:
        if config.on_missing_latents is OnMissingLatents.RAISE:
            return None
        if config.on_missing_latents is OnMissingLatents.SKIP:
            samples = {row: sample for row, sample in samples.items() if sample.width != NO_LATENTS}
        widths.remove(NO_LATENTS)
    forms = {shard.form for shard in {sample.shard for sample in samples.values()}}
    if len(widths) != 1 or len(forms) != 1:  # no latents, or latents that do not fit into one array
        return None
    if config.crops:
        copies, num_frames = _cropped(samples, plan, processing)
    else:
        copies = [SampleCopy(row, sample, 0, sample.length) for row, sample in samples.items()]
        num_frames = max(sample.num_frames for sample in samples.values())
    _, dtype = forms.pop()
    return CopyPlan(copies, (len(plan), num_frames, widths.pop()), dtype, config.crops) if copies else None


def _samples(streams: Sequence[StreamReader], rows: Rows) -> dict[int, LocalLatents] | None:
    """The sample of each row that is not padding; None unless all are raw latents in local files."""
    found: dict[int, LocalLatents] = {}
    for number, stream in enumerate(streams):
        own = np.flatnonzero((rows.stream_ids == number) & (rows.sample_ids != PADDING))
        shards, numbers = (located.tolist() for located in stream.find(rows.sample_ids[own]))
        opened = stream.local_shards(list(dict.fromkeys(shards))) if shards else {}
        if opened is None:
            return None
        for row, shard, row_of_shard in zip(own.tolist(), shards, numbers, strict=True):
            if (sample := opened[shard].sample(row_of_shard)) is None:
                return None
            found[row] = sample
    return dict(sorted(found.items())) if len(streams) > 1 else found


def _cropped(
    samples: dict[int, LocalLatents], plan: BatchPlan, processing: SampleProcessing
) -> tuple[list[SampleCopy], int]:
    """Copies of the cropped samples, and T of the batch; no copies if a frame rate is needed and unknown."""
    rates_hz = np.array([sample.shard.index.latent_rate_hz for sample in samples.values()])
    if processing.config.crop_seconds is not None and not rates_hz.all():
        return [], 0
    num_frames = np.array([sample.num_frames for sample in samples.values()])
    first, counts = processing.crop.windows(plan.epoch, num_frames, rates_hz, plan.positions[list(samples)])
    windows = zip(first.tolist(), counts.tolist(), strict=True)
    copies = [
        SampleCopy(row, sample, start, max(0, min(sample.length - start, count)))
        for (row, sample), (start, count) in zip(samples.items(), windows, strict=True)
    ]
    return copies, int(counts.max())


class CopiedBatch:
    """A batch that is copied from local files; made row by row if that fails (`OpenBatch`)."""

    is_filled_whole = True

    def __init__(
        self, plan: CopyPlan, field: OutputField, allocator: Allocator, open_instead: Callable[[], OpenBatch]
    ) -> None:
        """Allocate and read nothing yet.

        Args:
            plan: what to copy.
            field: the fields of the latents.
            allocator: allocates the latents.
            open_instead: opens the same batch row by row.
        """
        self._plan = plan
        self._field = field
        self._allocator = allocator
        self._open_instead = open_instead
        self._batch: Batch | None = None
        self._instead: OpenBatch | None = None

    def __len__(self) -> int:
        """See `OpenBatch`."""
        return self._plan.shape[0]

    def fill(self, start: int, stop: int) -> None:
        """See `OpenBatch`; for all rows at once."""
        self._batch = self._copied()
        if self._batch is None:
            self._instead = self._open_instead()
            self._instead.fill(start, stop)

    def finish(self) -> Batch:
        """See `OpenBatch`."""
        if self._instead is not None:
            return self._instead.finish()
        assert self._batch is not None  # `fill` made it
        return self._batch

    def _copied(self) -> Batch | None:
        """The batch; None if something is not as the indexes say."""
        plan, reads = self._plan, self._plan.reads()
        hidden = self._allocator.empty(plan.shape, storage_dtype(plan.dtype))
        text_ends = list(accumulate(read.json_bytes for read in reads))
        texts = bytearray(text_ends[-1])
        latents = hidden.data.cast("B") if hidden.size else memoryview(b"")
        if not all_read(reads, latents, memoryview(texts)):
            return None
        if not _match(texts, text_ends, [copy.sample.json_crc32 for copy in plan.copies]):
            return None
        try:
            metadata = parsed_together(texts, text_ends)
        except (ValueError, RecursionError):  # not valid JSON
            return None
        return self._filled(hidden, metadata)

    def _filled(self, hidden: np.ndarray[Any, np.dtype[Any]], metadata: list[dict[str, Any]]) -> Batch:
        """The batch of the latents, with padding after the end of each row and in padding rows."""
        num_rows, num_frames, _ = self._plan.shape
        keys = [""] * num_rows
        metadata_of: list[dict[str, Any]] = [{} for _ in range(num_rows)]
        first, lengths = [0] * num_rows, [0] * num_rows
        is_padding = np.ones(num_rows, np.bool_)
        for copy, content in zip(self._plan.copies, metadata, strict=True):
            row = copy.row
            keys[row], metadata_of[row], first[row], lengths[row] = copy.sample.key, content, copy.first, copy.length
            is_padding[row] = False
        for row, length in enumerate(lengths):
            if length < num_frames:
                hidden[row, length:] = self._field.padding
        batch = Batch(keys, metadata_of, is_padding)
        offsets = np.array(first, np.int64) if self._plan.is_cropped else None
        if self._plan.is_cropped:
            batch.stacked[START_SECONDS] = StackedField(self._start_seconds(), ValueKind.SCALAR, "float64")
        counts = np.array(lengths, np.int64)
        batch.latents[self._field.values] = Latents(hidden, counts, self._plan.dtype, offsets, self._field)
        return batch

    def _start_seconds(self) -> NDArray[np.float64]:
        """float64 (B,), see `SampleCrop.start_seconds`."""
        starts = np.zeros(self._plan.shape[0])
        for copy in self._plan.copies:
            starts[copy.row] = copy.first / (copy.sample.shard.index.latent_rate_hz or math.nan)
        return starts


def all_read(reads: Iterable[SampleRead], latents: memoryview, texts: memoryview) -> bool:
    """Read samples, one after the other, and return whether every byte came, and all latents have their CRC-32.

    Each is compared at once, while it is in the processor's cache.

    Whatever the numbers are, a slice of a buffer never reaches outside of it: it is then shorter than what is to be
    read, and the numbers of bytes differ.

    Args:
        reads: what to read of each sample.
        latents: where the latents go.
        texts: where the JSON goes, end to end.
    """
    skipped = memoryview(bytearray(_MOST_BETWEEN))
    text_begin = 0
    try:
        for descriptor, start, begin, end, between, json_bytes, checksum in reads:
            num_bytes = end - begin
            row, text = latents[begin:end], texts[text_begin : text_begin + json_bytes]
            if 0 <= between <= _MOST_BETWEEN:
                found = os.preadv(descriptor, (row, skipped[:between], text), start)
                is_whole = found == num_bytes + between + json_bytes
            else:
                is_whole = os.preadv(descriptor, (row,), start) == num_bytes
                is_whole &= os.preadv(descriptor, (text,), start + num_bytes + between) == json_bytes
            if not is_whole or (checksum != ABSENT and crc32(row) != checksum):
                return False
            text_begin += json_bytes
    except (OSError, OverflowError):  # there is no such place in a file
        return False
    return True


def _match(texts: bytearray, ends: Sequence[int], checksums: Sequence[int]) -> bool:
    """Whether texts, which are end to end, have these CRC-32; -1 is an unknown one."""
    start = 0
    for end, checksum in zip(ends, checksums, strict=True):
        if checksum != ABSENT and crc32(texts[start:end]) != checksum:
            return False
        start = end
    return True
