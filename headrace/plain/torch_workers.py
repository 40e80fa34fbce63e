"""Stops the worker processes of torch's `DataLoader` at once, by way of its private names.

Used: `_shutdown_workers` of the iterator that `iter(loader)` returns, and `DataLoader._iterator`, where a loader with
`persistent_workers=True` keeps that iterator. Why: after an error, Python's garbage collector ends the iterator and its
queues in any order, and torch then waits 5 s for each worker. Public way: torch 2.6 has none; neither the loader nor
its iterator has a `close`. On an upgrade of torch, the first test that fails is
`test_after_an_error_workers_stop_at_once_and_the_next_epoch_can_be_read` in tests/plain/test_loader.py.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


def stop_workers(loader: "DataLoader[Any]", batches: Iterator[Any]) -> None:
    """Stop the workers of a failed iteration, which `iter(loader)` returned; without workers, do nothing."""
    stop = getattr(batches, "_shutdown_workers", None)
    if stop is not None:
        stop()
        loader._iterator = None  # noqa: SLF001 - persistent workers: the next epoch starts new ones
