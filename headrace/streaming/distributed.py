"""What is taken from torch.distributed: which rank this is, and agreeing on what is read.

Owns the only calls to torch.distributed in this package. It never starts it.
"""

import os
from typing import TypeVar

from headrace.errors import ConfigError
from headrace.streaming.world import World

T = TypeVar("T")


def current_world() -> World:
    """This process's place: from torch.distributed where it is up, else from `RANK` and `WORLD_SIZE`, else alone.

    Raises:
        ConfigError: the two are no whole numbers, or no place.
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
    """Rank 0's value on every rank; all ranks must call this."""
    import torch.distributed

    values = [value]
    torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def local_world_size() -> int:
    """Ranks on this host, as torchrun says; 1 when nobody says. Raises `ConfigError` when it is no whole number."""
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
