"""Interleaves units of several streams: in proportion everywhere, shuffled within windows, exact in number.

The units of a canonical-node slot form a sequence; each unit is of one stream. This module computes the stream of each
unit, and the number of units of each stream before a unit. What a unit is, `layouts` decides.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.streaming.order.bijection import mix, permute

_WINDOW_OFFSET, _WINDOW_ORDER = range(101, 103)
_MIN_WINDOW = 16  # units; long enough to look random, short enough that a batch evaluates few of them
_UNITS_PER_STREAM = 4  # in a window, on average

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _OpenWindows:
    """The units of some windows, in order of slot and window.

    Attributes:
        stride: more than the units of any slot.
        first: (num_windows,); slot times `stride`, plus the window's first unit.
        begin: (num_windows,); where the units of each window begin in the lists of all units.
        stream: (num_units,); stream of each unit.
        number: (num_units,); number of each unit among its slot's units of that stream.
    """

    stride: int
    first: Ints
    begin: Ints
    stream: Ints
    number: Ints

    def find(self, slot: Ints, unit: Ints) -> tuple[Ints, Ints] | None:
        """Stream and number of each unit; None if some unit is in none of the windows."""
        wanted = slot * self.stride + unit
        window = np.searchsorted(self.first, wanted, side="right") - 1
        if window.min() < 0:
            return None
        at = self.begin[window] + wanted - self.first[window]
        if (at >= np.append(self.begin[1:], len(self.stream))[window]).any():
            return None
        return self.stream[at], self.number[at]


@dataclass(frozen=True, slots=True, eq=False)
class Interleave:
    """Sequences of units, one for each slot.

    The U units of a slot are cut into M windows. A stream with n of these units has
    ``(n*(m+1) + offset)//M - (n*m + offset)//M`` of them in window m: its share, rounded up or down, and exact in the
    sum. Each stream and slot has its own offset, so that units of a rare stream do not come in all slots at the same
    time. Inside a window a keyed bijection permutes the streams of the units. The units of one stream stay in their
    order, so the units before any point are a prefix of each stream.

    Attributes:
        counts: (num_streams, num_slots); units of each stream in each slot.
        key: key of the shuffle.
    """

    counts: Ints
    key: int
    _kept: "list[_OpenWindows]" = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Raise if a slot is so long that units times windows exceed 64 bits; a single stream needs no windows."""
        longest = int(self.slot_units.max(initial=0))
        if len(self.counts) > 1 and longest * (longest // self._window_units + 2) >= 2**63:
            raise ConfigError(
                f"{longest} samples of several streams in one canonical node are too many: raise num_canonical_nodes, "
                "or lower epoch_size"
            )

    @property
    def slot_units(self) -> Ints:
        """(num_slots,); units in each slot."""
        return np.asarray(self.counts.sum(axis=0))

    def locate(self, slot: Ints, unit: Ints) -> tuple[Ints, Ints]:
        """Stream of each unit, and its number among the slot's units of that stream.

        Args:
            slot: (n,) slots.
            unit: (n,) units, each below the number in its slot.
        """
        if len(self.counts) == 1 or not len(unit):
            return np.zeros_like(unit), unit
        found = self._kept[0].find(slot, unit) if self._kept else None
        if found is None:
            self._kept[:] = [self._open_all(slot, unit)]  # the next rows are probably in the same windows
            found = self._kept[0].find(slot, unit)
        assert found is not None  # every window between those of the first and the last unit is open
        return found

    def _open_all(self, slot: Ints, unit: Ints) -> "_OpenWindows":
        """Open, in each slot, all windows from that of its first unit to that of its last."""
        slots, place = np.unique(slot, return_inverse=True)
        first, last = np.full(len(slots), self.slot_units.max()), np.zeros(len(slots), np.int64)
        np.minimum.at(first, place, unit)
        np.maximum.at(last, place, unit)
        low, high = np.split(self._window_of(np.tile(slots, 2), np.concatenate([first, last])), 2)
        num = high + 1 - low
        window = np.arange(num.sum()) + np.repeat(low - (np.cumsum(num) - num), num)
        slot = np.repeat(slots, num)
        begin, stream, number, first_unit = self._open(slot, window)
        stride = int(self.slot_units.max()) + 1
        return _OpenWindows(stride, slot * stride + first_unit, begin, stream, number)

    def num_before(self, slot: Ints, unit: Ints) -> Ints:
        """(num_streams, n); units of each stream before each unit, which may be the slot's end."""
        if len(self.counts) == 1:
            return unit[None]
        window = self._window_of(slot, np.maximum(unit - 1, 0))
        before = self._before_window(slot, window)
        begin, stream, _, first_unit = self._open(slot, window)
        for row in range(len(unit)):
            inside = stream[begin[row] : begin[row] + unit[row] - first_unit[row]]
            before[:, row] += np.bincount(inside, minlength=len(self.counts))
        return before

    def _open(self, slot: Ints, window: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Begin of each window in the list of all their units; stream and number of these; first unit of each."""
        before = self._before_window(slot, window)
        sizes = self._before_window(slot, window + 1) - before  # (num_streams, num_windows)
        num_streams, num_windows = sizes.shape
        total = sizes.sum(axis=0)
        begin = np.cumsum(total) - total
        # The units of a window, sorted by stream, and by number in each stream.
        sorted_stream = np.repeat(np.tile(np.arange(num_streams), num_windows), sizes.T.ravel())
        sorted_number = np.arange(total.sum()) + np.repeat(
            (before - (np.cumsum(sizes, axis=0) - sizes) - begin).T.ravel(), sizes.T.ravel()
        )
        owner = np.repeat(np.arange(num_windows), total)
        place = np.arange(total.sum()) - begin[owner]
        keys = mix(self.key, _WINDOW_ORDER, slot, window)
        stream = sorted_stream[begin[owner] + permute(place, total[owner], keys[owner])]
        # The j-th unit of a stream in the shuffled window is its j-th in the sorted window: a stable sort finds it.
        number = np.empty_like(sorted_number)
        number[np.argsort(owner * num_streams + stream, kind="stable")] = sorted_number
        return begin, stream, number, before.sum(axis=0)

    def _window_of(self, slot: Ints, unit: Ints) -> Ints:
        """Window of each unit: an estimate from the proportion that is never too high, then steps upwards."""
        num_units = np.maximum(self.slot_units[slot], 1)
        window = np.maximum(unit - len(self.counts), 0) * self._num_windows()[slot] // num_units
        while True:
            behind = (self._before_window(slot, window + 1).sum(axis=0) <= unit) & (unit < self.slot_units[slot])
            if not behind.any():
                return window
            window = window + behind

    def _before_window(self, slot: Ints, window: Ints) -> Ints:
        """(num_streams, n); units of each stream before each window."""
        num_windows = self._num_windows()[slot]
        stream = np.arange(len(self.counts))[:, None]
        offset = (mix(self.key, _WINDOW_OFFSET, stream, slot) % num_windows.astype(np.uint64)).astype(np.int64)
        return (self.counts[:, slot] * window + offset) // num_windows

    def _num_windows(self) -> Ints:
        return np.maximum(self.slot_units // self._window_units, 1)

    @property
    def _window_units(self) -> int:
        return max(_MIN_WINDOW, _UNITS_PER_STREAM * len(self.counts))
