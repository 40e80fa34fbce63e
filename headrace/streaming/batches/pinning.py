"""Page-locked memory, from which a GPU copies by itself while the training loop goes on.

Owns getting batches into such memory without the training loop's thread copying them: threads decode straight into it
(`PinnedMemory`), and what worker processes made is copied by a thread of its own (`pinned_ahead`).
"""

from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch
from headrace.streaming.parallel import WorkThreads

if TYPE_CHECKING:
    import torch


class PinnedMemory:
    """Page-locked arrays (`Allocator`); safe for threads.

    They are torch's, which uses such memory again only after the copies that a device began from it, and keeps it
    (https://docs.pytorch.org/docs/stable/notes/cuda.html): a buffer of our own would come
    back to us while a copy with `non_blocking=True` still reads it. `Batch.to_dict` shows the tensors themselves.
    """

    def __init__(self) -> None:
        """Nothing of any size is allocated."""
        page_locked((1,), np.uint8)  # begins torch's context of this thread's device; later threads find and use it

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """See `Allocator.empty`; its base is the tensor."""
        return page_locked(shape, dtype).numpy()


def page_locked(shape: tuple[int, ...], dtype: DTypeLike) -> "torch.Tensor":
    """A tensor in page-locked memory, with arbitrary content."""
    import torch

    return torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, pin_memory=True)


def pinned(value: Any) -> Any:  # noqa: ANN401 - a batch, or what a collate_fn gives
    """All tensors in dicts, lists and tuples, and whatever else has `pin_memory()`, in page-locked memory."""
    if isinstance(value, Mapping):
        return {name: pinned(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(pinned, value))
    return value.pin_memory() if hasattr(value, "pin_memory") else value


def pinned_ahead(batches: Iterator[Batch], memory: Allocator) -> Iterator[Batch]:
    """The batches, of which a thread copies the next into `memory` while the consumer works on one."""
    ready: SimpleQueue[Batch | BaseException | None] = SimpleQueue()

    def bring() -> None:
        try:
            batch = next(batches, None)
            ready.put(batch and _moved(batch, memory))
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            ready.put(error)

    thread = WorkThreads(1, "pin")
    try:
        thread.submit(bring)
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            thread.submit(bring)
            yield found
            del found
    finally:
        thread.close()


def _moved(batch: Batch, memory: Allocator) -> Batch:
    if batch.audio is not None:
        batch.audio.samples = _copy(batch.audio.samples, memory)
    for latents in batch.latents.values():
        latents.hidden = _copy(latents.hidden, memory)
    return batch


def _copy(array: NDArray[Any], memory: Allocator) -> NDArray[Any]:
    copy = memory.empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
