"""What is taken from torch.distributed: which rank this is, and agreeing on what is read.

Owns the only calls to torch.distributed in this package. It never starts it.
"""

import os
from typing import TypeVar

from headrace.streaming.world import World

T = TypeVar("T")


def current_world() -> World:
    """This process's place: from torch.distributed where it is up, else from `RANK` and `WORLD_SIZE`, else alone."""
    import torch.distributed

    if is_up():
        return World(torch.distributed.get_rank(), torch.distributed.get_world_size())
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
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
    """Ranks on this host, as torchrun says; 1 when nobody says."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
