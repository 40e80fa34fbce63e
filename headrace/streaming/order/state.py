"""Saves a position in a training run as JSON, and computes the order from a saved position on.

A state is plain, readable JSON. It holds no random state and nothing of the world, workers or caches. The order is
computed by `order`, and the caller opens the snapshots that a state names.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from headrace.errors import StateError
from headrace.format.tars.member_names import KeyAt
from headrace.format.typed_json import COUNTS, typed
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture
from headrace.streaming.order.phases import EpochPhase, current_phase, first_phase, next_phase
from headrace.streaming.order.spec import FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.windows import Windows

STATE_VERSION = 2

_TOP_LEVEL = ("shuffle_seed", "num_canonical_nodes")  # at the same place as in MosaicML's states


@dataclass(frozen=True, slots=True)
class ViewState:
    """The view of a stream in a state.

    Attributes:
        definition: what the view chooses, in a line.
        snapshot: number of its snapshot; None for a condition that is evaluated on the spot (`where=`).
        columns: for such a condition, the snapshots of the columns that it was evaluated on, by set.
    """

    definition: str
    snapshot: int | None = None
    columns: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON object without empty fields; `from_json` is its inverse."""
        fields: dict[str, Any] = {"definition": self.definition}
        if self.snapshot is not None:
            fields["snapshot"] = self.snapshot
        return fields | ({"columns": dict(self.columns)} if self.columns else {})

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The view that `to_json` wrote. Raises `ValueError` when a field is missing, unknown or invalid."""
        return typed(cls, fields | {"columns": sorted(fields.get("columns", {}).items())})

    def __str__(self) -> str:
        """Definition and snapshot, for messages."""
        number = "" if self.snapshot is None else f" at snapshot {self.snapshot}"
        return f"view ({self.definition}){number}"


@dataclass(frozen=True, slots=True)
class StreamState:
    """One stream of the mixture in a state.

    Attributes:
        name: name of the stream.
        split: the split of the snapshot that is read; None for all.
        snapshot: number of the snapshot that is read, or that filtered a glob or `sizes.json` inside an output; None
            for other plain WebDatasets.
        fingerprint: digest of the list of shards; equal for the same shards in the same order.
        position: samples that the stream has given in this epoch. It is for human readers and not needed to resume;
            inside a window of length buckets it counts as if the window were not sorted.
        latents_snapshots: numbers of the snapshots of the joined latents, one for each folder.
        latents_fingerprints: their fingerprints. The order does not depend on them: a question to the run needs no
            latents.
        key_at: where keys end in plain tars; the fingerprint depends on it as well.
        view: the view; None for all samples. The fingerprint depends on its counts as well.
        columns_snapshots: numbers of the snapshots of the joined columns, by name of the set. The order does not
            depend on them: a run may go on with further sets, or without some.
        revision: the commit of the repository of the Hub that is read; None for other places.
        windows: the windows that samples are cut into; None for whole samples. The fingerprint depends on them as well.
        remote: where the stream was read, for questions to the run; None for a list of tars and for URLs with secrets.
            The order does not depend on it: data may move.
    """

    name: str
    split: str | None
    snapshot: int | None
    fingerprint: str
    position: int = 0
    latents_snapshots: tuple[int, ...] = ()
    latents_fingerprints: tuple[str, ...] = ()
    key_at: KeyAt = KeyAt.FIRST_DOT
    view: ViewState | None = None
    columns_snapshots: tuple[tuple[str, int], ...] = ()
    revision: str | None = None
    windows: Windows | None = None
    remote: str | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON object without what is empty or `key_at`'s default; `from_json` is its inverse."""
        may_lack = {
            "latents_snapshots": list(self.latents_snapshots),
            "latents_fingerprints": list(self.latents_fingerprints),
            "key_at": None if self.key_at is KeyAt.FIRST_DOT else self.key_at.value,
            "view": self.view and self.view.to_json(),
            "columns_snapshots": dict(self.columns_snapshots),
            "revision": self.revision,
            "windows": self.windows and self.windows.to_json(),
            "remote": self.remote,
        }
        fields = asdict(self) | may_lack
        return {name: value for name, value in fields.items() if value or name not in may_lack}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The stream that `to_json` wrote. Raises `ValueError` when a field is missing, unknown or invalid."""
        view = fields.get("view")
        pairs = list(fields.get("columns_snapshots", {}).items())
        found = typed(cls, fields | {"columns_snapshots": pairs, "view": None})
        return found if view is None else replace(found, view=ViewState.from_json(view))

    @property
    def data(self) -> tuple[object, ...]:
        """Split, fingerprints, definition of the view, and windows: they identify the items and why these are read."""
        view = None if self.view is None else self.view.definition
        windows = "" if self.windows is None else self.windows.arguments
        return self.split, self.fingerprint, self.latents_fingerprints, view, windows

    def __str__(self) -> str:
        """Split, snapshots and fingerprint, for messages."""
        split = "all splits" if self.split is None else f"split {self.split!r}"
        snapshot = "" if self.snapshot is None else f" of snapshot {self.snapshot}"
        latents = f" with latents at {', '.join(map(str, self.latents_snapshots))}" if self.latents_snapshots else ""
        pins = ", ".join(f"{name} at {number}" for name, number in self.columns_snapshots)
        latents += f" with columns {pins}" if pins else ""
        keys = "" if self.key_at is KeyAt.FIRST_DOT else f" with key_at={self.key_at.value!r}"
        view = "" if self.view is None else f" with {self.view}"
        windows = "" if self.windows is None else f" with {self.windows.arguments}"
        fingerprints = " ".join([self.fingerprint, *self.latents_fingerprints])
        return f"{split}{snapshot}{view}{windows}{latents}{keys} ({fingerprints})"


@dataclass(frozen=True, slots=True)
class OrderState:
    """A position in an order, with everything that the order depends on.

    Attributes:
        epoch: number of the epoch.
        sample_in_epoch: rows of the epoch that were delivered, over all ranks; padding rows count, except with
            `FrameBudget`.
        spec: the settings.
        streams: the mixture, in order.
        phases: the phases of the epoch so far.
    """

    epoch: int
    sample_in_epoch: int
    spec: OrderSpec
    streams: tuple[StreamState, ...]
    phases: tuple[EpochPhase, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON object; `from_json` is its inverse."""
        spec = self.spec.to_json()
        return {
            "headrace_state": STATE_VERSION,
            "epoch": self.epoch,
            "sample_in_epoch": self.sample_in_epoch,
            **{name: spec.pop(name) for name in _TOP_LEVEL},
            "order": spec,
            "streams": [stream.to_json() for stream in self.streams],
            "phases": [
                asdict(phase) | {"streams": [asdict(stream) for stream in phase.streams]} for phase in self.phases
            ],
        }

    @classmethod
    def from_json(cls, state: object) -> Self:
        """The state that `to_json` wrote.

        Raises:
            StateError: it is of another version or not a state of Headrace, or a field is missing or invalid.
        """
        if not isinstance(state, dict):
            raise StateError(f"expected a state from state_dict(), which is a dict, not {type(state).__name__}")
        version = state.get("headrace_state")
        if version != STATE_VERSION:
            raise StateError(
                f"headrace_state is {version!r}, expected {STATE_VERSION}: this state was written by "
                f"{'another version of Headrace' if version else 'something else'}; resume with what wrote it"
            )
        if (name := next((name for name in ("streams", "phases") if not state.get(name)), None)) is not None:
            raise StateError(f"the state has no {name}: it was cut or edited")
        try:
            return cls(
                epoch=_count(state, "epoch"),
                sample_in_epoch=_count(state, "sample_in_epoch"),
                spec=OrderSpec.from_json(state["order"] | {name: state[name] for name in _TOP_LEVEL}),
                streams=tuple(StreamState.from_json(stream) for stream in state["streams"]),
                phases=typed(tuple[EpochPhase, ...], state["phases"]),
            )
        except KeyError as error:
            raise StateError(f"the state lacks the field {error}: it was cut or edited") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise StateError(f"the state has an invalid value: {error}") from error


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or value not in COUNTS:
        raise ValueError(f"{name} is {value!r}, expected a whole number from 0 on")
    return value


def save(order: EpochOrder, sample_in_epoch: int, streams: Sequence[StreamState]) -> OrderState:
    """State of an order after `sample_in_epoch`, a value of `GlobalBatches.batch_start`.

    Args:
        order: order of the epoch.
        sample_in_epoch: see `OrderState`.
        streams: what the streams of the mixture read; their positions are filled in.
    """
    positions = order.stream_positions(sample_in_epoch)
    filled = (replace(stream, position=positions[stream.name]) for stream in streams)
    return OrderState(order.epoch, sample_in_epoch, order.spec, tuple(filled), order.phases)


def resume(
    state: OrderState,
    spec: OrderSpec,
    mixture: Mixture,
    snapshots: Sequence[StreamState],
    *,
    change_streams: bool = False,
) -> EpochOrder:
    """The order from the position of a state on.

    Args:
        state: the saved state.
        spec: the current settings. The global batch size may differ if the order does not depend on it.
        mixture: the current streams.
        snapshots: what each stream reads now; same names and order as the streams of the mixture.
        change_streams: whether `mixture` may be another mixture, which then applies from the position on; streams that
            stay continue at their positions.

    Raises:
        StateError: something that the order depends on differs; the message has its name, both values and a remedy.
    """
    _check_spec(state.spec, spec)
    state = _with_names_of_now(state, snapshots)
    check_streams(state, snapshots, change_streams=change_streams)
    wanted = _phase_now(state, mixture)
    if wanted == state.phases[-1]:
        order = EpochOrder(spec, mixture, state.epoch, phases=state.phases, start=state.sample_in_epoch)
        _check_is_inside(state, order)
        return order
    if not change_streams:
        raise StateError(
            f"the mixture differs: the state was saved with {_mixture(state.phases[-1])}, but now it is "
            f"{_mixture(wanted)}; restore the streams' weights and epoch_size, or pass change_streams=True to "
            "continue with the new mixture"
        )
    phases = _change_mixture(state, spec, mixture)
    return EpochOrder(spec, mixture, state.epoch, phases=phases, start=state.sample_in_epoch)


def _check_is_inside(state: OrderState, order: EpochOrder) -> None:
    """Raise if a position is past the end of the epoch; it may be among the padding rows of the last global batch."""
    stop = state.phases[-1].start + order.num_rows
    if state.sample_in_epoch >= stop + order.spec.global_batch_size:
        raise StateError(
            f"sample_in_epoch is {state.sample_in_epoch}, but the epoch has {stop} rows: the state was edited"
        )


def _with_names_of_now(state: OrderState, snapshots: Sequence[StreamState]) -> OrderState:
    """The state with the current names of its streams, if only the names differ: data may be moved."""
    if {stream.name for stream in state.streams} == {stream.name for stream in snapshots}:
        return state
    if [stream.data for stream in state.streams] != [stream.data for stream in snapshots]:
        return state
    now = {old.name: new.name for old, new in zip(state.streams, snapshots, strict=True)}
    phases = tuple(
        replace(
            phase, streams=tuple(replace(stream, name=now.get(stream.name, stream.name)) for stream in phase.streams)
        )
        for phase in state.phases
    )
    streams = tuple(replace(stream, name=now[stream.name]) for stream in state.streams)
    return replace(state, streams=streams, phases=phases)


def _phase_now(state: OrderState, mixture: Mixture) -> EpochPhase:
    """The last phase of the state, computed again from the current mixture."""
    *before, last = state.phases
    if not before:
        return first_phase(mixture)
    return next_phase(current_phase(state.spec, state.epoch, before), last.start, mixture)


def _change_mixture(state: OrderState, spec: OrderSpec, mixture: Mixture) -> tuple[EpochPhase, ...]:
    if state.sample_in_epoch == 0:
        return (first_phase(mixture),)
    opened = current_phase(spec, state.epoch, state.phases)
    _check_window_end(spec, state.sample_in_epoch - opened.phase.start)
    return (*state.phases, next_phase(opened, state.sample_in_epoch, mixture))


def _check_window_end(spec: OrderSpec, row: int) -> None:
    """Raise if the mixture changes where the delivered samples are not a prefix of the streams' orders."""
    if isinstance(spec.buckets, FrameBudget):
        raise StateError(
            "the mixture cannot change inside an epoch with FrameBudget: load a state that was saved at the end of an "
            "epoch"
        )
    if not isinstance(spec.buckets, LengthBuckets):
        return
    window = spec.buckets.window_batches * spec.global_batch_size
    if row % window:
        raise StateError(
            f"the mixture cannot change {row % window} samples into a window of length buckets ({window} samples): "
            "load a state that was saved at a window's end, or at the end of the epoch"
        )


def _check_spec(saved: OrderSpec, now: OrderSpec) -> None:
    for name in (field.name for field in fields(OrderSpec)):
        before, after = getattr(saved, name), getattr(now, name)
        if before == after or (name == "global_batch_size" and not saved.needs_global_batch):
            continue
        raise StateError(
            f"{name} differs: the state was saved with {_shown(before)}, but now it is {_shown(after)}, which gives "
            f"another order; {_setting(name, before)}, or start from the beginning"
        )


def _setting(name: str, value: object) -> str:
    """The instruction that gives a setting of the order this value."""
    if name == "global_batch_size":
        return f"set batch_size so that batch_size times the number of ranks is {value}"
    if name == "buckets":
        return f"set batching to {value or 'fixed'}"
    return f"set {name} to {_shown(value)}"


def check_streams(state: OrderState, snapshots: Sequence[StreamState], *, change_streams: bool) -> None:
    """Raise `StateError` if streams that are open are not those of a state."""
    saved = {stream.name: stream for stream in state.streams}
    names = [stream.name for stream in snapshots]
    if names != list(saved) and not change_streams:
        raise StateError(
            f"the streams differ: the state was saved with {list(saved)}, but now they are {names}; restore them, or "
            "pass change_streams=True to continue with the new mixture"
        )
    for stream in snapshots:
        before = saved.get(stream.name, stream)
        if before.data != stream.data:
            raise StateError(
                f"the data of stream {stream.name!r} differ: the state was saved on {before}, but now it reads "
                f"{stream}; {_way_back(before, stream)}, or start from the beginning"
            )


def _way_back(before: StreamState, now: StreamState) -> str:  # noqa: PLR0911 - one for each difference
    """The instruction that makes a stream read what it read before."""
    if before.split != now.split:
        return f"pass split={before.split!r}"
    if before.key_at != now.key_at:
        return f"pass key_at={before.key_at.value!r}"
    if (fault := _changed_view(before.view, now.view)) is not None:
        return fault
    if before.windows != now.windows:
        return "leave out window_seconds" if before.windows is None else f"pass {before.windows.arguments}"
    if len(before.latents_snapshots) != len(now.latents_snapshots):
        return f"join {len(before.latents_snapshots)} folders of latents, as in the saved run"
    if None not in {before.snapshot, now.snapshot} and before.snapshot != now.snapshot:
        return f"open snapshot {before.snapshot}"
    if before.snapshot is None and now.snapshot is not None:
        return f"pass snapshot=… with the number of the one that was read then, if not {now.snapshot}"
    return "read the data set that it was saved on, by the same kind of remote (folder, glob or sizes.json)"


def _changed_view(before: ViewState | None, now: ViewState | None) -> str | None:
    """The instruction for a view that was added, left out or defined in another way; None if it is the same."""
    if before is None or now is None:
        return None if before == now else f"pass {'no view= or where=' if before is None else f'its {before}'}"
    if before.definition != now.definition:
        return f"the view has changed: define it again as: {before.definition}"
    if before.snapshot != now.snapshot:
        return f"open snapshot {before.snapshot} of the view"
    if before.columns != now.columns:
        return "the columns that the condition reads have changed: restore their snapshots"
    return None


def _mixture(phase: EpochPhase) -> str:
    return ", ".join(f"{stream.name}: {stream.num_samples} samples" for stream in phase.streams)


def _shown(value: object) -> str:
    return str(value) if isinstance(value, str) else repr(value)
