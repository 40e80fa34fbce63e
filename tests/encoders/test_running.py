"""Networks run frozen, in the precision that is asked for, and leave the process as it was."""

import pytest
import torch
from torch import nn

from headrace.encoders.running import _Switches, batch_tolerance, compiled, frozen, full_float32, precision


def test_a_frozen_network_is_in_inference_mode_and_has_no_gradients():
    network = frozen(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), "cpu")
    assert not network.training
    assert not any(weights.requires_grad for weights in network.parameters())


def test_a_network_is_compiled_only_if_that_is_wanted(monkeypatch):
    network = nn.Linear(2, 2)
    assert compiled(network, wanted=False) is network
    monkeypatch.setattr(torch, "compile", lambda network, **settings: (network, settings))
    assert compiled(network, wanted=True) == (network, {"dynamic": True})


CUDNN, MATMUL = torch.backends.cudnn, torch.backends.cuda.matmul


def _precisions():
    return CUDNN.conv.fp32_precision, CUDNN.rnn.fp32_precision, MATMUL.fp32_precision


def _by_the_older_interface():
    CUDNN.allow_tf32 = True
    torch.set_float32_matmul_precision("high")


def _by_the_newer_interface():
    CUDNN.conv.fp32_precision = CUDNN.rnn.fp32_precision = MATMUL.fp32_precision = "tf32"


def _for_all_of_torch():
    torch.backends.fp32_precision = "tf32"


@pytest.fixture(params=[lambda: None, _by_the_older_interface, _by_the_newer_interface, _for_all_of_torch])
def switched(request):
    """TF32 allowed in each of the ways that torch has, and as it is by default."""
    before, whole = _Switches.now(), torch.backends.fp32_precision
    request.param()
    yield
    torch.backends.fp32_precision = whole
    before.apply()


@pytest.mark.usefixtures("switched")
def test_float32_is_full_inside_the_block_and_as_before_after_an_error():
    def fail():
        with full_float32():
            assert "tf32" not in _precisions()
            raise KeyError

    before = _precisions()
    with pytest.raises(KeyError):
        fail()
    assert _precisions() == before


@pytest.mark.usefixtures("switched")
def test_two_runs_that_overlap_are_both_in_full_precision():
    before = _precisions()
    first, second = full_float32(), full_float32()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert "tf32" not in _precisions()
    second.__exit__(None, None, None)
    assert _precisions() == before


@pytest.mark.usefixtures("switched")
def test_models_may_use_the_older_switches_inside():
    with full_float32():
        assert CUDNN.allow_tf32 is MATMUL.allow_tf32 is False
        with CUDNN.flags(enabled=False, allow_tf32=False):
            assert CUDNN.allow_tf32 is False
        assert "tf32" not in _precisions()


@pytest.mark.parametrize(
    ("autocast", "dtype"), [(None, torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16)]
)
def test_a_network_computes_in_the_autocast_dtype(autocast, dtype):
    with precision("cpu", autocast):
        assert nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == dtype


def test_coarser_dtypes_may_differ_more_within_a_batch():
    assert batch_tolerance(None) == 0 < batch_tolerance("float16") < batch_tolerance("bfloat16")
