"""Outputs that an encoder declares are checked, and errors name encoder and output."""

from types import SimpleNamespace

import pytest

from headrace.encoders.outputs import common_hop, outputs_of, parsed_outputs
from headrace.errors import ConfigError

DECLARED = {
    "embedding": {"kind": "vector", "dim": 3},
    "codes": {"kind": "codes", "hop": 320},
    "levels": {"kind": "frames", "hop": 480, "dim": 2},
}

WRONG = {
    "no dict": ("codes", "outputs must be a dict"),
    "nothing": ({}, "outputs must be a dict"),
    "a kind": ({"a": {"kind": "images"}}, "output 'a': its settings are a dict with kind: frames, codes, vector"),
    "a kind that is a list": ({"a": {"kind": ["codes"]}}, "output 'a': its settings are a dict with kind: frames"),
    "no hop": ({"a": {"kind": "codes"}}, "output 'a': hop must be "),
    "a setting": ({"a": {"kind": "vector", "dim": 2, "hop": 3}}, "unknown setting 'hop'; vector have dim"),
    "a dtype": ({"a": {"kind": "codes", "hop": 3, "dtype": "int8"}}, "dtype 'int8' is not one of int16, int32, uint16"),
    "a name": ({"audio": {"kind": "vector", "dim": 2}}, "output 'audio': a name is a-z"),
    "a name of lengths": ({"a_length": {"kind": "vector", "dim": 2}}, "does not end in _length"),
    "a name of ours": ({"encoder_x": {"kind": "vector", "dim": 2}}, "names that begin with encoder_"),
}


def test_outputs_in_time_come_first_and_have_defaults():
    outputs = parsed_outputs(DECLARED, "Mine")
    assert [(one.name, one.width, one.hop, one.dtype) for one in outputs] == [
        ("codes", 1, 320, "int16"),
        ("levels", 2, 480, ""),
        ("embedding", 3, 0, ""),
    ]
    assert common_hop(outputs) == 960


def test_an_encoder_without_outputs_has_hidden_states():
    (found,) = outputs_of(SimpleNamespace(hop=80, latent_dim=4))
    assert (found.name, found.width, found.hop) == ("encoder_hidden", 4, 80)


@pytest.mark.parametrize(("declared", "words"), WRONG.values(), ids=WRONG)
def test_what_an_encoder_declares_is_checked(declared, words):
    with pytest.raises(ConfigError, match=f"encoder Mine: .*{words}"):
        parsed_outputs(declared, "Mine")
