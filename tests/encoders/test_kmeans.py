"""Settings of `kind: kmeans`, and its fingerprint."""

import numpy as np
import pytest

from headrace import encoders
from headrace.errors import ConfigError


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "centroids.npy"
    np.save(found, np.eye(8, dtype=np.float32))
    return found


def _inner(**changes):
    return {"kind": "log_mel", "num_mels": 8, **changes}


WRONG = {
    "no file": ({}, "centroids are not fitted by a build; fit them once with .*fit_centroids"),
    "only a number": ({"num_codes": 4}, "num_codes is given, but centroids are not fitted by a build"),
    "both": ({"num_codes": 4, "centroids": "PATH"}, "centroids and num_codes are both given"),
    "a missing file": ({"centroids": "/none.npy"}, "expected a .npy or .safetensors file, found /none.npy"),
    "no kind": ({"encoder": {"num_mels": 8}}, "encoder lacks its kind"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings, words, path):
    given = {name: str(path) if value == "PATH" else value for name, value in settings.items()}
    with pytest.raises(ConfigError, match=words):
        encoders.load("kmeans", {"encoder": _inner(), **given})


def test_the_fingerprint_is_of_the_encoder_and_of_the_files_content(path, tmp_path):
    same = tmp_path / "same.npy"
    same.write_bytes(path.read_bytes())
    own = {"encoder": _inner(), "centroids": str(path)}
    prints = [
        encoders.fingerprint("kmeans", changed)
        for changed in (own, own | {"centroids": str(same)}, own | {"encoder": _inner(floor=0.1)})
    ]
    np.save(path, np.eye(8, dtype=np.float32) * 2)
    prints.append(encoders.fingerprint("kmeans", own))
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
