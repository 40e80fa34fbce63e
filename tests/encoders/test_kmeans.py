"""Settings of `kind: kmeans`, and its fingerprint."""

import numpy as np
import pytest

from headrace import encoders
from headrace.errors import ConfigError, NotFoundError


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "centroids.npy"
    np.save(found, np.eye(8, dtype=np.float32))
    return found


def _inner(**changes):
    return {"kind": "log_mel", "num_mels": 8, **changes}


WRONG = {
    "neither": ({}, "give centroids: FILE, or num_codes, for which a build fits them once"),
    "no codes": ({"num_codes": 0}, "num_codes must be at least 1, found 0"),
    "both": ({"num_codes": 4, "centroids": "PATH"}, "centroids and num_codes are both given"),
    "a missing file": ({"centroids": "/none.npy"}, "expected a .npy or .safetensors file, found /none.npy"),
    "no kind": ({"encoder": {"num_mels": 8}}, "encoder lacks its kind"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings, words, path):
    given = {name: str(path) if value == "PATH" else value for name, value in settings.items()}
    with pytest.raises(ConfigError, match=words):
        encoders.load("kmeans", {"encoder": _inner(), **given})


def test_centroids_that_a_build_fits_are_not_there_before_it():
    for asked in (encoders.load, encoders.fingerprint):
        with pytest.raises(NotFoundError, match="the centroids have not been fitted yet; a build fits them"):
            asked("kmeans", {"encoder": _inner(), "num_codes": 4})


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
