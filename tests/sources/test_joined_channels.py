"""The channels of several files as one WAV."""

import io
import itertools

import numpy as np
import pytest
import soundfile

from headrace.sources import joined_channels as module
from headrace.sources.joined_channels import joined_channels, joined_size
from tests.support.corpora import write_sound

SAMPLES = np.array([1, -(2**7), 2**7 - 1, 0, 3]) / 2**7  # every form holds them
FORMS = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT")


@pytest.fixture
def files(tmp_path):
    """Form → a WAV of this form."""
    for form in FORMS:
        soundfile.write(tmp_path / f"{form}.wav", SAMPLES, 8000, subtype=form)
    return {form: f"{tmp_path}/{form}.wav" for form in FORMS}


@pytest.mark.parametrize("forms", list(itertools.product(FORMS, FORMS)), ids="-".join)
def test_any_two_forms_are_joined_bit_by_bit_or_refused(forms, files):
    chosen = [files[form] for form in forms]
    if set(forms) == {"PCM_32", "FLOAT"}:
        with pytest.raises(OSError, match="PCM_32, whose samples do not fit among the FLOAT"):
            joined_channels(chosen)
        return
    joined = joined_channels(chosen)
    assert joined_size(chosen) == len(joined)
    assert np.array_equal(soundfile.read(io.BytesIO(joined))[0], np.stack([SAMPLES, SAMPLES], axis=1))


@pytest.mark.parametrize(
    ("frames", "rate_hz", "said"), [(400, 16_000, "400 frames at 16000 Hz"), (300, 8000, "300 frames at 8000 Hz")]
)
def test_other_lengths_and_rates_are_errors_with_both_files(frames, rate_hz, said, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(400), 8000)
    soundfile.write(tmp_path / "b.wav", np.zeros(frames), rate_hz)
    with pytest.raises(OSError, match=f"b.wav has {said}, and .*a.wav has 400 at 8000 Hz"):
        joined_size([f"{tmp_path}/a.wav", f"{tmp_path}/b.wav"])


def test_joining_probes_each_file_once(tmp_path, monkeypatch):
    probed, paths = [], [str(write_sound(tmp_path / name, 1)) for name in ("a.wav", "b.wav")]
    real = module._info
    monkeypatch.setattr(module, "_info", lambda file: probed.append(file) or real(file))
    joined_channels(paths)
    assert probed == paths
