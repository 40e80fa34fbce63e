"""Asks torch.distributed for the rank of this process, and passes values between ranks.

All calls of the library to torch.distributed are here. It is never started here.
"""

import os
from typing import TypeVar

from headrace.errors import ConfigError
from headrace.streaming.world import World

T = TypeVar("T")


def current_world() -> World:
    """Rank and world size of this process: from torch.distributed if it is up, else from `RANK` and `WORLD_SIZE`.

    Raises:
        ConfigError: a variable is not a whole number, or the rank is not below the world size.
    """
    import torch.distributed

    if is_up():
        return World(torch.distributed.get_rank(), torch.distributed.get_world_size())
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return World(_from_environment("RANK"), _from_environment("WORLD_SIZE"))
    return World()


def is_up() -> bool:
    """Whether torch.distributed is initialised."""
    import torch.distributed

    return torch.distributed.is_available() and torch.distributed.is_initialized()


def from_rank_zero(value: T) -> T:
    """The value of rank 0, on every rank; all ranks must call this function."""
    import torch.distributed

    values = [value]
    torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def first_value(key: str, value: str) -> str:
    """The value under a key of the first rank that gave one; no rank waits for another.

    It is kept in the store of torch.distributed, if the backend has one that keeps values.
    """
    from torch.distributed.distributed_c10d import _get_default_store

    try:
        return _get_default_store().compare_set(key, "", value).decode()
    except (AttributeError, RuntimeError):  # a backend without a store, or the process that served it has ended
        return value


def local_world_size() -> int:
    """Ranks on this host, from torchrun's `LOCAL_WORLD_SIZE`, else 1. Raises `ConfigError` for other than a number."""
    return max(1, _from_environment("LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in os.environ else 1)


def _from_environment(name: str) -> int:
    value = os.environ[name]
    try:
        return int(value)
    except ValueError:
        raise ConfigError(
            f"the environment variable {name} is {value!r}: expected a whole number, as torchrun sets it; unset it to "
            "run alone, or pass world=World(rank, world_size)"
        ) from None
