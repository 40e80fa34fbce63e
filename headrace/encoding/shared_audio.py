"""Audio that several encodings of one partition read at the same time: fetched, decoded and resampled once.

Each encoding keeps its own groups, batches and windows, and so makes the same shards as alone. It runs on a thread of
its own. A shard is open until no encoding needs it; a clip is in memory from the first encoding that reads it to the
last one. An encoding that is two groups ahead waits for the others, so that they read the same clips at about the same
time. When the memory is full, clips are read as by an encoding alone.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from headrace.encoding.clips import AudioClip, AudioForm, DecodedFrames, FloatSamples, read_clip
from headrace.encoding.sources import AudioShard, LocalShard, audio_shard, local_shard
from headrace.stores.storage import Storage

MOST_BYTES = 2 << 30  # of decoded and resampled audio in memory
_LONGEST_SHARE = 8  # a clip that takes more than this part of it is read in ranges by each encoding
_FRAME_BYTES = 4
_Range = tuple[AudioForm, int, int]


@dataclass(slots=True, eq=False)
class _HeldClip:
    """A clip in memory.

    Attributes:
        clip: the clip, which is decoded once.
        num_bytes: of its frames, and of the resampled ranges.
        ranges: the ranges that were resampled.
        frames: encoding → how many frames it has read.
        done: the encodings that have read as many as there are.
        lock: held while the clip is read.
    """

    clip: AudioClip
    num_bytes: int
    ranges: dict[_Range, FloatSamples] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, clip: AudioClip) -> "_HeldClip":
        """A clip of which nothing is decoded yet."""
        if clip.decoded is not None:
            return cls(clip, 0)
        return cls(replace(clip, decoded=DecodedFrames(in_memory=True)), _num_bytes(clip))


@dataclass(slots=True, eq=False)
class _OpenShard:
    """An audio shard that some encodings need, or will need.

    Attributes:
        stack: closes the file.
        file: the file; None until the first encoding has fetched it.
        fields: the samples by audio field.
        clips: the clips in memory; None for those that all have read.
        lock: held while the shard is fetched.
    """

    stack: ExitStack = field(default_factory=ExitStack)
    file: LocalShard | None = None
    fields: dict[str, AudioShard] = field(default_factory=dict)
    clips: dict[AudioClip, _HeldClip | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class SharedAudio:
    """The audio shards of one partition, for several encodings."""

    def __init__(self, storage: Storage, names: Iterable[str], most_bytes: int = MOST_BYTES) -> None:
        """Share the folder of audio shards between the encodings of these names."""
        self.storage = storage
        self.num_bytes = 0  # of audio in memory
        self._most_bytes = most_bytes
        self._needed: dict[str, dict[str, int] | None] = dict.fromkeys(names)  # shards → numbers; None: not known yet
        self._shards: dict[str, _OpenShard] = {}
        self._changed = threading.Condition()
        self._is_stopped = False

    def part(self, name: str) -> "SharedPart":
        """The part of one encoding."""
        return SharedPart(self, name)

    def stop(self) -> None:
        """Let all encodings end soon, with `CancelledError`."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def begin(self, name: str, shards: Mapping[str, int]) -> None:
        """Say which shards an encoding needs, with their numbers in the partition, unless it has ended before."""
        with self._changed:
            if name in self._needed:
                self._needed[name] = dict(shards)
                self._close_unneeded()

    def leave(self, name: str) -> None:
        """Need no shard any more. The encoding reads alone from then on."""
        with self._changed:
            self._needed.pop(name, None)
            self._close_unneeded()

    def wait_for_others(self, name: str) -> None:
        """Wait while another encoding needs an earlier shard than this one does."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or not self._is_ahead(name))
            self._check_stopped()

    @contextmanager
    def shard(self, name: str, shard: str, field_name: str) -> Iterator[AudioShard]:
        """Context with a shard; see `audio_shard`."""
        with self._changed:
            self._check_stopped()
            is_shared = name in self._needers(shard)
            opened = self._shards.setdefault(shard, _OpenShard()) if is_shared else _OpenShard()
        if not is_shared:
            with audio_shard(self.storage, shard, field_name) as alone:
                yield alone
            return
        with opened.lock:
            if opened.file is None:
                opened.file = opened.stack.enter_context(local_shard(self.storage, shard))
            listed = opened.fields.get(field_name) or opened.file.listed(field_name)
            opened.fields[field_name] = listed
        try:
            yield listed
        finally:
            with self._changed:
                (self._needed.get(name) or {}).pop(shard, None)
                self._close_unneeded()

    def read(self, name: str, clip: AudioClip, form: AudioForm, start: int, stop: int) -> FloatSamples:
        """A range of a clip; see `read_clip`."""
        with self._changed:
            self._check_stopped()
            held = self._held(name, clip)
        if held is None:
            return read_clip(clip, form, start, stop)
        with held.lock:
            found = held.ranges.get((form, start, stop))
            samples = read_clip(held.clip, form, start, stop) if found is None else found
            if found is None and form.sample_rate_hz != clip.sample_rate_hz:
                self._keep(held, (form, start, stop), samples)
        self._count(name, held, form, stop - start)
        return samples

    def _held(self, name: str, clip: AudioClip) -> _HeldClip | None:
        """The clip in memory; None if it is read as by an encoding alone."""
        opened = self._shards.get(clip.shard)
        if opened is None:
            return None
        if clip in opened.clips:
            return opened.clips[clip]
        new = _HeldClip.of(clip)
        is_too_long = _num_bytes(clip) * _LONGEST_SHARE > self._most_bytes
        is_full = self.num_bytes + new.num_bytes > self._most_bytes
        if is_too_long or is_full or self._needers(clip.shard) <= {name}:
            return None
        opened.clips[clip] = new
        self.num_bytes += new.num_bytes
        return new

    def _keep(self, held: _HeldClip, key: _Range, samples: FloatSamples) -> None:
        with self._changed:
            if self._is_held(held) and self.num_bytes + samples.nbytes <= self._most_bytes:
                held.ranges[key] = samples
                held.num_bytes += samples.nbytes
                self.num_bytes += samples.nbytes

    def _count(self, name: str, held: _HeldClip, form: AudioForm, num_frames: int) -> None:
        """Drop a clip that all have read to its end."""
        with self._changed:
            held.frames[name] = held.frames.get(name, 0) + num_frames
            if held.frames[name] >= held.clip.num_frames_at(form.sample_rate_hz):
                held.done.add(name)
            if self._is_held(held) and self._needers(held.clip.shard) <= held.done:
                self._shards[held.clip.shard].clips[held.clip] = None
                self.num_bytes -= held.num_bytes

    def _is_held(self, held: _HeldClip) -> bool:
        opened = self._shards.get(held.clip.shard)
        return opened is not None and opened.clips.get(held.clip) is held

    def _needers(self, shard: str) -> set[str]:
        return {name for name, needed in self._needed.items() if needed is None or shard in needed}

    def _is_ahead(self, name: str) -> bool:
        """Whether an encoding that has not ended needs earlier shards than this one. One that begins needs all."""
        needed = self._needed.get(name)
        if not needed:
            return False
        first = min(needed.values())
        others = [other for key, other in self._needed.items() if key != name]
        return any(other is None or (other and min(other.values()) < first) for other in others)

    def _close_unneeded(self) -> None:
        for shard in [shard for shard in self._shards if not self._needers(shard)]:
            opened = self._shards.pop(shard)
            self.num_bytes -= sum(held.num_bytes for held in opened.clips.values() if held is not None)
            opened.stack.close()
        self._changed.notify_all()

    def _check_stopped(self) -> None:
        if self._is_stopped:
            raise CancelledError


@dataclass(frozen=True, slots=True)
class SharedPart:
    """The shared audio as one encoding reads it; a context manager, at whose end the encoding needs no shard."""

    audio: SharedAudio
    name: str

    def __enter__(self) -> Self:
        """The part itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `SharedAudio.leave`."""
        self.audio.leave(self.name)

    def begin(self, shards: Mapping[str, int]) -> None:
        """See `SharedAudio.begin`."""
        self.audio.begin(self.name, shards)

    def wait_for_others(self) -> None:
        """See `SharedAudio.wait_for_others`."""
        self.audio.wait_for_others(self.name)

    def shard(self, shard: str, field_name: str) -> AbstractContextManager[AudioShard]:
        """See `SharedAudio.shard`."""
        return self.audio.shard(self.name, shard, field_name)

    def read(self, clip: AudioClip, form: AudioForm, start: int, stop: int) -> FloatSamples:
        """See `SharedAudio.read`."""
        return self.audio.read(self.name, clip, form, start, stop)


def _num_bytes(clip: AudioClip) -> int:
    """Of the decoded clip."""
    return clip.num_frames * clip.num_channels * _FRAME_BYTES
