"""Tests of `headrace.encoders.crepe_network`."""

import pickle
from pathlib import Path

import pytest
import torch

from headrace.errors import FormatError, IntegrityError
from tests.support.audio_shards import tone
from tests.support.crepe import TINY, _crepe
from tests.support.tiny_models import Malice


@pytest.mark.parametrize("frequency_hz", [110.0, 440.0, 880.0])
def test_the_trained_weights_detect_the_pitch_of_a_tone(frequency_hz: float) -> None:
    """Activations peak at the tone's pitch, within one bin of 20 cents."""
    crepe = _crepe()
    clip = torch.from_numpy(tone(1.0, frequency_hz))
    hidden, lengths = crepe.encode(clip[None, None], torch.tensor([len(clip)]))
    assert lengths.tolist() == [51]
    with torch.inference_mode():
        inside = crepe._network.classifier(hidden[0, 3:-3]).sigmoid()
    found_hz = 10 * 2 ** ((1997.3794084376191 + 20 * inside.argmax(dim=1).float()) / 1200)  # bins of 20 cents
    cents = 1200 * torch.log2(found_hz / frequency_hz)
    assert float(cents.abs().max()) <= 20
    assert float(inside.max(dim=1).values.min()) > 0.3


def test_a_malicious_pickle_is_an_error_and_does_not_run(tmp_path: Path) -> None:
    """This includes torch's zip format."""
    for name, write in (
        ("plain", lambda path: path.write_bytes(pickle.dumps(Malice(tmp_path / "ran")))),
        ("zip", lambda path: torch.save(Malice(tmp_path / "ran"), path)),
    ):
        path = tmp_path / f"{name}.pth"
        write(path)
        with pytest.raises(IntegrityError, match=r"rejected.*install it again"):
            _crepe(weights=str(path))
    assert not (tmp_path / "ran").exists()


def test_weights_of_another_size_are_an_error(tmp_path: Path) -> None:
    """The message says that they do not fit."""
    with pytest.raises(FormatError, match="do not fit"):
        _crepe(capacity="full", weights=str(TINY))


@pytest.mark.medium
def test_autocast_stays_close() -> None:
    """bfloat16 changes latents by little, and gives float32 back."""
    clip = torch.from_numpy(tone(0.5))[None, None]
    exact, rough = (_crepe(autocast=dtype).encode(clip, torch.tensor([8000]))[0] for dtype in (None, "bfloat16"))
    assert rough.dtype == torch.float32
    assert float((exact - rough).abs().max()) < 0.1 * float(exact.abs().max())
