"""dr_flac decodes FLAC from memory and from files, from any frame, to the values that libsndfile decodes."""

import io

import numpy as np
import pytest
import soundfile as sf

from headrace.audio.dr_flac import open_file, open_memory
from tests.support.sounds import file_of, integers

SAMPLES = integers(5000, 2, 24)
STREAM = file_of(SAMPLES, "FLAC", "PCM_24")


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int16])
@pytest.mark.parametrize("start", [0, 4097])
def test_values_from_a_frame_on_are_those_of_libsndfile(dtype, start):
    out = np.empty(2 * 700, dtype)
    with open_memory(STREAM) as decoder:
        assert decoder.seek(start)
        assert decoder.read(700, out) == 700
    expected = sf.read(io.BytesIO(STREAM), dtype=np.dtype(dtype).name)[0][start : start + 700]
    assert np.array_equal(out.reshape(-1, 2), expected)


def test_fewer_frames_are_reported_at_the_end():
    out = np.empty(2 * 100, np.int32)
    with open_memory(STREAM) as decoder:
        decoder.seek(4950)
        assert decoder.read(100, out) == 50


def test_a_file_is_decoded_like_memory(tmp_path):
    (tmp_path / "a.flac").write_bytes(STREAM)
    out = np.empty(2 * 5000, np.int32)
    with open_file(str(tmp_path / "a.flac")) as decoder:
        assert decoder.read(5000, out) == 5000
    assert np.array_equal(out.reshape(-1, 2), SAMPLES)


def test_what_is_not_flac_is_not_opened(tmp_path):
    (tmp_path / "a.flac").write_bytes(b"RIFF" * 10)
    assert open_memory(b"RIFF" * 10) is None
    assert open_file(str(tmp_path / "a.flac")) is None
    assert open_file(str(tmp_path / "missing.flac")) is None
