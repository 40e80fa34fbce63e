"""Opening the streams of a dataset so that all ranks read the same, whatever is committed while they start.

Owns who looks for the newest snapshots: rank 0; the others open what it found. A saved state opens its own.
"""

from collections.abc import Sequence
from dataclasses import replace

from headrace.errors import ConfigError, HeadraceError, IntegrityError, NotFoundError, StateError
from headrace.streaming import distributed
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shards.remote import OpenedRemote, Wanted, open_remote
from headrace.streaming.shards.retry import retried
from headrace.streaming.state import OrderState


def open_all(wanted: Sequence[Wanted], configs: Sequence[FetchConfig], *, agree: bool = True) -> list[OpenedRemote]:
    """Open each stream, as its own settings say; where torch.distributed is up, at the snapshots that rank 0 finds.

    Raises:
        IntegrityError: a rank finds other shards than rank 0 under the same name.
    """
    if not agree or not distributed.is_up():
        return list(map(_open, wanted, configs))
    mine: list[OpenedRemote] | HeadraceError
    try:
        mine = list(map(_open, wanted, configs)) if distributed.current_world().rank == 0 else []
    except HeadraceError as error:  # the others must not wait for a rank that failed
        mine = error
    told = distributed.from_rank_zero(mine if isinstance(mine, HeadraceError) else [_pins(one) for one in mine])
    if isinstance(told, HeadraceError):
        raise told
    if mine:
        return list(mine) if not isinstance(mine, HeadraceError) else []
    return [_open_as(one, *pins, config) for one, pins, config in zip(wanted, told, configs, strict=True)]


def open_for_state(
    wanted: Sequence[Wanted],
    names: Sequence[str],
    opened: Sequence[OpenedRemote],
    state: OrderState,
    configs: Sequence[FetchConfig],
) -> list[OpenedRemote]:
    """The streams at the snapshots that a state was saved on; streams that it does not know stay as they are.

    Raises:
        StateError: a snapshot is gone, or is none of what is read now.
    """
    saved = {stream.name: stream for stream in state.streams}
    found: list[OpenedRemote] = []
    for one, name, now, config in zip(wanted, names, opened, configs, strict=True):
        before = saved.get(name)
        if before is None or before.snapshot is None or before.fingerprint == now.identity.fingerprint:
            found.append(now)
            continue
        try:
            latents = before.latents_snapshots if len(before.latents_snapshots) == len(one.latents) else ()
            found.append(_open(replace(one, snapshot=before.snapshot, latents_snapshots=latents), config))
        except NotFoundError as error:
            raise StateError(
                f"snapshot: the state was saved with {name} at {before}, which is gone ({error}); restore it, or start "
                "from the beginning"
            ) from error
        except ConfigError as error:
            raise StateError(
                f"snapshot: the state was saved with {name} at {before}, which is not to be had of {one.remote} "
                f"({error}); read the data set that it was saved on, or start from the beginning"
            ) from error
    return found


_Pins = tuple[int | None, tuple[int, ...], str]


def _open(wanted: Wanted, config: FetchConfig) -> OpenedRemote:
    return retried(lambda: open_remote(wanted), config, wanted.remote)


def _pins(opened: OpenedRemote) -> _Pins:
    return opened.primary.identity.snapshot, opened.latents_snapshots, opened.identity.fingerprint


def _open_as(
    wanted: Wanted, snapshot: int | None, latents: tuple[int, ...], fingerprint: str, config: FetchConfig
) -> OpenedRemote:
    opened = _open(replace(wanted, snapshot=snapshot, latents_snapshots=latents), config)
    if opened.identity.fingerprint != fingerprint:
        raise IntegrityError(f"{wanted.remote}: this rank finds other shards than rank 0; mount or copy the same data")
    return opened
