"""CREPE: its weights give correct pitches and are loaded safely."""

from pathlib import Path

import pytest
import torch

from headrace import encoders
from headrace.encoders import weights
from tests.support.crepe import TINY


@pytest.mark.medium
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
