"""Puts batches into page-locked (pinned) memory, from which a GPU copies while the training loop goes on.

The training loop's thread copies nothing: threads decode directly into such memory (`PinnedMemory`), and the batches of
worker processes are copied by a thread of their own (`pinned_ahead`).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch
from headrace.streaming.concurrency.lookahead import LookAhead, PendingResult
from headrace.streaming.concurrency.parallel import WorkThreads

if TYPE_CHECKING:
    import torch


class PinnedMemory:
    """Allocates page-locked arrays (`Allocator`); safe for threads.

    The memory is torch's, which keeps it and uses it again only after the copies that a device began from it
    (https://docs.pytorch.org/docs/stable/notes/cuda.html). A buffer of an `Arena` would be free again while a copy with
    `non_blocking=True` still reads it. `Batch.to_dict` returns torch's tensors.
    """

    def __init__(self) -> None:
        """Allocate one byte, to start torch's context."""
        page_locked((1,), np.uint8)  # starts torch's context of this thread's device, which later threads use

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """See `Allocator.empty`; the array's base is the tensor."""
        return page_locked(shape, dtype).numpy()


def page_locked(shape: tuple[int, ...], dtype: DTypeLike) -> "torch.Tensor":
    """A tensor in page-locked memory, with arbitrary content."""
    import torch

    return torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, pin_memory=True)


def pinned(value: Any) -> Any:  # noqa: ANN401 - a batch, or what a collate_fn gives
    """`value` in page-locked memory: tensors and other objects with `pin_memory()`, also in dicts, lists and tuples."""
    if isinstance(value, Mapping):
        return {name: pinned(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(pinned, value))
    return value.pin_memory() if hasattr(value, "pin_memory") else value


def pinned_ahead(batches: Iterator[Batch], memory: Allocator) -> Iterator[Batch]:
    """The batches, copied into `memory`; a thread copies the next batch while the consumer works on one."""
    thread = WorkThreads(1, "pin")
    ahead: LookAhead[Batch, Batch] = LookAhead(
        batches, lambda batch, pending: _move(batch, memory, pending), thread.submit, 1
    )
    try:
        yield from ahead.results()
    finally:
        thread.close()
        ahead.close()


def _move(batch: Batch, memory: Allocator, pending: PendingResult[Batch]) -> None:
    pending.end(_moved(batch, memory))


def _moved(batch: Batch, memory: Allocator) -> Batch:
    if batch.changed is not None:
        batch.changed = pinned(batch.changed)
    if batch.audio is not None:
        batch.audio.fields = {name: _copy(samples, memory) for name, samples in batch.audio.fields.items()}
    for latents in batch.latents.values():
        latents.hidden = _copy(latents.hidden, memory)
    return batch


def _copy(array: NDArray[Any], memory: Allocator) -> NDArray[Any]:
    copy = memory.empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
