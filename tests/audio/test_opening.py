"""A recording is opened so that all of it is read, also if libsndfile alone would stop earlier."""

import io

import numpy as np
import pytest

from headrace.audio.opening import open_sound
from headrace.errors import AudioError
from tests.support.sounds import file_of, music

OGG = file_of(music(4000), "OGG", "VORBIS")
WAV = file_of(music(4000, 6))


def read(data, num_frames=100_000):
    with open_sound(io.BytesIO(data)) as sound:
        return sound.read(num_frames, "float32"), sound.info


def test_joined_streams_are_read_to_the_end():
    once, info = read(OGG)
    both, joined = read(OGG * 2)
    assert (info.num_frames, joined.num_frames) == (4000, 8000)
    assert np.array_equal(both, np.concatenate([once, once]))


def test_the_position_of_the_file_is_restored():
    file = io.BytesIO(OGG)
    file.seek(17)
    with open_sound(file) as sound:
        sound.read(10, "float32")
    assert file.tell() == 17


def test_channels_of_ogg_come_in_the_order_of_wav():
    silent = np.zeros((8000, 6))
    silent[:, 1] = music(8000)[:, 0]  # Vorbis has the centre second, WAV third
    values, _ = read(file_of(silent, "OGG", "VORBIS"))
    assert np.argmax(np.abs(values).sum(axis=0)) == 2


def test_a_seek_in_pcm_goes_to_the_frame():
    with open_sound(io.BytesIO(WAV)) as sound:
        whole = sound.read(4000, "int16")
        sound.seek(1234)
        assert np.array_equal(sound.read(10, "int16"), whole[1234:1244])


def test_what_is_no_audio_is_rejected():
    with pytest.raises(AudioError, match="a zip archive"):
        read(b"PK\3\4" + bytes(100))
