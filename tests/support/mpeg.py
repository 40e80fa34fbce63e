"""Shared by test_mpeg and the tests beside it."""

import io

import pytest

from headrace.audio.sound import ForwardSound
from headrace.errors import AudioError
from tests.support.sounds import probed


def reference(data):
    """Samples (channels, frames) that libsndfile reads of a file; its seek to 0 would change the last bit of some."""
    with ForwardSound(io.BytesIO(data)) as sound:
        return sound.read(sound.frames, dtype="float32", always_2d=True).T


def refusal_of(data):
    with pytest.raises(AudioError) as refusal:
        probed(data)
    return refusal.value
