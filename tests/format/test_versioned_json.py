"""Tests of `headrace.format.versioned_json`."""

import pytest

from headrace.errors import FormatError
from headrace.format.versioned_json import versioned_bytes, versioned_json


def test_the_head_of_a_file_is_read_without_the_rest_and_all_of_it_if_there_is_no_rest():
    blob = versioned_bytes("headrace_list", {"size": 2, "names": ["ä", "b"], "rest": [0]})
    assert versioned_json(blob, "x", "headrace_list", before="names") == {"size": 2}
    whole = {"size": 2, "names": ["ä", "b"], "rest": [0]}
    assert versioned_json(blob, "x", "headrace_list", before="more") == whole
    assert versioned_json(blob, "x", "headrace_list") == whole
    assert "ä".encode() in blob
    with pytest.raises(FormatError, match="a damaged headrace list"):
        versioned_json(blob.replace(b"0\n", b"1\n"), "x", "headrace_list", before="names")


def test_content_that_looks_like_a_missing_checksum_is_kept():
    blob = versioned_bytes("headrace_list", {"names": ["00000000", "00000000"]})
    assert versioned_json(blob, "x", "headrace_list") == {"names": ["00000000", "00000000"]}


@pytest.mark.parametrize("blob", [b"{}", b"[" * 100_000, b'{"headrace_list": 1}', b'{"headrace_list": 1, "crc32": 5}'])
def test_a_file_that_is_not_such_an_object_is_an_error(blob):
    with pytest.raises(FormatError, match="headrace list"):
        versioned_json(blob, "x", "headrace_list")
