"""The Whisper and AST families of `kind: transformers`."""

from pathlib import Path

import pytest

from headrace import encoders
from tests.support.tiny_models import save


@pytest.mark.parametrize(("name", "padded"), [("whisper", 480_000), ("ast", 164_000), ("hubert", 0)])
def test_families_say_what_they_pad_to(name: str, padded: int, tmp_path: Path) -> None:
    """Whisper hears 30 s whatever it is given, AST 10 s."""
    encoder = encoders.load("transformers", {"model": str(save(name, tmp_path / "model"))})
    assert encoder.info.padded_to == pytest.approx(padded, rel=0.01)
