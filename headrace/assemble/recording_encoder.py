"""Encodes samples from the files of recordings, each task on one thread."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, TypeVar

from headrace.assemble.encoding_tasks import EncodingTask
from headrace.assemble.span_passes import EncodedSpan
from headrace.audio import AudioFormat, EncodedSegment, decode_spans, encode_segments, prove, proves
from headrace.catalog.rows.recordings import Recording
from headrace.errors import AudioError, BuildError, FileChangedError
from headrace.sources.listing import NO_CTIME, FileStamp
from headrace.sources.sources import Source

Encoded = Sequence[EncodedSpan] | AudioError
"""The samples of a task; or the error of its file, which is that of all of them."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RecordingEncoder:
    """Opens the recordings of a source and encodes them in one format; safe for threads.

    All methods raise `BuildError` if a file is not, or no longer, the one that was scanned.

    Attributes:
        source: the recordings.
        audio: the format.
        go_on: called between samples; raises to end a task whose result nobody waits for.
    """

    source: Source
    audio: AudioFormat
    go_on: Callable[[], None] = lambda: None

    def encode(self, task: EncodingTask) -> Encoded:
        """Encode samples of one file."""
        if task.is_of_spans:
            decoded = self.spans([recording for recording, _ in task.samples])
            results = {number: encode() for number, encode in decoded}
            return [results[number] for number in range(len(results))]
        return self._read(task.recording, lambda file: list(self._while_wanted(self._segments(task, file))))

    def encode_alone(self, task: EncodingTask) -> EncodedSpan:
        """Encode one sample, after a check of its whole recording if encoding does not check it."""
        fault = self.fault(task.recording) if self.needs_check(task) else None
        if fault is not None:
            return fault
        found = self.encode(task)
        return found if isinstance(found, AudioError) else found[0]

    def needs_check(self, task: EncodingTask) -> bool:
        """Whether encoding a task does not decode its whole recording, so that a damaged one may not be noticed."""
        return not (task.is_of_spans or proves(task.recording.info, self.audio, task.segments))

    def fault(self, recording: Recording) -> AudioError | None:
        """Decode a whole recording. Returns what is wrong with it."""
        return self._read(recording, partial(prove, info=recording.info))

    def spans(self, spans: Sequence[Recording]) -> Iterator[tuple[int, Callable[[], EncodedSpan]]]:
        """Decode spans of one file: see `decode_spans`."""
        recording, frames = spans[0], [span.span for span in spans]
        with self._opened(recording) as file:
            metadata = [span.metadata for span in spans]
            decoded = decode_spans(file, recording.info, self.audio, frames, metadata=metadata)
            yield from self._while_wanted(decoded)

    def _segments(self, task: EncodingTask, file: BinaryIO) -> Generator[EncodedSpan, None, None]:
        recording = task.recording
        return encode_segments(file, recording.info, self.audio, task.segments, metadata=recording.metadata)

    def _while_wanted(self, samples: Generator[_Result, None, None]) -> Iterator[_Result]:
        with closing(samples):  # before the file is closed
            for sample in samples:
                self.go_on()
                yield sample

    def _read(self, recording: Recording, use: Callable[[BinaryIO], _Result]) -> _Result | AudioError:
        """The result of `use` on an open recording; or the `AudioError` that it raised, as a value."""
        with self._opened(recording) as file:
            try:
                return use(file)
            except AudioError as error:
                return error  # at the end of the block: an error of a file that changed is not the recording's

    @contextmanager
    def _opened(self, recording: Recording) -> Iterator[BinaryIO]:
        try:
            with ExitStack() as stack:
                yield self._found(recording, stack)
        except FileChangedError as error:
            raise BuildError(
                f"{recording.path}: the file changed since the catalog was scanned; build again"
            ) from error
        except OSError as error:
            raise BuildError(f"{recording.path}: {error}; was it removed? The next build scans again") from error

    def _found(self, recording: Recording, stack: ExitStack) -> BinaryIO:
        """The open file of a recording.

        If only its change time is another one, as after `chmod` or a hard link, the content decides.
        """
        stamp = FileStamp(recording.num_bytes, recording.mtime_ns, recording.ctime_ns)
        try:
            return stack.enter_context(self.source.open(recording.path, stamp))
        except FileChangedError:
            bare = replace(stamp, ctime_ns=NO_CTIME)
            with self.source.open_digested(recording.path, bare) as digested:
                if digested.digest != recording.sha256:
                    raise
            return stack.enter_context(self.source.open(recording.path, bare))


def all_encoded(recording: Recording, results: Sequence[EncodedSpan]) -> list[EncodedSegment] | AudioError:
    """The audio of each field of a sample; or the first error, with the name of the field if the fields are named."""
    encoded = [result for result in results if not isinstance(result, AudioError)]
    for number, result in enumerate(results):
        if isinstance(result, AudioError):
            for other in encoded:
                if not isinstance(other.payload, bytes):
                    other.payload.close()
            if not recording.fields:
                return result
            file = recording.fields[number]
            return AudioError(result.reason, f"audio field {file.name!r}, {file.path}: {result}")
    return encoded
