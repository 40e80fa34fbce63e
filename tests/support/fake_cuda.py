"""CUDA replaced by fakes in the whole process: tensors stay on the CPU, streams and events do nothing.

Code and tests for a GPU then run without one, up to what only a GPU can show: that nothing is read before it is copied,
and that results agree. A batch that needs more memory than `set_per_process_memory_fraction` allows is rejected: its
activations are taken to need eight times its bytes.
"""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._device import _device_constructors

TOTAL_BYTES = 80 << 30
_ACTIVATIONS = 8
_FACTORIES = ("arange", "empty", "full", "hann_window", "linspace", "ones", "tensor", "zeros")


class Stream:
    """Does its work at once. Takes what `torch.cuda.Stream` takes, also by keyword."""

    def __init__(self, device: object = None, priority: int = 0, **more: object) -> None:
        self.device, self.priority, self.more = device, priority, more

    def wait_stream(self, other: object) -> None:
        """See `torch.cuda.Stream`."""

    def wait_event(self, event: object) -> None:
        """See `torch.cuda.Stream`."""

    def synchronize(self) -> None:
        """See `torch.cuda.Stream`."""


class Event:
    """See `torch.cuda.Event`; a microsecond after every other one."""

    def __init__(self, *, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: object = None) -> None:
        """See `torch.cuda.Event`."""

    def elapsed_time(self, other: object) -> float:
        """Milliseconds."""
        return 1e-3


def install() -> None:
    """Replace CUDA in this process, for ever."""
    limit = [float("inf")]

    @contextlib.contextmanager
    def current(stream: object) -> Iterator[None]:
        yield

    def allow(share: float, device: object = None) -> None:
        limit[0] = share * TOTAL_BYTES if share < 1 else float("inf")

    cuda: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "is_bf16_supported": lambda _=True: True,
        "get_device_name": lambda _=None: "fake",
        "get_device_properties": lambda _=None: SimpleNamespace(total_memory=TOTAL_BYTES),
        "max_memory_allocated": lambda _=None: 1,
        "memory_reserved": lambda _=None: 0,
        "set_per_process_memory_fraction": allow,
        "Stream": Stream,
        "Event": Event,
        "stream": current,
    }
    cuda |= dict.fromkeys(("empty_cache", "reset_peak_memory_stats", "synchronize"), lambda *_: None)
    for name, fake in cuda.items():
        setattr(torch.cuda, name, fake)
    _device_constructors()  # remembers the functions as they are, for `with torch.device("meta")`
    for name in _FACTORIES:
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    to = torch.Tensor.to

    def moved(tensor: torch.Tensor, *given: object, **options: object) -> torch.Tensor:
        goes = [one for one in (*given, options.pop("device", None)) if _is_cuda(one)]
        if goes and tensor.nbytes * _ACTIVATIONS > limit[0]:
            raise torch.OutOfMemoryError("CUDA out of memory (a fake)")
        rest = tuple("cpu" if _is_cuda(one) else one for one in given)
        return to(tensor, *(rest or ("cpu",) * bool(goes)), **options)

    torch.Tensor.to = moved  # type: ignore[method-assign]
    torch.Tensor.cuda = lambda tensor: tensor  # type: ignore[method-assign]
    torch.Tensor.pin_memory = lambda tensor: tensor  # type: ignore[method-assign]
    torch.Tensor.is_pinned = lambda _tensor: True  # type: ignore[method-assign]
    torch.Tensor.record_stream = lambda *_: None  # type: ignore[method-assign]
    torch.compile = lambda network, **_: network  # type: ignore[assignment]
    torch.accelerator.is_available = lambda: True


def _is_cuda(given: object) -> bool:
    return isinstance(given, (str, torch.device)) and str(given).startswith("cuda")


def _on_cpu(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def made(*given: object, **options: object) -> torch.Tensor:
        options.pop("pin_memory", None)
        if _is_cuda(options.get("device")):
            options["device"] = "cpu"
        return make(*given, **options)

    return made
