"""How a network runs: frozen, on its device, in which precision, compiled or not. Imports torch."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeVar

import torch
from torch import nn

Autocast = Literal["float16", "bfloat16"] | None
N = TypeVar("N", bound=nn.Module)


def frozen(network: N, device: str) -> N:
    """The network on `device`, in inference mode, without gradients."""
    return network.eval().requires_grad_(requires_grad=False).to(device)


def compiled(network: N, *, wanted: bool) -> N:
    """The network through `torch.compile` where it is wanted, for any batch size and length."""
    if not wanted:
        return network
    return torch.compile(network, dynamic=True)  # type: ignore[return-value]


def precision(device: str, autocast: Autocast) -> AbstractContextManager[object]:
    """The context in which the network runs; results are float32 or the autocast dtype."""
    if autocast is None:
        return nullcontext()
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}[autocast]
    return torch.autocast(torch.device(device).type, dtype)
