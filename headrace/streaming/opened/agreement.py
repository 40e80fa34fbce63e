"""Opens the streams of a dataset at the same snapshots on all ranks, even if others are committed meanwhile.

Rank 0 finds the newest snapshots, and the other ranks open the same ones. A saved state selects its own snapshots.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.errors import ConfigError, HeadraceError, IntegrityError, NotFoundError, StateError
from headrace.format.tars.name_lists import shown
from headrace.signed_urls import unsigned
from headrace.streaming import distributed
from headrace.streaming.order.state import OrderState, StreamState
from headrace.streaming.selection import Pins
from headrace.streaming.shards.remote import OpenedRemote, StreamRequest, open_remote


def open_all(
    requests: Sequence[StreamRequest], saved: Sequence[StreamState] = (), *, agree: bool = True
) -> list[OpenedRemote]:
    """Open each stream at the snapshots of its state; without states at the newest, or those that rank 0 finds.

    Raises:
        IntegrityError: the shards that a rank finds under a name are not those that rank 0 found.
        StateError: see `open_saved`.
    """
    if saved:
        return [open_saved(*one) for one in zip(requests, saved, strict=True)]
    if not agree or not distributed.is_up():
        return list(map(open_remote, requests))
    mine: list[OpenedRemote] | HeadraceError
    try:
        mine = list(map(open_remote, requests)) if distributed.current_world().rank == 0 else []
    except HeadraceError as error:  # the other ranks must not wait for a rank that failed
        mine = error
    shared = distributed.from_rank_zero(mine if isinstance(mine, HeadraceError) else [_shared(one) for one in mine])
    if isinstance(shared, HeadraceError):
        raise shared
    if mine:
        return list(mine) if not isinstance(mine, HeadraceError) else []
    return [_open_as(one, first) for one, first in zip(requests, shared, strict=True)]


def open_for_state(
    requests: Sequence[StreamRequest],
    names: Sequence[str],
    opened: Sequence[OpenedRemote],
    state: OrderState,
) -> list[OpenedRemote]:
    """Open the streams at the snapshots of a saved state; streams that are not in the state stay as they are.

    Raises:
        StateError: a snapshot is gone, or does not belong to the data set that is read now.
    """
    saved = {stream.name: stream for stream in state.streams}
    found: list[OpenedRemote] = []
    for one, name, now in zip(requests, names, opened, strict=True):
        before = saved.get(name)
        if before is None or not (before.snapshot or before.revision) or _is_open(before, now):
            found.append(now)
            continue
        if (
            (before.view is None) != (now.primary.identity.view is None)
            or (before.view is not None and before.view.definition != _definition(now))
            or before.windows != now.primary.identity.windows
        ):
            found.append(now)  # the order raises the error
            continue
        found.append(open_saved(one, before))
    return found


def open_saved(request: StreamRequest, saved: StreamState) -> OpenedRemote:
    """Open a stream at the snapshots of its state. Raises `StateError` if these are gone, or not of this data set."""
    if not (saved.snapshot or saved.revision):
        return open_remote(request)
    latents = saved.latents_snapshots if len(saved.latents_snapshots) == len(request.selection.latents) else ()
    view, where = (None, ()) if saved.view is None else (saved.view.snapshot, saved.view.columns)
    pins = Pins(saved.snapshot, latents, view, where, dict(saved.columns_snapshots), saved.revision)
    try:
        return open_remote(replace(request, pins=pins))
    except NotFoundError as error:
        raise StateError(
            f"snapshot: the state was saved with {saved.name} at {saved}, which is gone ({error}); restore it, or "
            "start from the beginning"
        ) from error
    except ConfigError as error:
        raise StateError(
            f"snapshot: the state was saved with {saved.name} at {saved}, which {shown(unsigned(request.remote))} does "
            f"not have ({error}); read the data set that it was saved on, or start from the beginning"
        ) from error


def _is_open(saved: StreamState, now: OpenedRemote) -> bool:
    """Whether a stream is open at the snapshots of a state."""
    columns = dict(saved.columns_snapshots)
    pinned = all(columns.get(name, number) == number for name, number in now.pins.of_columns.items())
    is_same = None in {saved.revision, now.pins.revision} or saved.revision == now.pins.revision
    fingerprints = now.primary.identity.fingerprint, now.latents_fingerprints
    return pinned and is_same and (saved.fingerprint, saved.latents_fingerprints) == fingerprints


@dataclass(frozen=True, slots=True)
class _Shared:
    """The snapshots that rank 0 opened, and the fingerprints that every rank must find."""

    pins: Pins
    fingerprints: tuple[str, ...]


def _shared(opened: OpenedRemote) -> _Shared:
    columns = (one.identity.fingerprint for one in opened.columns)
    return _Shared(opened.pins, (opened.primary.identity.fingerprint, *opened.latents_fingerprints, *columns))


def _open_as(request: StreamRequest, shared: _Shared) -> OpenedRemote:
    opened = open_remote(replace(request, pins=shared.pins))
    if _shared(opened).fingerprints != shared.fingerprints:
        raise IntegrityError(
            f"{shown(unsigned(request.remote))}: this rank finds other shards than rank 0: mount or copy the same data"
        )
    return opened


def _definition(opened: OpenedRemote) -> str:
    view = opened.primary.identity.view
    return "" if view is None else view.definition
