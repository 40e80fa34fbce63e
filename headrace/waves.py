"""What to start next so that a data set comes up to date, wave by wave. Pure.

A wave is what follows a change: a scan of the source, the partitions that it touched, then once for all of them the
snapshots, the smoke test and the report. Level-triggered: only what is there now counts, so a lost event, a restart or
a change that is taken back needs no case of its own. Owns order, bounds and patience; what is stale is
`headrace.reconcile`'s business, starting runs the caller's.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum


class Pause(StrEnum):
    """Why something that is wanted is not started now."""

    RUNNING = "running"
    """It is being made, or something that it needs is."""
    BACKING_OFF = "backing off"
    """It failed a moment ago."""
    RESTING = "resting"
    """It failed as often as it may; a change of its input, or a run by hand, wakes it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often the same work is tried.

    Attributes:
        waits_seconds: how long to wait after the first, second, … attempt that came to nothing. One attempt more than
            there are waits is made; then the work rests.
    """

    waits_seconds: tuple[float, ...] = (15.0, 120.0)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts that ended and left the work to be done: how many, and how long ago the last one ended."""

    count: int
    seconds_since_last: float


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """What one partition lacks.

    Attributes:
        stages: names of what has to be made of it, upstream first: `audio`, then sets of latents.
        token: digest of what it is to be made from and of what is there; a new token is new work.
    """

    stages: tuple[str, ...]
    token: str


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that counts, now.

    Attributes:
        partitions: what partitions lack, in the layout's order; those with nothing to do are not in it.
        finish: the token of what the whole data set lacks (snapshots, smoke test, report); None when it lacks nothing.
        hours: about how much audio the partitions hold that lack something.
        running: partitions that a run is at work on.
        is_scanning: whether the source is being scanned.
        is_finishing: whether snapshots, smoke test or report are being made.
        attempts: by token.
    """

    partitions: Mapping[str, PartitionWork]
    finish: str | None
    hours: float = 0.0
    running: AbstractSet[str] = frozenset()
    is_scanning: bool = False
    is_finishing: bool = False
    attempts: Mapping[str, Attempts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds.

    Attributes:
        starts_per_tick: partitions started at a time.
        runs_in_flight: partitions at work or queued at most.
        whole_hours: where there is less audio to make than this, each partition is one run, audio and latents together,
            which is soonest; where there is more, each stage is a run, so that processors and GPUs work side by side.
        patience: with work that fails.
    """

    starts_per_tick: int = 8
    runs_in_flight: int = 16
    whole_hours: float = 10.0
    patience: Patience = Patience()


@dataclass(frozen=True, slots=True)
class Decision:
    """What to start.

    Attributes:
        partitions: partition → stages to make, in one run each.
        finish: whether to make the snapshots, smoke test and report; together with a partition, in the same run.
        paused: what is wanted and not started, and why.
    """

    partitions: dict[str, PartitionWork]
    finish: bool
    paused: dict[str, Pause]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do, start or wait for."""
        return not (self.partitions or self.finish or self.paused)


FINISH = "finish"
"""The name of the last step in `Decision.paused`."""


def decide(situation: Situation, limits: Limits | None = None) -> Decision:
    """What to start now. Equal situations give equal decisions."""
    limits = limits or Limits()
    starts: dict[str, PartitionWork] = {}
    paused: dict[str, Pause] = {}
    room = min(limits.starts_per_tick, limits.runs_in_flight - len(situation.running))
    is_bulk = situation.hours > limits.whole_hours
    for name, work in situation.partitions.items():
        # What a scan under way finds may touch the partition again: waiting for it saves a run.
        is_held = situation.is_scanning or name in situation.running
        pause = Pause.RUNNING if is_held else pause_of(situation, work.token, limits.patience)
        if pause is not None:
            paused[name] = pause
        elif len(starts) < room:
            starts[name] = PartitionWork(work.stages[:1], work.token) if is_bulk else work
        else:
            paused[name] = Pause.RUNNING
    # The only partition of a wave takes all that follows into its run: soonest done, and fewest runs.
    finish = len(starts) == 1 == len(situation.partitions) and not situation.running and not situation.is_finishing
    if situation.finish is not None and not situation.partitions:
        pause = pause_of(situation, situation.finish, limits.patience)
        if situation.is_scanning or situation.is_finishing or situation.running:
            pause = Pause.RUNNING
        if pause is None:
            finish = True
        else:
            paused[FINISH] = pause
    return Decision(starts, finish, paused)


def pause_of(situation: Situation, token: str, patience: Patience) -> Pause | None:
    """Whether work that did not come off has to wait; None when it may be started."""
    attempts = situation.attempts.get(token)
    return None if attempts is None else patience_left(attempts, patience)


def patience_left(attempts: Attempts, patience: Patience) -> Pause | None:
    """The same from the attempts alone."""
    if attempts.count == 0:
        return None
    if attempts.count > len(patience.waits_seconds):
        return Pause.RESTING
    return Pause.BACKING_OFF if attempts.seconds_since_last < patience.waits_seconds[attempts.count - 1] else None
