"""Defines `World`: the rank of this process, the world size, and the rows of a global batch that belong to a rank."""

from dataclasses import dataclass

from headrace.arguments import convert, whole
from headrace.errors import ConfigError


@dataclass(frozen=True, slots=True)
class World:
    """Rank `rank` of `world_size` processes that share every global batch.

    Row t of a global batch belongs to rank ``t % world_size``; so each global batch must divide by the world size.
    """

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        convert(self, whole, "rank", "world_size")
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise ConfigError(
                f"World(rank={self.rank}, world_size={self.world_size}): expected 0 <= rank < world_size; "
                "pass the values of torch.distributed.get_rank() and get_world_size()"
            )

    def batch_size(self, global_batch_size: int, what: str = "a global batch") -> int:
        """Rows of this rank in a global batch; `what` is the name of the batch in messages.

        Raises:
            ConfigError: the world size does not divide the global batch; the message has the nearest possible sizes.
        """
        size, rest = divmod(global_batch_size, self.world_size)
        if rest == 0:
            return size
        below, above = size * self.world_size, (size + 1) * self.world_size
        raise ConfigError(
            f"{what} of {global_batch_size} samples does not divide by {self.world_size} ranks: use {what} "
            f"of {f'{below} or {above}' if below else above}, or a world size of "
            f"{_nearest_worlds(global_batch_size, self.world_size)}"
        )


ALONE = World()
"""One process that reads everything."""


def _nearest_worlds(global_batch_size: int, world_size: int) -> str:
    """The divisors of the global batch next below and next above the world size, for a message."""
    divisors = [size for size in range(1, global_batch_size + 1) if global_batch_size % size == 0]
    below = [size for size in divisors if size < world_size][-1:]
    above = [size for size in divisors if size > world_size][:1]
    return " or ".join(str(size) for size in below + above)
