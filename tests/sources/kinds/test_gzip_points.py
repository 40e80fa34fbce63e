"""Stretches of a GZIP file, each of which is unpacked by itself."""

import gzip
import random
import tracemalloc
from itertools import pairwise

import pytest

from headrace.sources.kinds import gzip_points
from headrace.sources.kinds.gzip_points import GzipReader, Stretches
from headrace.sources.name_index import Kept

CONTENT = b"".join(bytes([at % 251]) * 50 + random.Random(at).randbytes(100) for at in range(6000))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Points are close to each other, and no stretch is kept."""
    monkeypatch.setattr(gzip_points, "_APART_BYTES", 100_000)
    monkeypatch.setattr(gzip_points, "_PIECE_BYTES", 10_000)
    monkeypatch.setattr(gzip_points, "_UNPACKED_BYTES", 3000)
    monkeypatch.setattr(gzip_points, "_kept", Kept(len, 1))


@pytest.fixture
def file(tmp_path):
    """Two GZIP files one after the other."""
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(CONTENT[:500_000]) + gzip.compress(CONTENT[500_000:]))
    return path


def stretches_of(path, num_bytes):
    """The stretches of as much of the content, and this content."""
    points = []
    with path.open("rb") as data:
        content = GzipReader(data, points=points).read(num_bytes)
    return Stretches(points, num_bytes), content


def test_the_stretches_between_points_are_the_content(file):
    stretches, content = stretches_of(file, len(CONTENT))
    assert content == CONTENT
    starts = [point.unpacked for point in stretches.points]
    assert starts[0] == 0
    assert len(starts) > 5
    for start, stop in pairwise([*starts, len(CONTENT)]):
        middle = (start + stop) // 2
        for first, end in ((start, stop), (middle, stop), (start, middle), (start - 10, stop), (middle, middle)):
            if first >= 0:
                assert stretches.read(str(file), None, first, end - first) == CONTENT[first:end]


@pytest.mark.parametrize("harm", [lambda data: data[:-20], lambda data: data[:3000] + b"xxxx" + data[3004:]])
def test_a_damaged_file_is_an_error(file, harm):
    file.write_bytes(harm(file.read_bytes()))
    with pytest.raises(OSError, match="gzip file"):
        stretches_of(file, len(CONTENT) + 1)


@pytest.mark.parametrize("harm", [lambda data: data[:-20_000], lambda data: data[:600_000] + b"\xff" * 20_000])
def test_what_is_before_damage_is_read_again(file, harm):
    file.write_bytes(harm(file.read_bytes()))
    good = 0
    with file.open("rb") as data, pytest.raises(OSError, match="gzip file"):  # noqa: PT012 - how far it goes
        reader = GzipReader(data)
        while reader.read(10):
            good += 10
    assert good > 700_000
    stretches, content = stretches_of(file, good)
    for start in range(0, good, 50_000):
        size = min(50_000, good - start)
        assert stretches.read(str(file), None, start, size) == content[start : start + size]


def test_there_is_a_point_where_one_file_in_another_ends(file, monkeypatch):
    monkeypatch.setattr(gzip_points, "_PIECE_BYTES", 150_000)
    monkeypatch.setattr(gzip_points, "_UNPACKED_BYTES", 1 << 20)
    parts = [CONTENT[start : start + 150_000] for start in range(0, len(CONTENT), 150_000)]
    file.write_bytes(b"".join(map(of_a_piece, parts)))
    stretches, _ = stretches_of(file, len(CONTENT))
    assert [point.packed for point in stretches.points] == [150_000 * number for number in range(6)]
    assert stretches.read(str(file), None, 149_990, 20) == CONTENT[149_990:150_010]


def of_a_piece(content):
    """A GZIP file as long as a piece: the name in its header is long."""
    packed = gzip.compress(content)
    name = bytes(gzip_points._PIECE_BYTES - len(packed)).replace(b"\0", b"x")[:-1] + b"\0"
    return packed[:3] + b"\x08" + packed[4:10] + name + packed[10:]


@pytest.mark.medium
def test_what_is_packed_a_thousandfold_takes_little_memory(file, monkeypatch):
    monkeypatch.setattr(gzip_points, "_PIECE_BYTES", 64 << 10)
    file.write_bytes(gzip.compress(bytes(50_000_000)))
    tracemalloc.start()
    try:
        with file.open("rb") as data:
            assert GzipReader(data).read(10) == bytes(10)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
