"""The mel transform compared with its formula, and invalid settings."""

import torch

from headrace import encoders
from headrace.encoders.log_mel_settings import LogMelSettings
from headrace.encoders.log_mel_transform import mel_filters
from tests.support.audio_shards import tone


def test_a_tone_is_loudest_in_the_band_of_its_frequency() -> None:
    encoder = encoders.load("log_mel", {})
    hidden, lengths = encoder.encode(torch.from_numpy(tone(0.5, 1000.0))[None, None], torch.tensor([8000]))
    assert lengths.tolist() == [51]
    loudest = int(hidden[0, 10:-10].mean(0).argmax())
    assert int(mel_filters(LogMelSettings())[64].argmax()) == loudest  # bin 64 of 512 is 1000 Hz at a rate of 8000 Hz
