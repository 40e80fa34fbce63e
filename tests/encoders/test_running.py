"""Networks run frozen, in the precision that is asked for, and leave the process as it was."""

import pytest
import torch
from torch import nn

from headrace.encoders.running import _float32_switches, batch_tolerance, compiled, frozen, full_float32, precision


def test_a_frozen_network_is_in_inference_mode_and_has_no_gradients():
    network = frozen(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), "cpu")
    assert not network.training
    assert not any(weights.requires_grad for weights in network.parameters())


def test_a_network_is_compiled_only_if_that_is_wanted(monkeypatch):
    network = nn.Linear(2, 2)
    assert compiled(network, wanted=False) is network
    monkeypatch.setattr(torch, "compile", lambda network, **settings: (network, settings))
    assert compiled(network, wanted=True) == (network, {"dynamic": True})


def test_float32_is_full_inside_the_block_and_as_before_after_an_error():
    switches = _float32_switches()
    assert switches

    def values():
        return [getattr(owner, name) for owner, name, _ in switches]

    def fail():
        with full_float32():
            assert values() == [in_full for _, _, in_full in switches]
            raise KeyError

    before = values()
    with pytest.raises(KeyError):
        fail()
    assert values() == before


@pytest.mark.parametrize(
    ("autocast", "dtype"), [(None, torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16)]
)
def test_a_network_computes_in_the_autocast_dtype(autocast, dtype):
    with precision("cpu", autocast):
        assert nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == dtype


def test_coarser_dtypes_may_differ_more_within_a_batch():
    assert batch_tolerance(None) == 0 < batch_tolerance("float16") < batch_tolerance("bfloat16")
