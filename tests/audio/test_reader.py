"""Windows of a recording are read forward: each frame is decoded once, and a missing or infinite one is an error."""

import numpy as np
import pytest

from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.reader import FrameReader, covers, native_dtype, overlap_of, read_to_end
from headrace.audio.segments import SourceWindow
from headrace.errors import AudioError


class FakeSound:
    """Frame n has the value n. Records what is decoded."""

    def __init__(self, num_frames=100, bad=None):
        self.values, self.at, self.calls = np.arange(num_frames, dtype=np.float32)[:, None], 0, []
        if bad is not None:
            self.values[bad] = np.nan

    def read(self, num_frames, dtype):
        self.calls.append((self.at, num_frames))
        self.at += num_frames
        return self.values[self.at - num_frames : self.at].astype(dtype)

    def seek(self, frame):
        self.at = frame


def info(subtype="VORBIS", num_frames=100, bits=None):
    return AudioInfo("OGG", subtype, num_frames, 8000, 1, bits)


def reader(sound, facts, **options):
    return FrameReader(sound, facts, dtype="float32", block_frames=10, **options)


def frames(blocks):
    return [int(value) for block in blocks for value in block[:, 0]]


def test_windows_that_overlap_are_decoded_once():
    sound = FakeSound()
    forward = reader(sound, info(), keep=5)
    assert frames(forward.blocks(0, 25)) == list(range(25))
    assert frames(forward.blocks(20, 32)) == list(range(20, 32))
    assert sound.calls == [(0, 10), (10, 10), (20, 5), (25, 7)]


def test_a_window_before_the_kept_frames_is_refused():
    forward = reader(FakeSound(), info(), keep=5)
    list(forward.blocks(0, 25))
    with pytest.raises(ValueError, match="frame 19 requested after frame 25"):
        list(forward.blocks(19, 30))


@pytest.mark.parametrize(("subtype", "calls"), [("PCM_16", [(40, 10)]), ("VORBIS", [(0, 30), (30, 10), (40, 10)])])
def test_a_gap_is_sought_where_that_is_exact_and_otherwise_decoded(subtype, calls):
    sound = FakeSound()
    assert frames(reader(sound, info(subtype), skip_frames=30).blocks(40, 50)) == list(range(40, 50))
    assert sound.calls == calls


def test_a_recording_that_ends_early_and_a_nan_name_the_frame():
    with pytest.raises(AudioError, match="promises 120 frames, decoding ends after 100") as error:
        read_to_end(reader(FakeSound(100), info(num_frames=120)), 120)
    assert error.value.reason == AudioReject.TRUNCATED
    with pytest.raises(AudioError, match="frame 37 is NaN or infinite") as error:
        read_to_end(reader(FakeSound(bad=37), info()), 100)
    assert error.value.reason == AudioReject.NON_FINITE


def test_overlaps_and_gaps_of_windows_are_found():
    windows = [SourceWindow(0, 10, 0), SourceWindow(7, 20, 0), SourceWindow(20, 30, 0)]
    assert overlap_of(windows) == 3
    assert covers(windows, 30)
    assert not covers(windows, 31)
    assert not covers([windows[0], windows[2]], 30)


def test_a_source_is_decoded_in_the_narrowest_dtype_without_loss():
    kinds = [("PCM_16", 16), ("PCM_24", 24), ("FLOAT", 32), ("DOUBLE", 64), ("OPUS", None), ("ULAW", None)]
    assert [native_dtype(info(subtype, bits=bits)) for subtype, bits in kinds] == [
        "int16", "int32", "float32", "float64", "float32", "int16",
    ]  # fmt: skip
