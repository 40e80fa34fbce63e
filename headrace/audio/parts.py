"""Reads a recording in parts, for recordings that libsndfile does not read whole.

Each part is copied to an unnamed file and decoded by itself; the results are joined. `mpeg` and `ogg` find the parts.
"""

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import numpy as np
import soundfile as sf

from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.levels import Samples
from headrace.audio.sound import ForwardSound, info_of, refusal
from headrace.errors import AudioError
from headrace.machine import anonymous_file

_IN_MEMORY_BYTES = 32 << 20
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a recording that is decoded by itself.

    Attributes:
        spans: byte ranges of the recording, in order.
        head: bytes to put before them.
        num_bytes: size of the part's file; zeros are appended up to it.
        num_frames: number of frames to decode; None for all that libsndfile finds.
    """

    spans: tuple[tuple[int, int], ...]
    head: bytes = b""
    num_bytes: int = 0
    num_frames: int | None = None


class JoinedSound:
    """Parts of a recording that are read one after another; an `opening.Sound`."""

    def __init__(
        self, file: BinaryIO, parts: Sequence[tuple[FilePart, AudioInfo]], stack: contextlib.ExitStack
    ) -> None:
        """Take the parts and their facts. `stack` closes the part that is being read."""
        first = parts[0][1]
        self.info = replace(first, num_frames=sum(info.num_frames for _, info in parts))
        self._file = file
        self._stack = stack
        self._left = deque((part, info.num_frames) for part, info in parts)
        self._sound: ForwardSound | None = None

    def read(self, num_frames: int, dtype: str) -> Samples:
        """The next frames, (frames, channels); fewer at the end, or if a part has fewer than it promises."""
        blocks: list[Samples] = [np.empty((0, self.info.num_channels), dtype)]
        while num_frames and self._left:
            part, left = self._left.popleft()
            if self._sound is None:
                self._sound = self._stack.enter_context(_opened(self._file, part))
            wanted = min(num_frames, left)
            blocks.append(self._sound.read(wanted, dtype=dtype, always_2d=True))
            if len(blocks[-1]) < wanted:
                break
            num_frames -= wanted
            if left > wanted:
                self._left.appendleft((part, left - wanted))
            else:
                self._stack.close()
                self._sound = None
        return np.concatenate(blocks)

    def seek(self, frame: int) -> None:
        """Not supported: recordings in parts are lossy, and have to be decoded from the beginning."""
        raise NotImplementedError(f"seek to frame {frame} of a recording in parts")


@contextlib.contextmanager
def open_parts(file: BinaryIO, parts: Sequence[FilePart]) -> Iterator[JoinedSound]:
    """Open the parts of a recording as one sound.

    Args:
        file: the recording; its position is moved.
        parts: at least one.

    Raises:
        AudioError: when opening or reading: `unsupported`, if parts differ in form; `undecodable`.
    """
    with contextlib.ExitStack() as stack:
        try:
            infos = [_info(file, part) for part in parts]
            for number, info in enumerate(infos, 1):
                if replace(info, num_frames=0) != replace(infos[0], num_frames=0):
                    raise _unlike(number, infos[0], info)
            yield JoinedSound(file, list(zip(parts, infos, strict=True)), stack)
        except sf.LibsndfileError as error:
            raise refusal(error) from error


def _info(file: BinaryIO, part: FilePart) -> AudioInfo:
    with _opened(file, part) as sound:
        info = info_of(sound)
        return info if part.num_frames is None else replace(info, num_frames=part.num_frames)


@contextlib.contextmanager
def _opened(file: BinaryIO, part: FilePart) -> Iterator[ForwardSound]:
    with part_file(file, part) as copy, ForwardSound(copy.fileno(), closefd=False) as sound:
        yield sound


@contextlib.contextmanager
def part_file(file: BinaryIO, part: FilePart) -> Iterator[BinaryIO]:
    """Copy a part to an unnamed file, which decoders can read by its descriptor, without calling Python.

    Args:
        file: the recording; its position is moved.
        part: the part to copy.
    """
    size = len(part.head) + sum(stop - start for start, stop in part.spans)
    with _nameless_file(size) as copy:
        copy.write(part.head)
        for start, stop in part.spans:
            _copy(file, copy, start, stop)
        copy.truncate(max(size, part.num_bytes))
        copy.seek(0)
        yield copy


def _nameless_file(num_bytes: int) -> BinaryIO:
    """An unnamed, unbuffered file; in memory if it is small."""
    if num_bytes <= _IN_MEMORY_BYTES:
        return cast("BinaryIO", os.fdopen(anonymous_file("headrace-part"), "w+b", buffering=0))
    return cast("BinaryIO", tempfile.TemporaryFile(buffering=0))


def _copy(file: BinaryIO, copy: BinaryIO, start: int, stop: int) -> None:
    file.seek(start)
    while start < stop and (data := file.read(min(_COPY_BYTES, stop - start))):
        copy.write(data)
        start += len(data)


def _unlike(number: int, first: AudioInfo, other: AudioInfo) -> AudioError:
    forms = [f"{info.subtype} at {info.sample_rate_hz} Hz with {info.num_channels} channels" for info in (first, other)]
    return AudioError(
        AudioReject.UNSUPPORTED,
        f"joined from different streams: the first is {forms[0]}, number {number} is {forms[1]}; split the file",
    )
