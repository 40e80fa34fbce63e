"""Bytes of a GZIP file from any place."""

import gzip
import io
import random

import pytest

from headrace.sources.kinds import gzip_points
from headrace.sources.kinds.gzip_points import GzipReader, bytes_at

CONTENT = b"".join(bytes([at % 251]) * 50 + random.Random(at).randbytes(100) for at in range(6000))


@pytest.fixture
def file(monkeypatch):
    """Two GZIP files one after the other; points are close to each other."""
    monkeypatch.setattr(gzip_points, "_APART_BYTES", 100_000)
    monkeypatch.setattr(gzip_points, "_PIECE_BYTES", 10_000)
    return io.BytesIO(gzip.compress(CONTENT[:500_000]) + gzip.compress(CONTENT[500_000:]))


def test_bytes_at_any_place_are_those_of_the_content(file):
    reader = GzipReader(file)
    assert reader.read(len(CONTENT) + 1) == CONTENT
    assert len(reader.points) > 5
    for start in (0, 1, 99_999, 499_990, 500_000, len(CONTENT) - 10, len(CONTENT)):
        assert bytes_at(file, reader.points, start, 20) == CONTENT[start : start + 20]
        assert bytes_at(file, reader.points[3:], start, 20) == CONTENT[start : start + 20]


@pytest.mark.parametrize("harm", [lambda data: data[:-20], lambda data: data[:3000] + b"xxxx" + data[3004:]])
def test_a_damaged_file_is_an_error(file, harm):
    with pytest.raises(OSError, match="gzip file"):
        GzipReader(io.BytesIO(harm(file.getvalue()))).read(len(CONTENT))
