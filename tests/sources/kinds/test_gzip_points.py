"""Stretches of a GZIP file, each of which is unpacked by itself."""

import gzip
import io
import random
from itertools import pairwise

import pytest

from headrace.sources.kinds import gzip_points
from headrace.sources.kinds.gzip_points import GzipReader, stretch_at, stretch_of

CONTENT = b"".join(bytes([at % 251]) * 50 + random.Random(at).randbytes(100) for at in range(6000))


@pytest.fixture
def file(monkeypatch):
    """Two GZIP files one after the other; points are close to each other."""
    monkeypatch.setattr(gzip_points, "_APART_BYTES", 100_000)
    monkeypatch.setattr(gzip_points, "_PIECE_BYTES", 10_000)
    return io.BytesIO(gzip.compress(CONTENT[:500_000]) + gzip.compress(CONTENT[500_000:]))


def test_the_stretches_between_points_are_the_content(file):
    reader = GzipReader(file)
    assert reader.read(len(CONTENT) + 1) == CONTENT
    assert len(reader.points) > 5
    starts = [point.unpacked for point in reader.points]
    assert starts[0] == 0
    for number, (start, stop) in enumerate(pairwise([*starts, len(CONTENT)])):
        assert stretch_at(file, reader.points, number) == CONTENT[start:stop]
        assert {stretch_of(reader.points, byte) for byte in (start, (start + stop) // 2, stop - 1)} == {number}


@pytest.mark.parametrize("harm", [lambda data: data[:-20], lambda data: data[:3000] + b"xxxx" + data[3004:]])
def test_a_damaged_file_is_an_error(file, harm):
    with pytest.raises(OSError, match="gzip file"):
        GzipReader(io.BytesIO(harm(file.getvalue()))).read(len(CONTENT))
