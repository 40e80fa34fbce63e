"""A saved position in a training run: what it holds, how it is written, and when it may be resumed.

The position is plain, readable JSON; it holds no random state and nothing of the world, workers or caches. Must not
contain how an order is computed (`order`), nor look for snapshots: the caller opens those that the state names.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from headrace.errors import StateError
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.legs import Leg, LegStream, first_leg, next_leg, open_leg
from headrace.streaming.order.mixing import Mixture
from headrace.streaming.order.spec import FrameBudget, LengthBuckets, OrderSpec

STATE_VERSION = 2  # 1 did not say the split

_TOP_LEVEL = ("shuffle_seed", "num_canonical_nodes")  # where MosaicML's states have them


@dataclass(frozen=True, slots=True)
class StreamState:
    """One stream of the mixture in a state.

    Attributes:
        name: the stream's name.
        split: what it reads of the snapshot; None for all.
        snapshot: number of the snapshot that it reads, or that a glob or `sizes.json` inside an output was filtered by;
            None for other plain WebDataset shards.
        fingerprint: digest of what the snapshot lists; the same shards in the same order give the same.
        position: samples that the stream has given in this epoch. For the reader: resuming does not need it, and inside
            a window of length buckets it counts as if the window were not sorted.
        latents_snapshots: numbers of the snapshots of the latents joined to it, one a folder.
    """

    name: str
    split: str | None
    snapshot: int | None
    fingerprint: str
    position: int = 0
    latents_snapshots: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON object; `from_json` is its inverse. What a stream without latents has none of is left out."""
        fields = asdict(self)
        fields["latents_snapshots"] = list(self.latents_snapshots)
        return fields if self.latents_snapshots else {n: v for n, v in fields.items() if n != "latents_snapshots"}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The stream that `to_json` wrote. Raises `TypeError` when a field is missing or unknown."""
        return cls(**fields | {"latents_snapshots": tuple(fields.get("latents_snapshots", ()))})

    @property
    def data(self) -> tuple[str | None, str]:
        """What decides which samples it has, in which shards."""
        return self.split, self.fingerprint

    def __str__(self) -> str:
        """What it reads, as messages say it."""
        split = "all splits" if self.split is None else f"split {self.split!r}"
        snapshot = "" if self.snapshot is None else f" of snapshot {self.snapshot}"
        latents = f" with latents at {', '.join(map(str, self.latents_snapshots))}" if self.latents_snapshots else ""
        return f"{split}{snapshot}{latents} ({self.fingerprint})"


@dataclass(frozen=True, slots=True)
class OrderState:
    """A position in an order, and all that the order depends on.

    Attributes:
        epoch: number of the epoch.
        sample_in_epoch: rows of the epoch that were delivered, over all ranks; padding rows count, except with
            `FrameBudget`.
        spec: the settings.
        streams: the mixture, in order.
        legs: the epoch's legs so far.
    """

    epoch: int
    sample_in_epoch: int
    spec: OrderSpec
    streams: tuple[StreamState, ...]
    legs: tuple[Leg, ...]

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
            "legs": [asdict(leg) | {"streams": [asdict(stream) for stream in leg.streams]} for leg in self.legs],
        }

    @classmethod
    def from_json(cls, state: object) -> Self:
        """The state that `to_json` wrote.

        Raises:
            StateError: another version, not a state of Headrace, or a field is missing or of a wrong kind.
        """
        if not isinstance(state, dict):
            raise StateError(f"expected a state as state_dict() gives it, a dict, not {type(state).__name__}")
        version = state.get("headrace_state")
        if version != STATE_VERSION:
            raise StateError(
                f"headrace_state is {version!r}, expected {STATE_VERSION}: this state was written by "
                f"{'another version of Headrace' if version else 'something else'}; resume with what wrote it"
            )
        if not state.get("legs"):
            raise StateError("the state has no legs: it was cut or edited")
        try:
            return cls(
                epoch=_count(state, "epoch"),
                sample_in_epoch=_count(state, "sample_in_epoch"),
                spec=OrderSpec.from_json(state["order"] | {name: state[name] for name in _TOP_LEVEL}),
                streams=tuple(StreamState.from_json(stream) for stream in state["streams"]),
                legs=tuple(
                    Leg(_count(leg, "start"), tuple(LegStream(**stream) for stream in leg["streams"]))
                    for leg in state["legs"]
                ),
            )
        except KeyError as error:
            raise StateError(f"the state lacks the field {error}: it was cut or edited") from error
        except (TypeError, ValueError) as error:
            raise StateError(f"the state does not make sense: {error}") from error


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}, which is no count")
    return value


def save(order: EpochOrder, sample_in_epoch: int, streams: Sequence[StreamState]) -> OrderState:
    """State of an order after `sample_in_epoch` (as `batch_start` of the batches gives it).

    Args:
        order: the epoch's order.
        sample_in_epoch: see `OrderState`.
        streams: what the mixture's streams read; positions are filled in.
    """
    positions = order.stream_positions(sample_in_epoch)
    filled = (replace(stream, position=positions[stream.name]) for stream in streams)
    return OrderState(order.epoch, sample_in_epoch, order.spec, tuple(filled), order.legs)


def resume(
    state: OrderState,
    spec: OrderSpec,
    mixture: Mixture,
    snapshots: Sequence[StreamState],
    *,
    change_streams: bool = False,
) -> EpochOrder:
    """The order from the state's position on.

    Args:
        state: what was saved.
        spec: the settings now. The global batch size may differ where the order does not depend on it.
        mixture: the streams now.
        snapshots: what each stream reads now; same names and order as the mixture's streams.
        change_streams: whether `mixture` may be another mixture, which then holds from the position on: streams that
            stay go on where they were.

    Raises:
        StateError: something that the order depends on differs; names it, both values and the way out.
    """
    _check_spec(state.spec, spec)
    state = _with_names_of_now(state, snapshots)
    _check_streams(state, snapshots, change_streams=change_streams)
    wanted = _leg_now(state, mixture)
    if wanted == state.legs[-1]:
        order = EpochOrder(spec, mixture, state.epoch, legs=state.legs, start=state.sample_in_epoch)
        _check_is_inside(state, order)
        return order
    if not change_streams:
        raise StateError(
            f"the mixture differs: the state was saved with {_mixture(state.legs[-1])}, but now it is "
            f"{_mixture(wanted)}; restore the streams' weights and epoch_size, or pass change_streams=True to go on "
            "with the new mixture"
        )
    legs = _change_mixture(state, spec, mixture)
    return EpochOrder(spec, mixture, state.epoch, legs=legs, start=state.sample_in_epoch)


def _check_is_inside(state: OrderState, order: EpochOrder) -> None:
    """In its last global batch a run may be behind the last sample, among rows of padding."""
    stop = state.legs[-1].start + order.num_rows
    if state.sample_in_epoch >= stop + order.spec.global_batch_size:
        raise StateError(f"sample_in_epoch is {state.sample_in_epoch}, but the epoch has {stop} rows: edited?")


def _with_names_of_now(state: OrderState, snapshots: Sequence[StreamState]) -> OrderState:
    """The state, with its streams renamed if it reads the very data of now by other names: data may move."""
    if {stream.name for stream in state.streams} == {stream.name for stream in snapshots}:
        return state
    if [stream.data for stream in state.streams] != [stream.data for stream in snapshots]:
        return state
    now = {old.name: new.name for old, new in zip(state.streams, snapshots, strict=True)}
    legs = tuple(
        replace(leg, streams=tuple(replace(stream, name=now.get(stream.name, stream.name)) for stream in leg.streams))
        for leg in state.legs
    )
    streams = tuple(replace(stream, name=now[stream.name]) for stream in state.streams)
    return replace(state, streams=streams, legs=legs)


def _leg_now(state: OrderState, mixture: Mixture) -> Leg:
    """The leg that the mixture of now would have made where the state's last leg began."""
    *before, last = state.legs
    if not before:
        return first_leg(mixture)
    return next_leg(open_leg(state.spec, state.epoch, before), last.start, mixture)


def _change_mixture(state: OrderState, spec: OrderSpec, mixture: Mixture) -> tuple[Leg, ...]:
    if state.sample_in_epoch == 0:
        return (first_leg(mixture),)
    opened = open_leg(spec, state.epoch, state.legs)
    _check_window_end(spec, state.sample_in_epoch - opened.leg.start)
    return (*state.legs, next_leg(opened, state.sample_in_epoch, mixture))


def _check_window_end(spec: OrderSpec, row: int) -> None:
    """Inside a window of length buckets, what was delivered is no prefix of the streams, so no mixture can go on."""
    if isinstance(spec.buckets, LengthBuckets):
        window = spec.buckets.window_batches * spec.global_batch_size
    elif isinstance(spec.buckets, FrameBudget):
        window = spec.buckets.window_rows
    else:
        return
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
    """How a user gives a setting of the order that value."""
    if name == "global_batch_size":
        return f"set batch_size so that batch_size times the number of ranks is {value}"
    if name == "buckets":
        return f"set batching to {value or 'fixed'}"
    return f"set {name} to {_shown(value)}"


def _check_streams(state: OrderState, snapshots: Sequence[StreamState], *, change_streams: bool) -> None:
    saved = {stream.name: stream for stream in state.streams}
    names = [stream.name for stream in snapshots]
    if names != list(saved) and not change_streams:
        raise StateError(
            f"the streams differ: the state was saved with {list(saved)}, but now they are {names}; restore them, or "
            "pass change_streams=True to go on with the new mixture"
        )
    for stream in snapshots:
        before = saved.get(stream.name, stream)
        if before.data != stream.data:
            raise StateError(
                f"the data of stream {stream.name!r} differ: the state was saved on {before}, but now it reads "
                f"{stream}; {_way_back(before, stream)}, or start from the beginning"
            )


def _way_back(before: StreamState, now: StreamState) -> str:
    """How to read again what a stream read before."""
    if before.split != now.split:
        return f"pass split={before.split!r}"
    if len(before.latents_snapshots) != len(now.latents_snapshots):
        return f"join as many folders of latents as then, {len(before.latents_snapshots)}"
    if None not in {before.snapshot, now.snapshot} and before.snapshot != now.snapshot:
        return f"open snapshot {before.snapshot}"
    if before.snapshot is None and now.snapshot is not None:
        return f"pass snapshot=… with the number of the one that was read then, if not {now.snapshot}"
    return "read the data set that it was saved on, by the same kind of remote (folder, glob or sizes.json)"


def _mixture(leg: Leg) -> str:
    return ", ".join(f"{stream.name}: {stream.num_samples} samples" for stream in leg.streams)


def _shown(value: object) -> str:
    return str(value) if isinstance(value, str) else repr(value)
