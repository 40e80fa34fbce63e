"""CRC-32C (Castagnoli) of bytes, as TFRecord has it. numpy works on many parts of long data at a time."""

import functools

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_SHORT_BYTES = 4096
_MOST_ROWS = 8192
_ROW_BYTES = 128
_Words = NDArray[np.uint32]


def crc32c(data: bytes | memoryview) -> int:
    """The checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    state, rest = _ONES, memoryview(data)
    while len(rest) >= _SHORT_BYTES:
        num_bytes = 1 << (len(rest).bit_length() - 1)
        state, rest = _of_rows(rest[:num_bytes], state), rest[num_bytes:]
    table = _short_table()
    for byte in rest:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ _ONES


def masked_crc32c(data: bytes | memoryview) -> int:
    """The checksum as TFRecord stores it: rotated, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ONES


def _of_rows(data: memoryview, state: int) -> int:
    """The state after data whose length is a power of two. All rows but the first begin with 0."""
    num_rows = min(_MOST_ROWS, len(data) // _ROW_BYTES)
    words = np.ascontiguousarray(np.frombuffer(data, "<u4").reshape(num_rows, -1).T)
    states = np.zeros(num_rows, np.uint32)
    states[0] = state
    low, high = _word_tables()
    for column in words:
        halves = (states ^ column).view(np.uint16)
        states = low[halves[0::2]] ^ high[halves[1::2]]
    row_bytes = len(data) // num_rows
    while len(states) > 1:  # a pair of rows becomes one of twice the length
        parts = np.ascontiguousarray(states[0::2]).view(np.uint8)
        tables = _byte_tables(row_bytes)
        states = functools.reduce(np.bitwise_xor, (tables[k][parts[k::4]] for k in range(4))) ^ states[1::2]
        row_bytes *= 2
    return int(states[0])


@functools.cache
def _short_table() -> list[int]:
    """The map of a byte: state → state."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return [int(value) for value in table]


@functools.cache
def _word_tables() -> tuple[_Words, _Words]:
    """The map of a word, for the lower and for the upper half of a state."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    return _shifted(_zeros_shift(4), halves), _shifted(_zeros_shift(4), halves << np.uint32(16))


@functools.cache
def _byte_tables(num_bytes: int) -> list[_Words]:
    """The map of zero bytes, for each of the four bytes of a state."""
    values = np.arange(256, dtype=np.uint32)
    return [_shifted(_zeros_shift(num_bytes), values << np.uint32(8 * k)) for k in range(4)]


@functools.cache
def _zeros_shift(num_bytes: int) -> _Words:
    """The linear map of zero bytes (a power of two): the image of each of the 32 bits of a state."""
    if num_bytes == 1:
        table = _short_table()
        return np.array([table[1 << bit & 0xFF] ^ (1 << bit >> 8) for bit in range(32)], np.uint32)
    half = _zeros_shift(num_bytes // 2)
    return _shifted(half, half)


def _shifted(shift: _Words, states: _Words) -> _Words:
    """A linear map of states, given by the images of their bits."""
    found = np.zeros_like(states)
    for bit, image in enumerate(shift):
        found ^= np.where(states >> np.uint32(bit) & 1, image, np.uint32(0))
    return found
