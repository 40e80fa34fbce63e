"""The output of `headrace verify --encode-again`, and its errors."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.cli import main
from tests.support import custom_encoder
from tests.support.certified_latents import CertifiedLatents
from tests.support.latent_builds import MEL
from tests.support.latent_damage import replace_latents


@pytest.fixture
def data(tmp_path):
    return CertifiedLatents(tmp_path)


@pytest.mark.medium
def test_the_table_has_a_row_for_each_output_and_the_faults(data, capsys):
    replace_latents(data.storage, lambda latents: {key: values + 1 for key, values in latents.items()})
    assert data.verify() == 1
    text = capsys.readouterr().out
    assert "encoded again on cpu" in text
    assert "mel: 12 of the samples made by cpu, torch" in text
    assert "12 faults" in text


WRONG = {
    "another encoder": ({"num_mels": 9}, (), "another fingerprint than latents .mel. of the YAML: encoder"),
    "no config": (None, (), "--encode-again needs --config NAME.yaml"),
    "audio": ({}, ("audio",), "no latents of mine.yaml; found no folder of latents, and the YAML has mel"),
}


@pytest.mark.parametrize(("encoder", "below", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(encoder, below, words, data, capsys):
    path = data.root.joinpath(*below)
    if encoder is None:
        assert main(["verify", str(path), "--encode-again", "1"]) == 1
    else:
        assert data.verify(path=path, **encoder) == 1
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize("below", ["", "datasets"], ids=["beside the YAML", "at the root of the project"])
def test_an_encoder_of_the_user_is_imported_from_the_root(below, tmp_path, monkeypatch):
    shutil.copy(custom_encoder.__file__, tmp_path / "users_encoder.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = CertifiedLatents(tmp_path, {"kind": "custom", "encoder": "users_encoder:Loudness"})
    (tmp_path / "workspace.yaml").touch()
    file = tmp_path / below / "mine.yaml"
    file.parent.mkdir(exist_ok=True)
    Path(data.yaml()).rename(file)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in {"", str(tmp_path)}])
    monkeypatch.delitem(sys.modules, "users_encoder")
    assert main(["verify", str(tmp_path), "--encode-again", "1", "--config", str(file)]) == 0
    monkeypatch.delitem(sys.modules, "users_encoder")


def test_files_of_encoders_are_found_below_the_root(tmp_path, monkeypatch):
    path = tmp_path / "centroids.npy"
    np.save(path, np.eye(MEL["num_mels"], dtype=np.float32))
    data = CertifiedLatents(tmp_path, {"kind": "kmeans", "encoder": {"kind": "log_mel", **MEL}, "centroids": str(path)})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert data.verify(centroids="centroids.npy") == 0
