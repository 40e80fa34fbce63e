"""Batches whose shards are open, ready to be filled: copied whole, or row by row.

Owns what becomes of a row that cannot be read, and that a batch which cannot be copied is made row by row after all.
How a row is filled is `in_place`'s and `one_by_one`'s. No threads are started here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headrace.errors import AudioError, ConfigError, FormatError, HeadraceError, IntegrityError, SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch
from headrace.streaming.batches.copied import CopiedBatch
from headrace.streaming.batches.rows import Row
from headrace.streaming.settings import OnBadSample


class Prepared(Protocol):
    """A batch being made. `fill` all its rows, in any pieces and on any threads, then `finish`."""

    @property
    def is_copied(self) -> bool:
        """Whether it is filled in one call, as no part of it can be."""

    def __len__(self) -> int:
        """Number of rows."""

    def fill(self, start: int, stop: int) -> None:
        """Fill rows [start, stop); all of them if the batch is copied.

        Raises:
            SampleError: a row cannot be read, naming shard, key and reason (`on_bad_sample="raise"`).
        """

    def finish(self) -> Batch:
        """The batch, once all rows are filled; skipped rows become padding."""


class RowFiller(Protocol):
    """Fills a batch's rows, each on its own."""

    def fill(self, place: int) -> None:
        """Fill one row. Raises what was wrong with it, and may leave the row in any state."""

    def finish(self, dropped: Mapping[int, SampleError]) -> Batch:
        """The batch; rows that were not filled become padding."""


class RowByRow:
    """A batch that is made row by row (`Prepared`)."""

    is_copied = False

    def __init__(self, rows: Sequence[Row | None], filler: RowFiller, on_bad_sample: OnBadSample) -> None:
        """Nothing is filled yet.

        Args:
            rows: None for padding.
            filler: of these rows.
            on_bad_sample: what becomes of a row that cannot be read.
        """
        self._rows = rows
        self._filler = filler
        self._on_bad_sample = on_bad_sample
        self._faults: dict[int, SampleError] = {}

    def __len__(self) -> int:
        """See `Prepared`."""
        return len(self._rows)

    def fill(self, start: int, stop: int) -> None:
        """See `Prepared`."""
        for place in range(start, stop):
            self._fill(place)

    def _fill(self, place: int) -> None:
        row = self._rows[place]
        try:
            self._filler.fill(place)
        except ConfigError:
            raise
        except Exception as error:  # a transform raises what it likes
            if row is None:
                raise
            fault = fault_of(row, error)
            if self._on_bad_sample is OnBadSample.RAISE:
                raise fault from error
            self._faults[place] = fault

    def finish(self) -> Batch:
        """See `Prepared`."""
        batch = self._filler.finish(self._faults)
        batch.faults = [str(fault) for fault in self._faults.values()]
        return batch


class Copied:
    """A batch that is merely copied; row by row where that fails, which shows what is wrong (`Prepared`)."""

    is_copied = True

    def __init__(self, batch: CopiedBatch, allocator: Allocator, instead: Callable[[], RowByRow]) -> None:
        """Nothing is allocated yet.

        Args:
            batch: makes the copy.
            allocator: where its arrays come from.
            instead: opens the same batch row by row.
        """
        self._copied = batch
        self._allocator = allocator
        self._open_instead = instead
        self._instead: RowByRow | None = None

    def __len__(self) -> int:
        """See `Prepared`."""
        return len(self._copied)

    def fill(self, start: int, stop: int) -> None:
        """See `Prepared`."""
        if not self._copied.read(self._allocator):
            self._instead = self._open_instead()
            self._instead.fill(start, stop)

    def finish(self) -> Batch:
        """See `Prepared`."""
        return self._copied.batch if self._instead is None else self._instead.finish()


def fault_of(row: Row, error: Exception) -> SampleError:
    """The error of a row that cannot be read, naming shard, key and reason; what is damaged leaves the cache."""
    if isinstance(error, AudioError | FormatError | IntegrityError):
        for part in row.parts:
            if part is not None:
                part.access.doubt(part.shard)
    reason = f"{error}" if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
    return SampleError(f"{row.primary.called}: {reason}")
