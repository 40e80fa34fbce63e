"""Fetches what a batch reads of long audio in a store: all parts at a time, before any of them is decoded."""

from collections.abc import Iterator, Sequence

from headrace.audio import PartFacts, SeekPoints, part_spans
from headrace.stores.concurrent_requests import map_on_threads
from headrace.streaming.batches.decode_audio import LEAST_BYTES
from headrace.streaming.cache.coalesce import Span
from headrace.streaming.cache.opened import BlobShard
from headrace.streaming.samples.crop import Crop
from headrace.streaming.samples.stored_sample import BatchRow, StoredSample


def fetch_parts(rows: Sequence[BatchRow | None], crop: Crop, epoch: int) -> None:
    """Fetch the parts of audio that rows will read by seek points, of shards that are read by ranges.

    What is not found by this is fetched when it is decoded.

    Args:
        rows: rows of a batch; None for padding.
        crop: how samples are cut.
        epoch: number of the epoch.

    Raises:
        StorageError: the store failed, also after retries.
    """
    wanted: dict[int, tuple[StoredSample, BlobShard, list[Span]]] = {}
    for row in rows:
        if row is not None and row.primary.access.reads_cuts and isinstance(row.primary.file, BlobShard):
            found = wanted.setdefault(id(row.primary.file), (row.primary, row.primary.file, []))
            found[2].extend(_spans(row, crop, epoch))
    asked = [(sample, opened, spans) for sample, opened, spans in wanted.values() if spans]
    map_on_threads(lambda one: one[0].access.fetch_parts(one[0].shard, one[1], one[2]), asked, "parts")


def _spans(row: BatchRow, crop: Crop, epoch: int) -> Iterator[Span]:
    """The bytes of a shard that the first draw of a row's crop reads."""
    sample = row.primary
    for field in sample.audio():
        points = sample.seek_points(field) if sample.in_parts(field) else None
        if points is None or min(sample.num_frames, sample.sample_rate_hz) <= 0:
            continue
        first, count = crop.of(row, epoch).primary(sample.num_frames, sample.sample_rate_hz)
        facts = PartFacts(field.num_frames, sample.sample_rate_hz, field.num_channels)
        start, stop = field.span
        for begin, end in part_spans(SeekPoints(*points), facts, (first, first + count), stop - start):
            yield start + begin, min(stop, start + max(end, begin + LEAST_BYTES))
