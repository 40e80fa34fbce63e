"""Prepares networks to run: frozen, on their device, compiled or not, and in which precision. Imports torch."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import nn

Autocast = Literal["float16", "bfloat16"] | None
N = TypeVar("N", bound=nn.Module)
T = TypeVar("T")

_ROUNDING = {None: 0.0, "float16": 8e-3, "bfloat16": 6e-2}  # measured with a dozen layers: 1e-3 and 8e-3


_SIZES = ("kernel_size", "padding_total", "stride")
"""Buffers from which transformers' codecs compute how much to pad: on a GPU, each layer would wait for their values."""


def frozen(network: N, device: str) -> N:
    """The network on `device`, in inference mode, without gradients. What the CPU alone computes with stays there."""
    sizes = [
        (module, name, buffer.cpu())
        for module in network.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name in _SIZES
    ]
    network.eval().requires_grad_(requires_grad=False).to(device)
    for module, name, buffer in sizes:
        setattr(module, name, buffer)
    return network


def compiled(network: N, *, wanted: bool) -> N:
    """The network, compiled by `torch.compile` for any batch size and length if `wanted`."""
    if not wanted:
        return network
    return torch.compile(network, dynamic=True)  # type: ignore[return-value]


@contextmanager
def full_float32() -> Iterator[None]:
    """Context in which CUDA computes float32 in full precision, so that GPU and CPU latents differ by rounding only.

    By default cuDNN's convolutions use TF32, which keeps 10 bits of the mantissa. Torch's switches for this apply to
    the whole process, so they are set back when the last of the contexts that overlap ends. Lower precision is a
    setting of the encoder (`autocast`) and changes its fingerprint.
    """
    _FULL_FLOAT32.enter()
    try:
        yield
    finally:
        _FULL_FLOAT32.leave()


class _FullFloat32:
    """Torch's switches, and how many contexts want full precision."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_contexts = 0
        self._before: _Switches | None = None

    def enter(self) -> None:
        """Switch to full precision, unless another context has done so."""
        with self._lock:
            self._num_contexts += 1
            if self._num_contexts == 1:
                self._before = _Switches.now()
                _Switches(allow_tf32=False, matmul="highest", exact={}).apply()

    def leave(self) -> None:
        """Set the switches back if this was the last context."""
        with self._lock:
            self._num_contexts -= 1
            if not self._num_contexts and self._before is not None:
                self._before.apply()


_FULL_FLOAT32 = _FullFloat32()


@dataclass(frozen=True, slots=True)
class _Switches:
    """Torch's precision of float32 on CUDA.

    Since 2.9 torch has two interfaces, and code of others uses either. The older one raises while they disagree, so
    both are set alike: first the older, then those of the newer that still differ.

    Attributes:
        allow_tf32: the older switch of cuDNN; None if it cannot be read.
        matmul: the older switch of matrix products; None if it cannot be read.
        exact: the newer switches by name, which allow no TF32 where they are missing.
    """

    allow_tf32: bool | None
    matmul: str | None
    exact: Mapping[str, str]

    @classmethod
    def now(cls) -> "_Switches":
        """The present values."""
        exact = {name: owner.fp32_precision for name, owner in _newer_switches().items()}
        return cls(
            _readable(lambda: bool(torch.backends.cudnn.allow_tf32)),
            _readable(torch.get_float32_matmul_precision),
            exact,
        )

    def apply(self) -> None:
        """Set them."""
        if self.allow_tf32 is not None:
            torch.backends.cudnn.allow_tf32 = self.allow_tf32
        if self.matmul is not None:
            torch.set_float32_matmul_precision(self.matmul)
        for name, owner in _newer_switches().items():
            wanted = self.exact.get(name, "ieee" if owner.fp32_precision == "tf32" else owner.fp32_precision)
            if owner.fp32_precision != wanted:
                owner.fp32_precision = wanted


def _readable(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except RuntimeError:
        return None


def _newer_switches() -> dict[str, Any]:
    cudnn = torch.backends.cudnn
    if not hasattr(cudnn, "conv"):
        return {}
    return {"all": torch.backends, "conv": cudnn.conv, "rnn": cudnn.rnn, "matmul": torch.backends.cuda.matmul}


def precision(device: str, autocast: Autocast) -> AbstractContextManager[object]:
    """Context in which a network computes in the autocast dtype, or in float32 without one."""
    if autocast is None:
        return nullcontext()
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}[autocast]
    return torch.autocast(torch.device(device).type, dtype)


def batch_tolerance(autocast: Autocast) -> float:
    """The `EncoderInfo.batch_tolerance` of a network that computes in the autocast dtype."""
    return _ROUNDING[autocast]
