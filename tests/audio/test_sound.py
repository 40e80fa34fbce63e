"""libsndfile opens a recording by its content; its errors become reasons for a rejection."""

import gzip
import io

import numpy as np
import pytest

from headrace.audio.sound import ForwardSound, info_of, open_plain
from headrace.errors import AudioError
from tests.support.sounds import file_of, music

WAV = file_of(music(500, 2), "WAV", "PCM_24")


def test_the_facts_of_a_header():
    with open_plain(io.BytesIO(WAV)) as sound:
        info = info_of(sound)
    assert (info.container, info.subtype, info.num_frames) == ("WAV", "PCM_24", 500)
    assert (info.sample_rate_hz, info.num_channels, info.bits_per_sample) == (44_100, 2, 24)


@pytest.mark.parametrize("opened", [open, gzip.open], ids=["a plain file", "gzip"])
def test_a_file_of_any_kind_is_read_with_its_own_bytes(tmp_path, opened):
    with opened(tmp_path / "a.bin", "wb") as file:
        file.write(WAV)
    with opened(tmp_path / "a.bin", "rb") as file, open_plain(file) as sound:
        assert len(sound.read(1000, "int32")) == 500


def test_reads_of_mp3_go_on_where_the_last_one_ended():
    data = file_of(music(5000), "MP3", "MPEG_LAYER_III")
    with ForwardSound(io.BytesIO(data)) as sound:
        at_once = sound.read(4000, "float32")
    with ForwardSound(io.BytesIO(data)) as sound:
        in_blocks = np.concatenate([sound.read(500, "float32") for _ in range(8)])
    assert np.array_equal(at_once, in_blocks)


def test_what_libsndfile_does_not_know_is_unsupported_and_what_it_cannot_read_undecodable():
    for data, reason in ((b"nothing of audio" * 8, "unsupported"), (WAV[:20], "undecodable")):
        with pytest.raises(AudioError) as error, open_plain(io.BytesIO(data)):
            pass
        assert error.value.reason == reason


def test_the_position_is_restored_also_where_the_file_is_refused():
    file = io.BytesIO(b"0123" * 20)
    file.seek(2)
    with pytest.raises(AudioError):
        open_plain(file).__enter__()
    assert file.tell() == 2
