"""Counts the epochs of a dataset and the delivered batches, and saves and loads the state.

It also counts the epochs of the copies that torch's DataLoader makes for its workers (`epoch_board`). Orders and states
are made by `planner`.
"""

import json
import os
import warnings
from dataclasses import dataclass
from typing import Any

import torch.utils.data  # noqa: TID253 - a DataLoader's workers are known by it

from headrace.arguments import whole
from headrace.errors import StateError
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.state import OrderState, StreamState
from headrace.streaming.run.epoch_board import EpochBoard
from headrace.streaming.run.epochs import EpochRun
from headrace.streaming.run.planner import Planner


@dataclass(slots=True)
class _Position:
    """Position in a run: delivered batches, and delivered rows of the next batch."""

    run: EpochRun
    num_batches: int = 0
    num_rows: int = 0

    @property
    def row(self) -> int:
        """Row of the epoch for a saved state."""
        row = self.run.row_after(self.num_batches, self.num_rows)
        return self.run.row_at(row) if self.num_rows else row


@dataclass(slots=True)
class _Upcoming:
    """The next run: its order, which is arithmetic, and the run, for which lengths may have to be read.

    Attributes:
        epoch: its epoch.
        waiting: the loaded state from which it continues.
        streams: what it reads.
        order: its order.
        run: the run; None until somebody asks for it.
    """

    epoch: int
    waiting: OrderState | None
    streams: list[StreamState]
    order: EpochOrder
    run: EpochRun | None = None

    def is_of(self, epoch: int, waiting: OrderState | None, streams: list[StreamState]) -> bool:
        """Whether it is still the next run."""
        return self.epoch == epoch and self.waiting is waiting and self.streams == streams


class EpochProgress:
    """The position of a dataset in its epochs."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._epoch = 0  # the next one, if no state is loaded
        self._waiting: OrderState | None = None
        self._position: _Position | None = None
        self._upcoming: _Upcoming | None = None
        self._counted: tuple[EpochRun, int] | None = None
        self._elsewhere: EpochOrder | None = None  # the epoch that copies in workers are in
        self._first_batch = 0
        self._is_fresh = True  # no run has begun, and no state was loaded
        self._board = EpochBoard()
        self._settled_in: int | None = None
        self._num_loaded = 0  # number of loaded states, also of those before this copy was made

    @property
    def waiting(self) -> OrderState | None:
        """The loaded state from which the next run continues."""
        return self._waiting

    @property
    def next_epoch(self) -> int:
        """The epoch of the next run."""
        self._settle()
        return self._next_epoch

    def next_order(self) -> EpochOrder:
        """The order of the next run."""
        self._settle()
        return self._next().order

    def next_run(self) -> EpochRun:
        """The next epoch, or the rest of the one that a state was saved in; the same object until it begins."""
        self._settle()
        return self._next_run()

    def num_batches_before(self, run: EpochRun) -> int:
        """Batches of one rank before a run in its epoch; counted once for a run."""
        if self._counted is None or self._counted[0] is not run:
            self._counted = run, self._planner.num_batches_before(run)
        return self._counted[1]

    def tell_epoch(self, epoch: int) -> None:
        """Begin with this epoch of a trainer, unless a run has begun or a state was loaded: then the count here holds.

        A trainer that is ahead of the count has resumed without the state: it warns.
        """
        ahead = epoch - self.next_epoch
        if self._is_fresh:
            self._epoch = epoch
        elif ahead > 0 and not self._num_loaded:
            warnings.warn(
                f"the trainer begins epoch {epoch}, but the next one of this loader is {epoch - ahead}: the run was "
                "resumed without the loader's state, so batches come again; save loader.state_dict() with each "
                "checkpoint, and load it (docs/order.md, With trainers)",
                stacklevel=3,
            )

    def restart(self, epoch: int) -> None:
        """Make an epoch the next one, from its beginning."""
        self._settle()
        self._skip_to(epoch)

    def begin(self) -> EpochRun:
        """Start the next run."""
        run, self._upcoming = self.next_run(), None
        self._is_fresh = False
        self._epoch, self._waiting, self._elsewhere = run.epoch + 1, None, None
        self._position = _Position(run)
        self._write(run.epoch)
        return run

    def take_first_batch(self) -> int:
        """First batch of this worker in the run that has just begun."""
        first, self._first_batch = self._first_batch, 0
        return first

    def delivered(self, run: EpochRun, num_batches: int, num_rows: int = 0) -> None:
        """Record that this many batches of a run, and rows of the next one, were delivered."""
        if self._position is not None and self._position.run is run:
            self._position.num_batches, self._position.num_rows = num_batches, num_rows

    def state(self, num_samples: int | None, *, from_beginning: bool) -> dict[str, Any]:
        """See `StreamingDataset.state_dict`."""
        self._settle()
        info = torch.utils.data.get_worker_info()
        if info is not None:
            return self._worker_state(info.id, info.num_workers)
        if num_samples is not None:
            run = self._run_to_count_in()
            row = whole("num_samples", num_samples, least=0) + (0 if from_beginning else run.order.start)
            return self._state_at(run, run.row_at(row)).to_json()
        if self._elsewhere is not None:
            raise StateError(
                "workers of another loader deliver this dataset's samples, so it cannot count them: pass "
                "num_samples=…, or use StreamingDataLoader or torchdata's StatefulDataLoader"
            )
        if self._position is not None:
            return self._state_at(self._position.run, self._position.row).to_json()
        return self._state_before_next().to_json()

    def state_before_last_batch(self) -> dict[str, Any]:
        """The position before the batch that was delivered last, which comes again."""
        position = self._position
        if position is None or not position.num_batches:
            return self.state(None, from_beginning=True)
        return self._state_at(position.run, position.run.row_after(position.num_batches - 1)).to_json()

    def loaded_elsewhere(self) -> dict[str, Any] | None:
        """In a persistent worker: the state that the original dataset has loaded since the last call."""
        if torch.utils.data.get_worker_info() is None:
            return None
        self._num_loaded, state = self._board.posted(self._num_loaded)
        return None if state is None else json.loads(state)

    def load(self, state: OrderState, worker: dict[str, Any] | None) -> None:
        """Continue from a state; in a worker, from the next batch of this worker.

        Raises:
            StateError: the state is of another worker.
        """
        info = torch.utils.data.get_worker_info()
        here = (info.id, info.num_workers) if info is not None else None
        if worker is not None and (worker["id"], worker["num_workers"]) != here:
            raise StateError(
                f"the state is of worker {worker['id']} of {worker['num_workers']} of a DataLoader: load it with "
                f"torchdata's StatefulDataLoader and num_workers={worker['num_workers']}"
            )
        self._waiting, self._position, self._elsewhere = state, None, None
        self._is_fresh = False
        self._first_batch = 0 if worker is None else int(worker["next_batch"])
        if info is None:
            self._board.clear()
            self._num_loaded = self._board.post(json.dumps(state.to_json()).encode())
        self._settled_in = os.getpid()
        self._write(state.epoch)

    @property
    def _next_epoch(self) -> int:
        return self._epoch if self._waiting is None else self._waiting.epoch

    def _next(self) -> _Upcoming:
        streams = self._planner.streams.states()
        if self._upcoming is None or not self._upcoming.is_of(self._next_epoch, self._waiting, streams):
            waiting = self._waiting
            order = self._planner.order(self._epoch) if waiting is None else self._planner.resumed(waiting)
            self._upcoming = _Upcoming(self._next_epoch, waiting, streams, order)
        return self._upcoming

    def _next_run(self) -> EpochRun:
        upcoming = self._next()
        if upcoming.run is None:
            upcoming.run = self._planner.run(upcoming.order)
        return upcoming.run

    def _run_to_count_in(self) -> EpochRun:
        """The run that delivered samples are counted in: here, elsewhere, or the next one."""
        if self._position is not None:
            return self._position.run
        return self._next_run() if self._elsewhere is None else self._planner.run(self._elsewhere)

    def _state_at(self, run: EpochRun, row: int) -> OrderState:
        """The state before a row of a run; if no batch is left, the state at the beginning of the next epoch."""
        if row >= run.row_after(len(run)) or self._planner.has_ended(run.order, row):
            return self._planner.state(self._planner.order(run.epoch + 1), 0)
        return self._planner.state(run.order, row)

    def _state_before_next(self) -> OrderState:
        return self._waiting or self._planner.state(self._next().order, 0)

    def _worker_state(self, worker: int, num_workers: int) -> dict[str, Any]:
        """The state of one worker: the start of the run, and the next batch of this worker."""
        if self._position is None:
            return self._state_before_next().to_json()
        run = self._position.run
        state = self._planner.state(run.order, run.row_after(0)).to_json()
        return state | {"worker": {"id": worker, "num_workers": num_workers, "next_batch": self._position.num_batches}}

    def _settle(self) -> None:
        """Read which epochs copies in workers have begun; in a worker, the epoch of the other workers."""
        info = torch.utils.data.get_worker_info()
        if info is None:
            latest = self._board.latest()
            if latest is not None and latest >= self._next_epoch:
                is_waiting = self._waiting is not None and self._waiting.epoch == latest
                self._elsewhere = self._next().order if is_waiting else self._planner.order(latest)
                self._skip_to(latest + 1)
        elif self._settled_in != os.getpid():
            self._settled_in, self._position = os.getpid(), None
            epoch = self._board.claim(info.id, info.seed - info.id, self._next_epoch)
            if epoch != self._next_epoch:
                self._skip_to(epoch)

    def _skip_to(self, epoch: int) -> None:
        self._epoch, self._waiting, self._position, self._first_batch = epoch, None, None, 0
        self._is_fresh = False

    def _write(self, epoch: int) -> None:
        """Write the epoch for the other workers and the original dataset."""
        info = torch.utils.data.get_worker_info()
        if info is not None:
            self._board.write(info.id, info.seed - info.id, epoch)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the runs of this process."""
        return self.__dict__ | {"_position": None, "_elsewhere": None, "_upcoming": None, "_counted": None}
