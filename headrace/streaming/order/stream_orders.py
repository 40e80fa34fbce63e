"""The samples of all streams of a mixture: maps a row's stream and position to a sample.

A few streams are evaluated one after the other. Many, each with few rows of a batch, are evaluated together: the passes
that the rows are in have their shards end to end, so that a batch costs some numpy calls, not some for each stream. The
samples are the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.format.lazy import cached_property
from headrace.streaming.order.passes import BlockPermutation, FullPermutation, Pass, Picks, StreamOrder, pick_within

_FEW = 8
_PASSES_KEPT = 4  # times the number of streams
_MAX_PASSES = 1 << 40  # more than an epoch has samples
_KINDS: tuple[type[Any], ...] = (type(None), BlockPermutation, FullPermutation, Picks)

Ints = NDArray[np.int64]


class StreamOrders:
    """The orders of the streams of a mixture."""

    def __init__(self, streams: Sequence[StreamOrder]) -> None:
        self._streams = streams
        self._joined: _JoinedPasses | None = None

    def sample_ids(self, stream: Ints, position: Ints) -> Ints:
        """Samples at positions of streams (1-d), as numbers in storage order.

        Args:
            stream: number of the stream of each row.
            position: position in the order of that stream.
        """
        if len(self._streams) == 1:
            return self._streams[0].sample_ids(position)
        present = np.flatnonzero(np.bincount(stream, minlength=len(self._streams)))
        if len(present) > _FEW:
            return self._together(stream, position)
        samples = np.empty_like(position)
        for number in present.tolist():
            rows = stream == number
            samples[rows] = self._streams[number].sample_ids(position[rows])
        return samples

    def _together(self, stream: Ints, position: Ints) -> Ints:
        number, within = self._split(stream, position)
        code = stream * _MAX_PASSES + number
        if self._joined is None or not self._joined.has(code):
            self._joined = _JoinedPasses(self._streams, self._passes_with(code))
        return self._joined.sample_ids(code, within)

    def _split(self, stream: Ints, position: Ints) -> tuple[Ints, Ints]:
        """Pass of each position, and position in that pass, for rows of many streams; see `StreamOrder.split`."""
        size, planned = self._sizes[stream], self._planned[stream]
        number, within = np.divmod(position, size)
        past = position - planned
        late = (past >= 0) & (planned % size > 0)
        number = np.where(late, planned // size + 1 + past // size, number)
        return number, np.where(late, past % size, within)

    def _passes_with(self, code: Ints) -> dict[int, Pass]:
        """The passes of these rows, and those that are open already unless they have become many."""
        kept = self._joined.passes if self._joined is not None else {}
        wanted = sorted(set(code.tolist()))
        opened = {one: kept.get(one) or self._build(*divmod(one, _MAX_PASSES)) for one in wanted}
        return kept | opened if len(kept) + len(opened) <= _PASSES_KEPT * len(self._streams) else opened

    def _build(self, stream: int, number: int) -> Pass:
        return self._streams[stream].build_pass(number)

    @cached_property
    def _sizes(self) -> Ints:
        return np.array([max(1, stream.size) for stream in self._streams], np.int64)

    @cached_property
    def _planned(self) -> Ints:
        return np.array([stream.num_planned for stream in self._streams], np.int64)


class _JoinedPasses:
    """Passes of several streams whose lines are joined to one."""

    def __init__(self, streams: Sequence[StreamOrder], passes: Mapping[int, Pass]) -> None:
        """Join passes by their codes: stream times `_MAX_PASSES`, plus the number of the pass."""
        self.passes = dict(sorted(passes.items()))
        self._codes = np.array(list(self.passes), np.int64)
        lines = [(streams[code // _MAX_PASSES].storage, one) for code, one in self.passes.items()]
        ends = np.cumsum([0] + [one.line.size for _, one in lines])
        self._base = ends[:-1]
        self._starts = _joined(one.line.starts[:-1] + base for (_, one), base in zip(lines, ends, strict=False))
        self._shards = _joined(one.line.numbers for _, one in lines)
        self._first = _joined(storage.starts[one.line.numbers] for storage, one in lines)
        self._sizes = _joined(np.diff(storage.starts)[one.line.numbers] for storage, one in lines)
        permutations = [one.permutation for _, one in lines]
        self._kinds = np.array([_KINDS.index(type(permutation)) for permutation in permutations])
        self._settings = {kind: _settings(kind, permutations) for kind in _KINDS[1:]}
        self._is_picked = np.array([one.pick_key is not None for _, one in lines])
        self._pick_keys = np.array([one.pick_key or 0 for _, one in lines], np.uint64)

    def has(self, code: Ints) -> bool:
        """Whether the passes of all rows are among these."""
        place = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        return bool((self._codes[place] == code).all())

    def sample_ids(self, code: Ints, within: Ints) -> Ints:
        """Samples at positions in these passes, as numbers in the storage order of their streams."""
        which = np.searchsorted(self._codes, code)
        place = within.copy()
        kinds = self._kinds[which]
        for kind in np.flatnonzero(np.bincount(kinds)[1:]) + 1:
            rows = np.flatnonzero(kinds == kind)
            made = _KINDS[kind]
            place[rows] = made(*(values[which[rows]] for values in self._settings[made]))(within[rows])
        place += self._base[which]
        index = np.searchsorted(self._starts, place, side="right") - 1  # "right" steps over empty shards
        offset = place - self._starts[index]
        rows = np.flatnonzero(self._is_picked[which])
        if len(rows):
            at = index[rows]
            keys = self._pick_keys[which[rows]]
            offset[rows] = pick_within(keys, self._shards[at], self._sizes[at], offset[rows])
        return np.asarray(self._first[index] + offset)


def _settings(kind: type[Any], permutations: Sequence[object]) -> list[NDArray[Any]]:
    """The fields of the permutations of one kind, as arrays over all passes."""
    columns = []
    for field in fields(kind):
        values = [getattr(one, field.name) if isinstance(one, kind) else 1 for one in permutations]
        columns.append(np.array(values, np.uint64 if field.name == "key" else np.int64))
    return columns


def _joined(parts: Iterable[NDArray[Any]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64, copy=False)
