"""The output of `headrace verify --encode-again`, and its errors."""

import re

import pytest

from headrace.cli import main
from tests.support.certified_latents import CertifiedLatents
from tests.support.latent_damage import replace_latents


@pytest.fixture
def data(tmp_path):
    return CertifiedLatents(tmp_path)


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
