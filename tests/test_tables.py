import contextlib
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace import tables
from headrace.errors import FormatError

DTYPES = st.sampled_from([np.uint8, np.int16, np.int32, np.int64])
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
    DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))),
    max_size=5,
)
METADATA = st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4)


@given(ARRAYS, METADATA)
def test_arrays_and_strings_come_back(arrays, metadata):
    found, notes = tables.unpack(tables.pack(arrays, metadata), "x")
    assert notes == metadata
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


@given(ARRAYS, METADATA)
def test_equal_content_gives_equal_bytes_in_any_order(arrays, metadata):
    turned = {name: np.asfortranarray(arrays[name]) for name in arrays}
    assert tables.pack(arrays, metadata) == tables.pack(turned, dict(reversed(metadata.items())))


def test_the_safetensors_library_reads_it():
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = {"a": np.arange(6, dtype=np.int64).reshape(2, 3), "b": np.arange(3, dtype=np.uint8)}
    found = safetensors.load(tables.pack(arrays, {"note": "ü"}))
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_arrays_are_aligned_views_that_cannot_be_written():
    arrays = {"small": np.arange(3, dtype=np.uint8), "wide": np.arange(5, dtype=np.int64)}
    blob = tables.pack(arrays, {})
    found, _ = tables.unpack(blob, "x")
    assert not found["wide"].flags.owndata
    assert not found["wide"].flags.writeable
    offset = found["wide"].__array_interface__["data"][0] - np.frombuffer(blob, np.uint8).__array_interface__["data"][0]
    assert offset % 8 == 0


BLOB = tables.pack({"a": np.arange(20, dtype=np.int32)}, {"key": "value"})


@given(st.integers(0, len(BLOB) - 1))
def test_a_table_cut_off_anywhere_is_refused_by_name(length):
    with pytest.raises(FormatError, match=r"broken\.idx"):
        tables.unpack(BLOB[:length], "broken.idx")


@given(st.integers(0, len(BLOB) - 81), st.integers(1, 255))
def test_a_changed_header_is_refused_or_read_but_never_another_error(place, change):
    blob = bytearray(BLOB)
    blob[place] ^= change
    with contextlib.suppress(FormatError):
        tables.unpack(bytes(blob), "x")


CHECKED = tables.pack({"a": np.arange(20, dtype=np.int32)}, {"key": "value"}, has_checksum=True)


@given(st.integers(len(CHECKED) - 80, len(CHECKED) - 1), st.integers(1, 255))
def test_a_changed_byte_of_an_array_is_refused_where_there_is_a_checksum(place, change):
    blob = bytearray(CHECKED)
    blob[place] ^= change
    with pytest.raises(FormatError, match=r"broken\.idx: damaged \(CRC-32"):
        tables.unpack(bytes(blob), "broken.idx")


def test_the_checksum_is_that_of_all_bytes_after_the_header():
    arrays, metadata = tables.unpack(CHECKED, "x")
    assert metadata == {"key": "value"}
    assert f'"crc32":"{zlib.crc32(arrays["a"].tobytes()):08x}"'.encode() in CHECKED


@given(st.binary(max_size=200))
def test_noise_is_refused(blob):
    with pytest.raises(FormatError):
        tables.unpack(blob, "x")


def test_a_million_rows_open_at_once():
    columns = {f"c{number}": np.arange(1_000_000, dtype=np.int32) for number in range(5)}
    blob = tables.pack(columns, {})
    found, _ = tables.unpack(blob, "x")
    assert found["c4"].base is not None
