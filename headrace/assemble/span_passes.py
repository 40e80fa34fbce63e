"""Decodes each recording in which a seek is not exact once for all of its spans that are wanted in a build.

The spans of a recording may be in any shards of the build, in any order. One task decodes them all; they are encoded on
other threads, and put into an unnamed file, in which they wait for their shards: on disk and not in memory, unless they
are few.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import IO

from headrace.audio import EncodedSegment
from headrace.catalog.rows.recordings import Recording
from headrace.errors import AudioError
from headrace.ordered import Backlog

_IN_MEMORY_BYTES = 8 << 20
_LONG_SECONDS = 30.0  # decoded frames wait in memory; one longer span at a time

EncodedSpan = EncodedSegment | AudioError
DecodePass = Callable[[Sequence[Recording]], Iterable[tuple[int, Callable[[], EncodedSpan]]]]
"""Decodes spans of one file: see `headrace.audio.decode_spans`."""


class WaitingSpans:
    """The encoded spans of a file, until they are taken."""

    def __init__(self, spans: Sequence[Recording], decode: DecodePass, encoders: Executor, ahead: int) -> None:
        """Decode the spans on this thread, and encode them on others.

        Args:
            spans: spans of one file.
            decode: decodes them.
            encoders: encodes them.
            ahead: number of short spans that may wait to be encoded.
        """
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed when empty
        weakref.finalize(self, self._file.close)  # or with the spans of a build that fails or is cancelled
        self._found: dict[str, tuple[int, EncodedSpan]] = {}
        backlog: Backlog[tuple[int, EncodedSpan]] = Backlog()
        for number, encode in decode(spans):
            backlog.add(encoders.submit(_numbered, number, encode))
            info = spans[number].info
            is_long = spans[number].span.num_frames > _LONG_SECONDS * info.sample_rate_hz
            self._keep(spans, backlog.take(1 if is_long else ahead))
        self._keep(spans, backlog.take(0))

    def _keep(self, spans: Sequence[Recording], results: Iterable[tuple[int, EncodedSpan]]) -> None:
        for number, result in results:
            self._found[spans[number].key] = self._put(result)

    def _put(self, result: EncodedSpan) -> tuple[int, EncodedSpan]:
        if isinstance(result, AudioError) or not isinstance(result.payload, bytes):
            return 0, result
        start = self._file.seek(0, 2)
        self._file.write(result.payload)
        return start, replace(result, payload=b"")

    def take(self, key: str) -> EncodedSpan:
        """The span with a key. Each can be taken once; after the last one the file is gone."""
        start, result = self._found.pop(key)
        if isinstance(result, EncodedSegment) and isinstance(result.payload, bytes):
            self._file.seek(start)
            result = replace(result, payload=self._file.read(result.num_bytes))
        if not self._found:
            self._file.close()
        return result


def _numbered(number: int, encode: Callable[[], EncodedSpan]) -> tuple[int, EncodedSpan]:
    return number, encode()


@dataclass(slots=True)
class SpanPasses:
    """The passes over the recordings of a build.

    Attributes:
        pool: runs the passes.
        encoders: encodes what passes have decoded; another pool, because a pass waits for it.
        ahead: number of spans that may wait to be encoded, for each pass.
        spans: path → all spans of this file that are wanted in the build.
        decode: decodes spans of one file.
    """

    pool: Executor
    encoders: Executor
    ahead: int
    spans: Mapping[str, Sequence[Recording]]
    decode: DecodePass
    _passes: dict[str, Future[WaitingSpans]] = field(default_factory=dict)

    def start(self, wanted: Sequence[Recording]) -> "TakenSpans":
        """Start the pass over the file of these spans, unless it was started before."""
        path = wanted[0].path
        if path not in self._passes:
            self._passes[path] = self.pool.submit(
                WaitingSpans, self.spans[path], self.decode, self.encoders, self.ahead
            )
        return TakenSpans(self._passes[path], [span.key for span in wanted])


@dataclass(frozen=True, slots=True)
class TakenSpans:
    """Some spans of a pass, as a task that was started (`headrace.ordered.Pending`)."""

    future: Future[WaitingSpans]
    keys: Sequence[str]

    def result(self) -> list[EncodedSpan]:
        """Wait for the pass. The spans, in the order in which they were wanted."""
        waiting = self.future.result()
        return [waiting.take(key) for key in self.keys]

    def cancel(self) -> bool:
        """Cancel the pass, unless it is running or done."""
        return self.future.cancel()
