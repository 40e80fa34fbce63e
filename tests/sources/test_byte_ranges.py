"""Ranges of files as files of their own."""

import io

import pytest

from headrace.errors import FileChangedError
from headrace.sources.byte_ranges import RangeFile, open_content, open_range, range_stamp
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import stamp_of_file


def test_a_range_reads_and_seeks_like_its_bytes(tmp_path):
    content = bytes(range(200))
    (tmp_path / "a").write_bytes(content)
    with (tmp_path / "a").open("rb") as whole, io.BufferedReader(RangeFile(whole, 50, 100)) as part:
        assert part.read() == content[50:150]
        assert (part.seek(-5, 2), part.read()) == (95, content[145:150])
        assert (part.seek(10), part.seek(5, 1), part.read(3)) == (10, 15, content[65:68])
        assert (part.seek(500), part.read()) == (500, b"")


@pytest.mark.parametrize("start", [None, 0, 2])
def test_a_file_that_changes_or_is_another_one_is_an_error(tmp_path, start):
    file = tmp_path / "a"
    file.write_bytes(b"12345678")
    whole = stamp_of_file(str(file))
    stamp = whole if start is None else range_stamp(whole, 4)
    with open_range(str(file), start, stamp, "a") as data:
        assert data.read() == b"12345678"[start:][: stamp.num_bytes]
    other = FileStamp(stamp.num_bytes, stamp.mtime_ns + 1, stamp.ctime_ns)
    with pytest.raises(FileChangedError, match="a: "), open_range(str(file), start, other, "a"):
        pytest.fail("opened")
    with pytest.raises(FileChangedError), open_range(str(file), start, stamp, "a"):
        file.write_bytes(b"1234")


def test_content_of_another_length_is_an_error(tmp_path):
    (tmp_path / "a").write_bytes(b"1234")
    stamp = range_stamp(stamp_of_file(str(tmp_path / "a")), 2)
    with open_content(str(tmp_path / "a"), lambda: b"ab", stamp, "a") as data:
        assert data.read() == b"ab"
    with pytest.raises(FileChangedError), open_content(str(tmp_path / "a"), lambda: b"abc", stamp, "a"):
        pytest.fail("opened")


def test_the_size_of_an_object_takes_the_place_of_its_change_time():
    assert range_stamp(FileStamp(100, 5), 7) == FileStamp(7, 5, 100)
    assert range_stamp(FileStamp(100, 5, 6), 7) == FileStamp(7, 5, 6)
