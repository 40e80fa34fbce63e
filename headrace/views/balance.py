"""Computes how often each sample comes: from the sizes of groups, or from a number. No data is read here."""

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.beside.views import MAX_COUNT, MAX_TIMES, Balance


@dataclass(frozen=True, slots=True, eq=False)
class Balancing:
    """Numbers of times that the samples of each group come.

    Attributes:
        whole: int64 (groups,), how often each sample of a group comes at least.
        num_more: int64 (groups,), how many samples of a group come once more.
    """

    whole: NDArray[np.int64]
    num_more: NDArray[np.int64]

    @classmethod
    def of(cls, balance: Balance, sizes: NDArray[np.int64], names: Sequence[Hashable]) -> "Balancing":
        """The balance of groups of these sizes.

        For a group of n samples and the largest group of n_max, each sample comes r = (n_max / n)^(1 - alpha) times:
        floor(r), and once more for round(n * frac(r)) samples. Halves are rounded to even.

        Args:
            balance: alpha, and the column for messages.
            sizes: int64 (groups,), samples of each group; none is 0.
            names: the value of each group, for messages.

        Raises:
            ConfigError: samples of a group would come more than 255 times.
        """
        if not len(sizes):
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        largest, exponent = int(sizes.max()), 1.0 - balance.alpha
        times = np.array([(largest / size) ** exponent for size in sizes.tolist()])  # numpy's powers depend on the CPU
        whole = np.floor(times).astype(np.int64)
        num_more = np.round(sizes * (times - whole)).astype(np.int64)
        if ((whole + (num_more > 0)) > MAX_COUNT).any():
            group = int(np.argmax(times))
            raise ConfigError(
                f"balance by {balance.by}: each of the {sizes[group]} samples of group {names[group]!r} would come "
                f"{times[group]:.1f} times, because the largest group has {sizes.max()}; counts are at most "
                f"{MAX_COUNT}: use a larger alpha, or leave small groups out with `where`"
            )
        return cls(whole, num_more)

    def counts(self, groups: NDArray[np.int64], digests: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Number of times that each sample comes, uint8 (n,).

        Args:
            groups: int64 (n,), group of each sample.
            digests: uint64 (n, 2), see `key_digests`: of a group, samples with the smallest come once more.
        """
        counts = self.whole[groups]
        order = np.lexsort((digests[:, 1], digests[:, 0], groups))
        sizes = np.bincount(groups, minlength=len(self.whole))
        starts = np.cumsum(sizes) - sizes
        rank = np.arange(len(groups)) - np.repeat(starts, sizes)  # among the samples of the group
        counts[order] += rank < np.repeat(self.num_more, sizes)
        return counts.astype(np.uint8)


def key_digests(keys: Sequence[str]) -> NDArray[np.uint64]:
    """The first 16 bytes of the SHA-256 of each key as two big-endian integers, uint64 (n, 2)."""
    blob = b"".join(hashlib.sha256(key.encode()).digest()[:16] for key in keys)
    return np.frombuffer(blob, ">u8").astype(np.uint64).reshape(len(keys), 2)


def counts_of_times(times: NDArray[np.float64], hashes: NDArray[np.uint64], keys: Sequence[str]) -> NDArray[np.uint16]:
    """Number of times that each sample comes, uint16 (n,).

    For t it is floor(t), and once more if the hash of the key / 2^64 is below the rest. NaN and negative numbers are 0.

    >>> counts_of_times(np.array([2.0, 0.5, 0.5, -1.0, np.nan]), np.array([0, 0, 1 << 63, 0, 0], np.uint64), "abcde")
    array([2, 1, 0, 0, 0], dtype=uint16)

    Args:
        times: float64 (n,), t of each sample.
        hashes: uint64 (n,), the first column of `key_digests`.
        keys: the keys, for messages.

    Raises:
        ConfigError: a sample would come more than 65,535 times.
    """
    wanted = np.where(times > 0, times, 0.0)
    if (wanted > MAX_TIMES).any():
        place = int(np.argmax(wanted))
        raise ConfigError(
            f"times: sample {keys[place]!r} would come {wanted[place]:g} times; at most {MAX_TIMES} are possible: "
            f"bound the expression, as in least(…, {MAX_TIMES}), or leave such samples out with `where`"
        )
    whole = np.floor(wanted)
    limits = np.ceil((wanted - whole) * 2.0**64).astype(np.uint64)  # exact: a product with a power of two
    counts: NDArray[np.uint16] = whole.astype(np.uint16) + (hashes < limits)
    return counts.astype(np.uint16)
