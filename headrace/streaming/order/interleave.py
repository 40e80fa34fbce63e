"""How units of several streams follow one another: in proportion everywhere, shuffled close by, exact in number.

A lane is a sequence of units, each from one stream, so many from each. Owns that sequence and how much of each stream
lies before any point of it. Must not contain what a unit is (`layouts`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.streaming.order.bijection import mix, permute

_WINDOW_PHASE, _WINDOW_ORDER = range(101, 103)
_MIN_WINDOW = 16  # units; long enough to look random, short enough that a batch evaluates few of them
_UNITS_PER_STREAM = 4  # in a window, on average

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Interleave:
    """Sequences of units, one for each lane.

    The lane's U units are cut in M windows. Stream s with n of them has ``(n*(m+1) + phase)//M - (n*m + phase)//M`` in
    window m: its share, rounded now up, now down, and exact in the sum. (The phase, its own for each stream and lane,
    keeps rare streams of different lanes out of step.) Inside a window a keyed bijection says which stream comes when;
    the units of one stream stay in their order, so what lies before a point is a prefix of every stream.

    Attributes:
        counts: (num_streams, num_lanes); units of each stream in each lane.
        key: what the shuffle depends on.
    """

    counts: Ints
    key: int

    def __post_init__(self) -> None:
        """Refuse lanes so long that units times windows do not fit 64 bits; one stream alone needs no windows."""
        longest = int(self.lane_units.max(initial=0))
        if len(self.counts) > 1 and longest * (longest // self._window_units + 2) >= 2**63:
            raise ConfigError(
                f"{longest} samples of several streams in one canonical node are too many: raise num_canonical_nodes, "
                "or lower epoch_size"
            )

    @property
    def lane_units(self) -> Ints:
        """(num_lanes,); units in each lane."""
        return np.asarray(self.counts.sum(axis=0))

    def locate(self, lane: Ints, unit: Ints) -> tuple[Ints, Ints]:
        """Stream of each unit, and its number among the lane's units of that stream.

        Args:
            lane: (n,) lanes.
            unit: (n,) units, each below the number in its lane.
        """
        if len(self.counts) == 1:
            return np.zeros_like(unit), unit
        num_windows = int(self._num_windows().max())
        window, inverse = np.unique(lane * num_windows + self._window_of(lane, unit), return_inverse=True)
        begin, stream, number, first_unit = self._open(*np.divmod(window, num_windows))
        at = begin[inverse] + unit - first_unit[inverse]
        return stream[at], number[at]

    def num_before(self, lane: Ints, unit: Ints) -> Ints:
        """(num_streams, n); units of each stream before each unit, which may be the lane's end."""
        if len(self.counts) == 1:
            return unit[None]
        window = self._window_of(lane, np.maximum(unit - 1, 0))
        before = self._before_window(lane, window)
        begin, stream, _, first_unit = self._open(lane, window)
        for row in range(len(unit)):
            inside = stream[begin[row] : begin[row] + unit[row] - first_unit[row]]
            before[:, row] += np.bincount(inside, minlength=len(self.counts))
        return before

    def _open(self, lane: Ints, window: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Windows end to end: where each begins, stream and number of every unit; and each window's first unit."""
        before = self._before_window(lane, window)
        sizes = self._before_window(lane, window + 1) - before  # (num_streams, num_windows)
        num_streams, num_windows = sizes.shape
        total = sizes.sum(axis=0)
        begin = np.cumsum(total) - total
        # Slots of a window: its units sorted by stream, and by number in each stream.
        slot_stream = np.repeat(np.tile(np.arange(num_streams), num_windows), sizes.T.ravel())
        slot_number = np.arange(total.sum()) + np.repeat(
            (before - (np.cumsum(sizes, axis=0) - sizes) - begin).T.ravel(), sizes.T.ravel()
        )
        owner = np.repeat(np.arange(num_windows), total)
        place = np.arange(total.sum()) - begin[owner]
        keys = mix(self.key, _WINDOW_ORDER, lane, window)
        stream = slot_stream[begin[owner] + permute(place, total[owner], keys[owner])]
        # The j-th unit of a stream in this shuffled window is the stream's j-th slot: a stable sort finds it.
        number = np.empty_like(slot_number)
        number[np.argsort(owner * num_streams + stream, kind="stable")] = slot_number
        return begin, stream, number, before.sum(axis=0)

    def _window_of(self, lane: Ints, unit: Ints) -> Ints:
        """Window that holds each unit: a guess from the proportion that is never too high, then steps upwards."""
        num_units = np.maximum(self.lane_units[lane], 1)
        window = np.maximum(unit - len(self.counts), 0) * self._num_windows()[lane] // num_units
        while True:
            behind = (self._before_window(lane, window + 1).sum(axis=0) <= unit) & (unit < self.lane_units[lane])
            if not behind.any():
                return window
            window = window + behind

    def _before_window(self, lane: Ints, window: Ints) -> Ints:
        """(num_streams, n); units of each stream before each window."""
        num_windows = self._num_windows()[lane]
        stream = np.arange(len(self.counts))[:, None]
        phase = (mix(self.key, _WINDOW_PHASE, stream, lane) % num_windows.astype(np.uint64)).astype(np.int64)
        return (self.counts[:, lane] * window + phase) // num_windows

    def _num_windows(self) -> Ints:
        return np.maximum(self.lane_units // self._window_units, 1)

    @property
    def _window_units(self) -> int:
        return max(_MIN_WINDOW, _UNITS_PER_STREAM * len(self.counts))
