"""Samples whose bytes are no audio."""

import pytest

from headrace import StreamingDataset
from headrace.errors import SampleError
from tests.support.tars import tar_of


def test_a_sample_that_is_no_audio_is_named(tmp_path):
    (tmp_path / "x.tar").write_bytes(tar_of({"a.flac": b"not audio at all", "b.wav": b"RIFFxxxx"}))
    with pytest.raises(SampleError, match=r"x.tar: sample 'a'"):
        next(iter(StreamingDataset(remote=str(tmp_path))))
