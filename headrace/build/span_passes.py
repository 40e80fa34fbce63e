"""Decodes each recording in which a seek is not exact once for all of its spans that are wanted in a build.

The spans of a recording may be in any shards of the build, in any order. One task encodes them all into an unnamed
file, in which they wait for their shards: on disk and not in memory, unless they are few.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import IO

from headrace.audio import EncodedSegment
from headrace.catalog.recordings import Recording
from headrace.errors import AudioError

_IN_MEMORY_BYTES = 8 << 20

EncodedSpan = EncodedSegment | AudioError
EncodePass = Callable[[Sequence[Recording]], Iterable[tuple[int, EncodedSpan]]]
"""Encodes spans of one file: see `headrace.audio.encode_spans`."""


class WaitingSpans:
    """The encoded spans of a file, until they are taken."""

    def __init__(self, spans: Sequence[Recording], encode: EncodePass) -> None:
        """Encode the spans."""
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed when empty
        self._found: dict[str, tuple[int, EncodedSpan]] = {}
        for number, result in encode(spans):
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


@dataclass(slots=True)
class SpanPasses:
    """The passes over the recordings of a build.

    Attributes:
        pool: runs the passes.
        spans: path → all spans of this file that are wanted in the build.
        encode: encodes spans of one file.
    """

    pool: Executor
    spans: Mapping[str, Sequence[Recording]]
    encode: EncodePass
    _passes: dict[str, Future[WaitingSpans]] = field(default_factory=dict)

    def start(self, wanted: Sequence[Recording]) -> "TakenSpans":
        """Start the pass over the file of these spans, unless it was started before."""
        path = wanted[0].path
        if path not in self._passes:
            self._passes[path] = self.pool.submit(WaitingSpans, self.spans[path], self.encode)
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
