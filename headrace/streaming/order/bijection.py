"""Keyed permutations of [0, n) that are evaluated one element at a time, and the hash that makes their keys.

All randomness of the order comes from these functions. They are integer arithmetic modulo 2**64 without a generator or
a state, so no new version of a library can change an order. They know nothing of samples, shards or epochs. The golden
vectors in ``tests/golden/order.json`` fix their results.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Words = NDArray[np.uint64]
_Grid: TypeAlias = Callable[[_Words, _Words, _Words, _Words], _Words]

MAX_SIZE = 2**52
"""Largest domain of `permute`: up to here the float64 square root that splits it is exact."""

_ROUNDS = 8  # enough from 64 elements on: pairs of images are uniform by a chi-square test of 200,000 keys
_SMALL = 64  # below, the halves have few values, and all orders are equally likely only after more rounds
_SMALL_REPEATS = 3
_SMALL_TABLES = 4096  # orders of fewer elements that are kept, of at most 504 bytes each
_CHUNK = 16_384  # elements at a time, so that the temporaries of a large call stay in the processor's cache
_UINT64 = 2**64 - 1
_GOLDEN_RATIO = 0x9E3779B97F4A7C15
_STIR = np.uint64(0xD6E8FEB86659FD93)  # odd multiplier, from the rrmxmx family of hash constants
_HALF = np.uint64(32)


def mix(seed: int | NDArray[np.uint64], *words: ArrayLike) -> NDArray[np.uint64]:
    """Hash a seed and integers into 64-bit keys, broadcasting over the words.

    Args:
        seed: any integer, taken modulo 2**64; or 64-bit keys, to broadcast with the words.
        words: integers or integer arrays, at least 0; the order of the words matters.

    Returns:
        uint64 array of the broadcast shape of keys and `words` (0-dimensional if all are scalars).

    The finalizer is that of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    """
    keys = seed if isinstance(seed, np.ndarray) else np.asarray([seed & _UINT64], np.uint64)
    key = _finalize(keys)
    shape = np.broadcast_shapes(() if keys is not seed else keys.shape, *(np.shape(word) for word in words))
    for word in words:
        key = _finalize(key * np.uint64(_GOLDEN_RATIO) + np.asarray(word).astype(np.uint64))
    return key.reshape(shape)


def permute(index: ArrayLike, size: ArrayLike, key: ArrayLike) -> NDArray[np.int64]:
    """Image of each index under a keyed bijection of [0, size).

    For one size and key, distinct indices have distinct images and all of [0, size) is reached. The work and memory per
    element do not depend on the size, so a permutation of a billion elements costs nothing until it is evaluated.

    Args:
        index: integers, each in [0, size).
        size: number of elements, at most `MAX_SIZE`; a scalar, or one for each index.
        key: 64-bit key, as made by `mix`; a scalar, or one for each index.

    Returns:
        int64 array of the broadcast shape of the three.
    """
    x, n, k = np.asarray(index), np.asarray(size), np.asarray(key, np.uint64)
    if n.size == 1 and k.size == 1 and 0 < n.item() < _SMALL:
        shape = np.broadcast_shapes(x.shape, n.shape, k.shape)
        return _small_table(n.item(), k.item())[x.astype(np.int64)].reshape(shape)
    return _in_chunks(_permute_part, x, n, k)


def unpermute(image: ArrayLike, size: ArrayLike, key: ArrayLike) -> NDArray[np.int64]:
    """Index of each image under the bijection of `permute`: its inverse, at the same cost, with the same arguments."""
    return _in_chunks(_unpermute_part, np.asarray(image), np.asarray(size), np.asarray(key, np.uint64))


def _in_chunks(
    part_of: Callable[[_Words, _Words, _Words], _Words], x: NDArray[Any], n: NDArray[Any], k: _Words
) -> NDArray[np.int64]:
    shape = np.broadcast_shapes(x.shape, n.shape, k.shape)
    x = np.broadcast_to(x, shape).astype(np.uint64).ravel()
    n = _aligned(n.astype(np.uint64), shape)
    k = _aligned(k, shape)
    for start in range(0, len(x), _CHUNK):
        part = slice(start, start + _CHUNK)
        x[part] = part_of(x[part], n if len(n) == 1 else n[part], k if len(k) == 1 else k[part])
    return x.view(np.int64).reshape(shape)


@functools.lru_cache(_SMALL_TABLES)
def _small_table(size: int, key: int) -> NDArray[np.int64]:
    """Images of all of [0, size), for size < `_SMALL`: each takes many rounds, and is asked for again."""
    images = _permute_part(
        np.arange(size, dtype=np.uint64), np.asarray([size], np.uint64), np.asarray([key], np.uint64)
    )
    return images.view(np.int64)


def _aligned(values: _Words, shape: tuple[int, ...]) -> _Words:
    """The values with one entry, or with one for each element: division by a single value is faster."""
    return values.reshape(1) if values.size == 1 else np.broadcast_to(values, shape).ravel()


def _permute_part(x: _Words, n: _Words, key: _Words) -> _Words:
    x = _cycle_walk(x, n, key, _permute_grid)
    _walk_small(x, n, key, _permute_grid, range(1, _SMALL_REPEATS))
    return x


def _unpermute_part(x: _Words, n: _Words, key: _Words) -> _Words:
    _walk_small(x, n, key, _unpermute_grid, reversed(range(1, _SMALL_REPEATS)))
    return _cycle_walk(x, n, key, _unpermute_grid)


def _walk_small(x: _Words, n: _Words, key: _Words, grid: _Grid, repeats: Iterable[int]) -> None:
    """Permute again, in place, the elements of small domains."""
    small = np.flatnonzero(np.broadcast_to(n < _SMALL, x.shape))
    if small.size:
        n, key = (values if len(values) == 1 else values[small] for values in (n, key))
        for repeat in repeats:
            x[small] = _cycle_walk(x[small], n, _finalize(key + np.uint64(repeat)), grid)


def _cycle_walk(x: _Words, n: _Words, key: _Words, grid: _Grid) -> _Words:
    """Permute the smallest grid of at least n cells, repeatedly until the image is below n (cycle walking).

    The grid has fewer than sqrt(n) cells too many, so a second step is rare.
    """
    rows = np.sqrt(n.astype(np.float64)).astype(np.uint64)
    rows += rows * rows < n
    columns = (n + rows - np.uint64(1)) // rows
    x = grid(x, rows, columns, key)
    outside = np.flatnonzero(x >= n)
    while outside.size:
        own = [values if len(values) == 1 else values[outside] for values in (rows, columns, key, n)]
        x[outside] = again = grid(x[outside], own[0], own[1], own[2])
        outside = outside[again >= own[3]]
    return x


def _permute_grid(x: _Words, rows: _Words, columns: _Words, key: _Words) -> _Words:
    """A Feistel network over Z_rows x Z_columns: each half in turn is shifted by a keyed hash of the other."""
    row = x // columns
    column = x - row * columns
    for number in range(_ROUNDS):
        round_key = key * np.uint64((2 * number + 1) * _GOLDEN_RATIO & _UINT64)
        if number % 2 == 0:
            row = _shift(row, column, rows, round_key)
        else:
            column = _shift(column, row, columns, round_key)
    return row * columns + column


def _unpermute_grid(x: _Words, rows: _Words, columns: _Words, key: _Words) -> _Words:
    """The inverse of `_permute_grid`: its rounds backwards."""
    row = x // columns
    column = x - row * columns
    for number in reversed(range(_ROUNDS)):
        round_key = key * np.uint64((2 * number + 1) * _GOLDEN_RATIO & _UINT64)
        if number % 2 == 0:
            row = _unshift(row, column, rows, round_key)
        else:
            column = _unshift(column, row, columns, round_key)
    return row * columns + column


def _shift(half: _Words, other: _Words, size: _Words, key: _Words) -> _Words:
    """(half + hash(other, key)) mod size, for half < size < 2**32, without a division."""
    word = _hash_below(other, size, key)
    word += half
    wrapped: _Words = np.minimum(word, word - size)  # a negative difference wraps to a huge number: no branch
    return wrapped


def _unshift(half: _Words, other: _Words, size: _Words, key: _Words) -> _Words:
    """(half - hash(other, key)) mod size: the inverse of `_shift`."""
    word = half - _hash_below(other, size, key)
    wrapped: _Words = np.minimum(word, word + size)
    return wrapped


def _hash_below(other: _Words, size: _Words, key: _Words) -> _Words:
    """Keyed hash of `other` in [0, size)."""
    word = other * _STIR
    word ^= key
    word ^= word >> _HALF
    word *= _STIR
    word >>= _HALF
    word *= size  # a 32-bit fraction times the size: Lemire's reduction to [0, size)
    word >>= _HALF
    return word


def _finalize(word: _Words) -> _Words:
    """The output function of splitmix64: every bit of the input reaches every bit of the result."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
