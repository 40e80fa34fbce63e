"""The protocol of a batch being made: its shards are open, its rows are yet to be filled.

Three classes implement it: `CopiedBatch` copies raw latents from local files, `InPlaceBatch` decodes each row into the
batch's arrays, and `SampleBatch` makes one sample at a time and stacks them. All give the same batch, and tests compare
them. `RowErrors` handles rows that cannot be read for the two that work row by row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from headrace.errors import AudioError, ConfigError, FormatError, HeadraceError, IntegrityError, SampleError
from headrace.streaming.batches.batch import Batch
from headrace.streaming.samples.stored_sample import BatchRow
from headrace.streaming.settings import OnBadSample

T = TypeVar("T")


class OpenBatch(Protocol):
    """A batch being made. Call `fill` for all rows, in any pieces and on any threads, then `finish`."""

    @property
    def is_filled_whole(self) -> bool:
        """Whether one call of `fill` must cover all rows."""

    def __len__(self) -> int:
        """Number of rows."""

    def fill(self, start: int, stop: int) -> None:
        """Fill rows [start, stop).

        Raises:
            SampleError: a row cannot be read; names shard, key and reason (`on_bad_sample="raise"`).
        """

    def finish(self) -> Batch:
        """The batch, after all rows are filled; skipped rows become padding."""


class RowErrors:
    """Fills rows one by one, and handles those that cannot be read; safe for threads on different rows."""

    def __init__(self, rows: Sequence[BatchRow | None], on_bad_sample: OnBadSample) -> None:
        """No row has failed.

        Args:
            rows: rows of the batch; None for padding.
            on_bad_sample: what to do with a row that cannot be read.
        """
        self._rows = rows
        self._on_bad_sample = on_bad_sample
        self._skipped: dict[int, SampleError] = {}

    @property
    def skipped(self) -> Mapping[int, SampleError]:
        """Rows that could not be read and were skipped, each with its error."""
        return self._skipped

    @property
    def messages(self) -> list[str]:
        """The errors of skipped rows, as text."""
        return [str(error) for error in self._skipped.values()]

    def fill(self, places: Iterable[int], fill_row: Callable[[int], None]) -> None:
        """Call `fill_row` for each place; it may leave a failed row in any state.

        Raises:
            SampleError: a row cannot be read, and bad samples are not skipped.
            ConfigError: raised by `fill_row`.
        """
        for place in places:
            row = self._rows[place]
            try:
                read_again_if_damaged(lambda place=place: fill_row(place), row)  # type: ignore[misc]
            except ConfigError:
                raise
            except Exception as error:  # a transform may raise anything
                if row is None:
                    raise
                if self._on_bad_sample is OnBadSample.RAISE:
                    raise sample_error(row, error) from error
                self._skipped[place] = sample_error(row, error)


def read_again_if_damaged(read: Callable[[], T], row: BatchRow | None) -> T:
    """The result of `read`; if a cached shard is damaged, it is fetched from its store and `read` is called again."""
    try:
        return read()
    except (AudioError, FormatError, IntegrityError):
        if row is None or not [sample for sample in row.stored if sample is not None and sample.renew()]:
            raise
        return read()


def sample_error(row: BatchRow, error: Exception) -> SampleError:
    """The error of a row that cannot be read, with shard, key and reason."""
    reason = f"{error}" if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
    return SampleError(f"{row.primary.called}: {reason}")
