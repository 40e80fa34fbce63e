"""Parts of a recording are decoded one after another, as one sound."""

import io

import numpy as np
import pytest

from headrace.audio.parts import FilePart, open_parts, part_file
from headrace.errors import AudioError
from tests.support.sounds import file_of, music

ONE, TWO = (file_of(music(frames, 1, 16_000, seed=frames), rate_hz=16_000) for frames in (700, 300))
JOINED = io.BytesIO(ONE + TWO)
SPANS = [(0, len(ONE)), (len(ONE), len(ONE) + len(TWO))]


@pytest.mark.parametrize("size", [1000, 300, 701])
def test_reading_in_blocks_of_any_size_gives_all_frames_in_order(size):
    with open_parts(JOINED, [FilePart((span,)) for span in SPANS]) as sound:
        assert sound.info.num_frames == 1000
        blocks = []
        while len(block := sound.read(size, "int16")):
            blocks.append(block)
    expected = [np.frombuffer(data[-2 * frames :], "<i2") for data, frames in ((ONE, 700), (TWO, 300))]
    assert np.array_equal(np.concatenate(blocks)[:, 0], np.concatenate(expected))


def test_a_part_has_no_more_frames_than_it_says():
    with open_parts(JOINED, [FilePart((SPANS[0],), num_frames=10), FilePart((SPANS[1],))]) as sound:
        assert sound.info.num_frames == 310
        assert len(sound.read(1000, "int16")) == 310
        with pytest.raises(NotImplementedError):
            sound.seek(0)


def test_the_file_of_a_part_is_its_head_its_spans_and_zeros():
    with part_file(io.BytesIO(b"0123456789"), FilePart(((2, 4), (7, 9)), head=b"head", num_bytes=10)) as file:
        assert file.read() == b"head2378\0\0"


def test_parts_that_differ_in_form_are_rejected():
    other = file_of(music(10, 1, 8000), rate_hz=8000)
    parts = [FilePart((SPANS[0],)), FilePart(((len(ONE), len(ONE) + len(other)),))]
    with pytest.raises(AudioError, match=r"first is PCM_16 at 16000 Hz .* number 2 is PCM_16 at 8000 Hz"):
        open_parts(io.BytesIO(ONE + other), parts).__enter__()
