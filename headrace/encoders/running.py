"""Prepares networks to run: frozen, on their device, compiled or not, and in which precision. Imports torch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, TypeVar

import torch
from torch import nn

Autocast = Literal["float16", "bfloat16"] | None
N = TypeVar("N", bound=nn.Module)

_ROUNDING = {None: 0.0, "float16": 8e-3, "bfloat16": 6e-2}  # measured with a dozen layers: 1e-3 and 8e-3


def frozen(network: N, device: str) -> N:
    """The network on `device`, in inference mode, without gradients."""
    return network.eval().requires_grad_(requires_grad=False).to(device)


def compiled(network: N, *, wanted: bool) -> N:
    """The network, compiled by `torch.compile` for any batch size and length if `wanted`."""
    if not wanted:
        return network
    return torch.compile(network, dynamic=True)  # type: ignore[return-value]


@contextmanager
def full_float32() -> Iterator[None]:
    """Context in which CUDA computes float32 in full precision, so that GPU and CPU latents differ by rounding only.

    By default cuDNN's convolutions use TF32, which keeps 10 bits of the mantissa. Torch's switches for this apply to
    the whole process. Lower precision is a setting of the encoder (`autocast`) and changes its fingerprint.
    """
    switches = _float32_switches()
    before = [getattr(owner, name) for owner, name, _ in switches]
    for owner, name, in_full in switches:
        setattr(owner, name, in_full)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(switches, before, strict=True):
            setattr(owner, name, value)


def _float32_switches() -> list[tuple[object, str, object]]:
    """Owner, attribute and full-precision value of each switch. Torch 2.9 has new ones and rejects a mixture."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if hasattr(cudnn, "conv"):
        return [(owner, "fp32_precision", "ieee") for owner in (cudnn.conv, cudnn.rnn, matmul)]
    return [(owner, "allow_tf32", False) for owner in (cudnn, matmul)]


def precision(device: str, autocast: Autocast) -> AbstractContextManager[object]:
    """Context in which a network computes in the autocast dtype, or in float32 without one."""
    if autocast is None:
        return nullcontext()
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}[autocast]
    return torch.autocast(torch.device(device).type, dtype)


def batch_tolerance(autocast: Autocast) -> float:
    """The `EncoderInfo.batch_tolerance` of a network that computes in the autocast dtype."""
    return _ROUNDING[autocast]
