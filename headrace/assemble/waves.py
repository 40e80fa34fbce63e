"""Decides which runs to start next to bring a data set up to date: order, limits, and waits after failures. Pure.

A change leads to a wave of runs: a scan of the source, then the partitions that changed, then, once for all of them,
the snapshots, the smoke test and the report. The decision depends only on the present state and not on events. Lost
events, restarts, and changes that are undone therefore need no special handling. `headrace.assemble.staleness` finds
stale partitions; the caller starts the runs.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Pause(StrEnum):
    """Why work is not started now."""

    RUNNING = "running"
    """A run is doing this work, or work that it depends on."""
    BACKING_OFF = "backing off"
    """It failed, and the wait after the failure is not over."""
    RESTING = "resting"
    """It failed too often. A change of its input, or a run that the user starts, ends this state."""
    CANCELLED = "cancelled: waits until its input changes or somebody starts it"


@dataclass(frozen=True, slots=True)
class RunPatience:
    """Waits before failed work is tried again, and the number of attempts.

    Attributes:
        waits_seconds: wait after the first, second, … failed attempt. After one attempt more than there are waits, the
            work rests.
    """

    waits_seconds: tuple[float, ...] = (15.0, 120.0)


@dataclass(frozen=True, slots=True)
class Attempts:
    """The failed attempts at some work.

    Attributes:
        count: their number, without cancelled ones.
        seconds_since_last: the time since the last one ended.
        is_cancelled: whether somebody cancelled the last one.
    """

    count: int
    seconds_since_last: float
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """The work that one partition needs.

    Attributes:
        stages: names of the assets to make, upstream first: `audio`, sets of columns, then sets of latents.
        token: digest of the wanted input and of the present state; attempts are counted per token.
        reason: the reason, unless it is a change of the input.
        num_together: this many of the first stages are always one run: audio and columns, which cost little; or, if
            the audio is there, all: sets of latents share the audio that they read.
    """

    stages: tuple[str, ...]
    token: str
    reason: str | None = None
    num_together: int = 1


@dataclass(frozen=True, slots=True)
class Situation:
    """The present state of a data set, as far as the decision depends on it.

    Attributes:
        partitions: the work of the partitions that need some, in the layout's order.
        finish: token of the work for the whole data set (snapshots, smoke test, report); None if it is done.
        rest: token of what can be made without `partitions`, if they lack no audio; else None.
        hours: approximate length of the audio in `partitions`.
        running: partitions that a run is working on.
        is_scanning: whether the source is being scanned.
        is_finishing: whether snapshots, smoke test or report are being made.
        attempts: failed and cancelled attempts by token.
    """

    partitions: Mapping[str, PartitionWork]
    finish: str | None
    rest: str | None = None
    hours: float = 0.0
    running: AbstractSet[str] = frozenset()
    is_scanning: bool = False
    is_finishing: bool = False
    attempts: Mapping[str, Attempts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits on the runs.

    Attributes:
        starts_per_tick: the most partitions to start at a time.
        runs_in_flight: the most partitions that are running or queued.
        whole_hours: with less audio than this, each partition is one run with audio and latents, which finishes
            soonest. With more, audio with columns is a run, and so are all sets of latents, so that CPUs and GPUs work
            at the same time.
        patience: waits after failures.
    """

    starts_per_tick: int = 8
    runs_in_flight: int = 16
    whole_hours: float = 10.0
    patience: RunPatience = RunPatience()


@dataclass(frozen=True, slots=True)
class Decision:
    """Work to start.

    Attributes:
        partitions: partition → its work; consecutive ones may share a run.
        finish: whether to make snapshots, smoke test and report; if `partitions` is not empty, in the same run.
        rest: whether to make what needs none of the partitions, because all of these rest.
        paused: name of a partition, or `FINISH` → why its work is not started.
    """

    partitions: dict[str, PartitionWork]
    finish: bool
    paused: dict[str, Pause]
    rest: bool = False

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to start and nothing to wait for."""
        return not (self.partitions or self.finish or self.paused)


FINISH = "finish"
"""The name of the last step in `Decision.paused`."""


def decide(situation: Situation, limits: RunLimits | None = None) -> Decision:
    """Decide what to start now. Equal situations give equal decisions."""
    limits = limits or RunLimits()
    starts: dict[str, PartitionWork] = {}
    paused: dict[str, Pause] = {}
    room = min(limits.starts_per_tick, limits.runs_in_flight - len(situation.running))
    is_bulk = situation.hours > limits.whole_hours
    for name, work in situation.partitions.items():
        # A running scan may change the partition again: waiting for the scan saves a run.
        is_held = situation.is_scanning or name in situation.running
        pause = Pause.RUNNING if is_held else pause_of(situation, work.token, limits.patience)
        if pause is not None:
            paused[name] = pause
        elif len(starts) < room:
            starts[name] = replace(work, stages=work.stages[: work.num_together]) if is_bulk else work
        else:
            paused[name] = Pause.RUNNING
    # The run of a wave's only partition also makes snapshots, smoke test and report, which is fastest.
    finish = (
        starts == situation.partitions and len(starts) == 1 and not situation.running and not situation.is_finishing
    )
    if situation.finish is not None and not situation.partitions:
        pause = pause_of(situation, situation.finish, limits.patience)
        if situation.is_scanning or situation.is_finishing or situation.running:
            pause = Pause.RUNNING
        if pause is None:
            finish = True
        else:
            paused[FINISH] = pause
    is_resting = bool(paused) and set(paused.values()) == {Pause.RESTING} and not (starts or finish)
    is_busy = situation.is_scanning or situation.is_finishing or bool(situation.running)
    is_free = situation.rest is not None and pause_of(situation, situation.rest, limits.patience) is None
    return Decision(starts, finish, paused, rest=is_resting and is_free and not is_busy)


def pause_of(situation: Situation, token: str, patience: RunPatience) -> Pause | None:
    """Why failed work has to wait; None if it may be started."""
    attempts = situation.attempts.get(token)
    return None if attempts is None else patience_left(attempts, patience)


def patience_left(attempts: Attempts, patience: RunPatience) -> Pause | None:
    """Decide from the attempts why failed work has to wait; None if it may be started."""
    if attempts.is_cancelled:
        return Pause.CANCELLED
    if attempts.count == 0:
        return None
    if attempts.count > len(patience.waits_seconds):
        return Pause.RESTING
    return Pause.BACKING_OFF if attempts.seconds_since_last < patience.waits_seconds[attempts.count - 1] else None
