"""Checks the loaders of others that read a dataset: torch's `DataLoader`, and Accelerate's loaders around it.

They pass a dataset neither their batch size nor that they divide its samples. So the loader is found among the callers
when it asks for the length or names the epoch, both of which happen in the process of the training loop.
"""

import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch.utils.data  # noqa: TID253 - a DataLoader is known by it

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from types import FrameType

_DIVIDING = ("DataLoaderDispatcher", "IterableDatasetShard")  # of Accelerate; its other loaders leave samples to ranks
_PACKAGES = ("torch.", "accelerate.")
_NUM_CALLERS = 6


def check_loader(batch_size: int, world_size: int, *, is_even: bool, is_in_mid_epoch: bool = False) -> None:
    """Check the loader that has called the caller of this function.

    Args:
        batch_size: rows of a batch of the dataset.
        world_size: number of ranks among which the dataset divides its samples.
        is_even: whether all of its batches have `batch_size` rows.
        is_in_mid_epoch: whether it continues an epoch in its middle.

    Raises:
        ConfigError: Accelerate divides the samples of one of several ranks once more.
    """
    for asks, loader in _nearest_loaders(sys._getframe(2)):  # noqa: SLF001 - torch and Accelerate pass nothing
        if type(loader).__name__ in _DIVIDING and world_size > 1:
            raise ConfigError(
                f"Accelerate divides among the ranks what is the share of one of {world_size} ranks already, so the "
                "other shares would never be read: pass StreamingDataLoader(dataset) to accelerator.prepare, or return "
                "it from get_train_dataloader and get_eval_dataloader of Hugging Face's Trainer"
            )
        if is_in_mid_epoch and getattr(loader, "skip_batches", False):
            warn_of_skipping()
        if asks == "__len__" and isinstance(loader, torch.utils.data.DataLoader):
            _check_batches(loader.batch_size, loader.num_workers, batch_size if is_even else None)


def warn_of_skipping() -> None:
    """Warn that Accelerate's `skip_first_batches` skips batches that were delivered before the loaded state."""
    warnings.warn(
        "a state in the middle of an epoch was loaded, and the batches before it are skipped once more: with "
        "Hugging Face's Trainer, pass ignore_data_skip=True; with Accelerate, do not call skip_first_batches",
        stacklevel=3,
    )


def _nearest_loaders(frame: "FrameType | None") -> Iterator[tuple[str, object]]:
    """The method and the object of each of the nearest callers that belong to torch or Accelerate.

    Other frames are not asked for their variables: a user's frame would keep their values alive.
    """
    for _ in range(_NUM_CALLERS):
        if frame is None:
            return
        if str(frame.f_globals.get("__name__")).startswith(_PACKAGES):
            yield frame.f_code.co_name, frame.f_locals.get("self")
        frame = frame.f_back


def _check_batches(asked: int | None, num_workers: int, batch_size: int | None) -> None:
    """Warn if workers deliver more batches than the length says, since their own last ones are not full."""
    if asked is None or num_workers < 2 or (batch_size is not None and batch_size % asked == 0):
        return
    own = "batches of several sizes" if batch_size is None else f"batch_size={batch_size}"
    warnings.warn(
        f"a DataLoader with batch_size={asked} and {num_workers} workers reads a StreamingDataset with {own}: it may "
        "deliver more batches than its len(), so a trainer that stops there leaves out samples; use "
        "StreamingDataLoader(dataset), or give both the same batch_size",
        stacklevel=4,
    )
