import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.errors import FormatError
from headrace.format import tables

DTYPES = st.sampled_from([np.uint8, np.int16, np.int32, np.int64])
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
    DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))),
    max_size=5,
)
METADATA = st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4)


@pytest.mark.medium
@given(ARRAYS, METADATA)
def test_arrays_and_strings_survive_a_round_trip(arrays, metadata):
    found, notes = tables.unpack(tables.pack(arrays, metadata), "x")
    assert notes == metadata
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


@pytest.mark.medium
@given(ARRAYS, METADATA)
def test_equal_content_gives_equal_bytes_in_any_order(arrays, metadata):
    turned = {name: np.asfortranarray(arrays[name]) for name in arrays}
    assert tables.pack(arrays, metadata) == tables.pack(turned, dict(reversed(metadata.items())))


def test_the_safetensors_library_reads_it():
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = {"a": np.arange(6, dtype=np.int64).reshape(2, 3), "b": np.arange(3, dtype=np.uint8)}
    found = safetensors.load(tables.pack(arrays, {"note": "ü"}))
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_arrays_are_aligned_read_only_views():
    arrays = {"small": np.arange(3, dtype=np.uint8), "wide": np.arange(5, dtype=np.int64)}
    blob = tables.pack(arrays, {})
    found, _ = tables.unpack(blob, "x")
    assert not found["wide"].flags.owndata
    assert not found["wide"].flags.writeable
    offset = found["wide"].__array_interface__["data"][0] - np.frombuffer(blob, np.uint8).__array_interface__["data"][0]
    assert offset % 8 == 0


BLOB = tables.pack({"a": np.arange(20, dtype=np.int32)}, {"key": "value"})


@given(st.integers(0, len(BLOB) - 1))
def test_the_error_about_a_table_truncated_anywhere_names_it(length):
    with pytest.raises(FormatError, match=r"broken\.idx"):
        tables.unpack(BLOB[:length], "broken.idx")


def test_no_flipped_bit_of_a_file_is_accepted():
    """Flips each bit of every byte: the header's length, the header, the checksum and the arrays."""
    for bit in range(8 * len(BLOB)):
        blob = bytearray(BLOB)
        blob[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=r"broken\.idx: .*damaged"):
            tables.unpack(bytes(blob), "broken.idx")


def test_the_checksum_covers_the_file_with_zeros_in_place_of_its_digits():
    arrays, metadata = tables.unpack(BLOB, "x")
    assert metadata == {"key": "value"}
    assert np.array_equal(arrays["a"], np.arange(20))
    found = BLOB[34:42]
    assert found == b"%08x" % zlib.crc32(BLOB.replace(found, b"00000000"))


def test_errors_about_a_damaged_file_do_not_advise_to_delete_it():
    """A file that was damaged on the network may be valid in the store."""
    with pytest.raises(FormatError, match="headrace verify") as raised:
        tables.unpack(BLOB[:-1], "broken.idx")
    assert "remove" not in str(raised.value)


@pytest.mark.parametrize("header", [b"[" * 100_000, b'{"__metadata__":{"crc32":"00000000"},"a":7}', b"null"])
def test_the_error_about_a_false_header_with_a_correct_checksum_names_the_file(header):
    text = header if header.startswith(b"{") else b'{"__metadata__":{"crc32":"00000000"},"a":' + header
    blob = len(text).to_bytes(8, "little") + text
    blob = blob.replace(b"00000000", b"%08x" % zlib.crc32(blob), 1)
    with pytest.raises(FormatError, match=r"false\.idx: not a Headrace table"):
        tables.unpack(blob, "false.idx")


@given(st.binary(max_size=200))
def test_random_bytes_are_an_error(blob):
    with pytest.raises(FormatError):
        tables.unpack(blob, "x")


def test_a_million_rows_are_opened_without_copying():
    columns = {f"c{number}": np.arange(1_000_000, dtype=np.int32) for number in range(5)}
    blob = tables.pack(columns, {})
    found, _ = tables.unpack(blob, "x")
    assert found["c4"].base is not None
