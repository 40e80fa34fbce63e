"""CRC-32C beside the definition, bit by bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sources.kinds.crc32c import crc32c, masked_crc32c
from tests.support.tfrecords import slow_crc32c


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 8191, 12345, 40_000])
def test_the_checksum_is_that_of_the_definition_for_short_and_for_long_data(length):
    data = bytes(at * at % 251 for at in range(length))
    assert crc32c(data) == slow_crc32c(data)


@given(st.binary(max_size=300), st.integers(0, 40))
def test_the_checksum_is_that_of_the_definition_for_any_data(data, times):
    assert crc32c(data * times) == slow_crc32c(data * times)


def test_published_values():
    assert crc32c(b"123456789") == 0xE3069283
    whole = bytes.fromhex("0500000000000000eab2043e68656c6c6fbb1f1c19")  # a record with `hello`
    assert masked_crc32c(whole[:8]) == int.from_bytes(whole[8:12], "little")
    assert masked_crc32c(whole[12:17]) == int.from_bytes(whole[17:], "little")
