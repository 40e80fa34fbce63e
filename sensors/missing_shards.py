"""The state that the sensor `stale_partitions` keeps in its cursor, above all which partitions lack shards.

Decides how often and for how long a tick looks for missing shards. Losing the cursor costs one more look.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from headrace.assemble.missing_shards import FolderPartition, folder_mark, look
from headrace.stores.storage import Storage

_TICK_SECONDS = 0.3  # how long a tick looks
_FOLDER_SECONDS = 600.0  # from the beginning of one round to the next, where listing is cheap
_STORE_SECONDS = 3600.0  # likewise where each listing is a request that costs money
_CHANGED_SECONDS = 60.0  # likewise after files were added to a folder or removed
_MOST_REMEMBERED = 500


@dataclass(frozen=True, slots=True)
class SensorState:
    """The sensor's state.

    Attributes:
        mark: digest of the output at which there was nothing to do; None while there is work.
        began: when the current round over all partitions began, in seconds since 1970.
        folders: `folder_mark` when the round began.
        next: how many partitions the round has looked at; -1 when it is complete.
        missing: partitions that lack shards, as `folder partition`, and when that was first seen.
    """

    mark: str | None = None
    began: float = 0.0
    folders: str = ""
    next: int = -1
    missing: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "SensorState":
        """The state of a cursor; the initial state without one, or if another version wrote the cursor."""
        try:
            return cls(**json.loads(cursor)) if cursor else cls()
        except (ValueError, TypeError):
            return cls()

    def to_cursor(self) -> str:
        """See `from_cursor`."""
        return json.dumps(asdict(self))

    def of(self, folder: str) -> dict[str, float]:
        """Partitions of a shard folder that lack shards, and since when."""
        found = [(_place(name), since) for name, since in self.missing.items()]
        return {partition: since for (name, partition), since in found if name == folder}

    def looked(self, folders: Mapping[str, Storage], partitions: Sequence[str], now: float) -> "SensorState":
        """The state after a look of bounded length: first at partitions that lacked shards, then at the next ones."""
        deadline = time.monotonic() + _TICK_SECONDS
        known = [place for place in map(_place, self.missing) if place[0] in folders and place[1] in partitions]
        still, num_known = look(folders, known, lambda: time.monotonic() < deadline)
        missing = {_name(place): self.missing[_name(place)] for place in [*still, *known[num_known:]]}
        state = replace(self, missing=missing)
        if state.next < 0:
            state = _with_next_round(state, folders, now)
        if state.next < 0 or time.monotonic() >= deadline:
            return state
        places = [(folder, partition) for folder in folders for partition in partitions]
        found, count = look(folders, places[state.next :], lambda: time.monotonic() < deadline)
        new = [_name(place) for place in found][: _MOST_REMEMBERED - len(missing)]
        through = state.next + count >= len(places)
        return replace(state, missing=dict.fromkeys(new, now) | missing, next=-1 if through else state.next + count)


def _with_next_round(state: SensorState, folders: Mapping[str, Storage], now: float) -> SensorState:
    """The state at the beginning of the next round, if it is due; otherwise the same state."""
    mark = folder_mark(folders)
    pause = _CHANGED_SECONDS if mark != state.folders else _FOLDER_SECONDS if mark else _STORE_SECONDS
    return state if 0 <= now - state.began < pause else replace(state, began=now, folders=mark, next=0)


def _name(place: FolderPartition) -> str:
    return " ".join(place)


def _place(name: str) -> FolderPartition:
    folder, _, partition = name.rpartition(" ")
    return folder, partition
