import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import FormatError
from headrace.format import tables
from headrace.format.indexes.index import IndexColumn
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry
from headrace.format.indexes.index_files import parse_index
from headrace.format.tars.tar import payload
from headrace.format.tensors.tensors import TensorPlace
from tests.support.index import HIDDEN, NUM_BYTES, indexed, placed

FIELDS = st.sampled_from(["flac", "json", "pth", "mic.flac", "txt"])
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=12)


@st.composite
def sample_entries(draw):
    """A sample whose fields are inside a tar of NUM_BYTES, with or without a tensor."""
    ranges = {}
    for name in draw(st.sets(FIELDS, min_size=1)):
        start = draw(st.integers(0, NUM_BYTES - (1 << 20)))
        ranges[name] = start, start + draw(st.integers(0, 1 << 20))
    start, stop = next(iter(ranges.values()))
    width = draw(st.integers(1, 9))
    num_frames = (stop - start) // (2 * width)
    place = TensorPlace(stop - 2 * width * num_frames, stop, num_frames, width)
    tensors = draw(st.just(()) | st.tuples(st.builds(PlacedTensor, st.just(place), st.integers(-1, (1 << 32) - 1))))
    crc32 = {name: draw(st.integers(0, (1 << 32) - 1)) for name in draw(st.sets(st.sampled_from(sorted(ranges))))}
    known = draw(st.integers(-1, 1 << 40)), draw(st.integers(0, 655_350)), draw(st.integers(0, 8))
    return SampleEntry(draw(KEYS), ranges, *known, tensors, crc32)


ENTRIES = st.lists(sample_entries(), max_size=6, unique_by=lambda entry: entry.key)


@pytest.mark.medium
@given(ENTRIES, st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3))
def test_an_index_survives_a_round_trip(entries, notes):
    index = indexed(entries, sha256="ab", input_digest="cd", outputs=HIDDEN, notes=notes)
    found = parse_index(index.to_bytes(), "a.idx")
    assert (found.shard, found.num_bytes, found.sha256, found.input_digest) == ("a.tar", NUM_BYTES, "ab", "cd")
    assert (found.outputs, found.tensor_dtype, found.notes) == (HIDDEN, "float16", notes)
    assert found.keys() == [entry.key for entry in entries]
    assert found.to_bytes() == index.to_bytes()
    for i, entry in enumerate(entries):
        assert {name: span for name in found.fields if (span := found.range_of(i, name))} == entry.ranges
        assert found.num_frames[i] == entry.num_frames
        assert found.sample_rate_hz[i] == entry.sample_rate_hz
        assert found.num_channels[i] == entry.num_channels
        assert found.tensors[i].tolist() == [list(entry.tensors[0].place if entry.tensors else (-1,) * 4)]
        assert found.tensor_crc32[i].tolist() == [entry.tensors[0].crc32 if entry.tensors else -1]
        checksums = dict(zip(found.fields, found.row(i).crc32, strict=True))
        assert {name: value for name, value in checksums.items() if value != -1} == entry.crc32


@pytest.mark.medium
@given(ENTRIES)
def test_the_values_of_a_sample_equal_those_of_the_columns(entries):
    index = indexed(entries, outputs=HIDDEN)
    assert len(IndexColumn) - 1 == IndexColumn.RANGES  # each has a place of its own
    assert index.numbers.shape == (len(entries), len(IndexColumn) - 1 + 3 * len(index.fields))
    for i, numbers in enumerate(index.numbers):
        assert numbers[IndexColumn.NUM_FRAMES] == index.num_frames[i]
        assert numbers[IndexColumn.RATE] == index.sample_rate_hz[i]
        assert numbers[IndexColumn.CHANNELS] == index.num_channels[i]
        own = [numbers[n] for n in (IndexColumn.START, IndexColumn.STOP, IndexColumn.TENSOR_FRAMES, IndexColumn.WIDTH)]
        assert own == index.tensors[i, 0].tolist()
        assert numbers[IndexColumn.TENSOR_CRC32] == index.tensor_crc32[i, 0]
        row = index.row(i)
        assert (row.num_frames, row.sample_rate_hz, row.num_channels) == tuple(numbers[:3])
        assert row.tensors == ([tensor.place for tensor in entries[i].tensors] or [None])
        assert row.tensor_crc32 == index.tensor_crc32[i].tolist()
        assert row.spans == index.ranges[i].ravel().tolist()
        assert row.crc32 == index.crc32[i].tolist()


def test_the_error_about_another_format_version_names_the_version():
    _, metadata = tables.unpack(indexed([]).to_bytes(), "a.idx")
    blob = tables.pack({}, metadata | {"headrace_index": "9"})
    with pytest.raises(FormatError, match=r"a\.idx: index format 9"):
        parse_index(blob, "a.idx")


SAMPLE = SampleEntry(
    "a",
    {"flac": (0, 5), "pth": (8, 24)},
    2,
    8000,
    1,
    placed(12, 20, 2, 2, crc32=5),
    {"flac": 7, "pth": 9},
)
INDEX = indexed([SAMPLE, replace(SAMPLE, key="b")], outputs=HIDDEN, notes={"n": "v" * 400})


def test_no_flipped_bit_of_an_index_is_accepted():
    """Otherwise a latent could be read from the wrong place, or JSON from another sample."""
    sound = INDEX.to_bytes()
    num_header_bits = 8 * (8 + int.from_bytes(sound[:8], "little"))
    assert num_header_bits >= 8128
    for bit in range(8 * len(sound)):
        blob = bytearray(sound)
        blob[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=r"a\.idx: .*headrace verify"):
            parse_index(bytes(blob), "a.idx")


def test_the_error_about_an_index_without_an_array_names_the_array():
    arrays, metadata = tables.unpack(INDEX.to_bytes(), "a.idx")
    del arrays["crc32"]
    with pytest.raises(FormatError, match=r"a\.idx: an incomplete index \(KeyError\('crc32'\)\)"):
        parse_index(tables.pack(arrays, metadata), "a.idx")


def changed(name, place, value):
    array = getattr(INDEX, name).copy()
    array[place] = value
    return {name: array}


CONTRADICTIONS = {
    "fewer rates than samples": ({"sample_rate_hz": INDEX.sample_rate_hz[:1]}, r"sample_rate_hz as int32 \(2,\)"),
    "no frames": ({"num_frames": INDEX.num_frames[:0]}, "0 samples of 2 fields need key_offsets"),
    "ranges of one field": ({"ranges": INDEX.ranges[:, :1]}, r"ranges as int64 \(2, 2, 2\), found int64 \(2, 1, 2\)"),
    "ranges as bytes": ({"ranges": INDEX.ranges.astype(np.uint8)}, "found uint8"),
    "fewer checksums": ({"crc32": INDEX.crc32[:, :1]}, "crc32 as int64"),
    "tensors of three numbers": ({"tensors": INDEX.tensors[..., :3]}, r"tensors as int64 \(2, 1, 4\)"),
    "keys that fall": (changed("key_offsets", 1, 3), "key_offsets must rise from 0 to the 2 bytes"),
    "keys cut off": ({"key_bytes": INDEX.key_bytes[:1]}, "key_offsets must rise"),
    "a field beyond the tar": (changed("ranges", (1, 0, 1), NUM_BYTES + 1), f"field flac of sample 'b' .*{NUM_BYTES}"),
    "a field before the tar": (changed("ranges", (1, 0, 0), -2), "field flac of sample 'b' is at bytes -2"),
    "a field that ends first": (changed("ranges", (0, 1, 1), 7), r"field pth of sample 'a' is at bytes 8\.\.7"),
    "half a field": (changed("ranges", (0, 1, 0), -1), r"field pth of sample 'a' is at bytes -1\.\.24"),
    "a checksum too large": (changed("crc32", (1, 1), 1 << 32), "field pth of sample 'b' has the CRC-32 4294967296"),
    "a checksum below -1": (changed("crc32", (1, 1), -2), "has the CRC-32 -2"),
    "a tensor beside its field": (
        changed("tensors", (0, 0), [0, 8, 2, 2]),
        r"hidden of sample 'a', \(2, 2\) of float16",
    ),
    "a tensor of other size": (
        changed("tensors", (1, 0), [12, 20, 3, 2]),
        r"hidden of sample 'b', \(3, 2\) of float16",
    ),
    "a tensor of 2^64 bytes": (
        changed("tensors", (1, 0), [12, 12, 1 << 32, 1 << 31]),
        "hidden of sample 'b'",
    ),
    "a tensor that ends far before it begins": (
        changed("tensors", (1, 0), [12, -(1 << 63), 1 << 62, 1]),  # the difference wraps around to nearly 2^63
        "hidden of sample 'b'",
    ),
    "a tensor of negative size": (changed("tensors", (1, 0), [12, 20, -2, -2]), "hidden of sample 'b'"),
    "half a tensor": (changed("tensors", (1, 0), [-1, 20, 2, 2]), "hidden of sample 'b'"),
    "a tensor's checksum too large": (changed("tensor_crc32", (1, 0), 1 << 32), "hidden of sample 'b'"),
    "a tensor's checksum below -1": (changed("tensor_crc32", (1, 0), -2), "hidden of sample 'b'"),
    "a checksum without a tensor": (changed("tensors", (1, 0), -1), "hidden of sample 'b'"),
    "no checksums of tensors": ({"tensor_crc32": INDEX.tensor_crc32[:, :0]}, r"tensor_crc32 as int64 \(2, 1\)"),
    "more outputs than tensors": ({"outputs": HIDDEN * 0}, r"tensors as int64 \(2, 0, 4\)"),
    "fewer than 0 frames": (changed("num_frames", 0, -2), "sample 'a' has num_frames -2"),
    "a rate below 0": (changed("sample_rate_hz", 1, -8000), "sample 'b' has sample_rate_hz -8000"),
}


@pytest.mark.parametrize(("changes", "error"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_the_error_about_a_contradictory_index_names_it(changes, error):
    with pytest.raises(FormatError, match=rf"a\.idx: the index contradicts itself: .*{error}"):
        parse_index(replace(INDEX, **changes).to_bytes(), "a.idx")


UNKNOWN = {
    "a dtype": {"dtype": "complex64"},
    "a dtype of codes": {"kind": "codes"},
    "a kind": {"kind": "images"},
    "a hop below 0": {"hop": -1},
}


@pytest.mark.parametrize("changes", UNKNOWN.values(), ids=UNKNOWN)
def test_the_error_about_outputs_in_an_unknown_form_names_the_index(changes):
    arrays, metadata = tables.unpack(INDEX.to_bytes(), "a.idx")
    (output,) = json.loads(metadata["outputs"])
    for listed in ([output | changes], [output, output], {}, [{}], [7]):
        with pytest.raises(FormatError, match=r"a\.idx: outputs are "):
            parse_index(tables.pack(arrays, metadata | {"outputs": json.dumps(listed)}), "a.idx")


def test_payloads_are_cut_from_the_open_tar():
    assert payload(io.BytesIO(b"0123456789"), (3, 6)) == b"345"
