"""Calls the user's function of whole batches, on the thread or in the process that made the batch.

What the function returns travels in `Batch.changed`. Between processes its tensors travel as arrays, because torch
would copy them: an array that is still in shared memory is not copied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, SampleError
from headrace.format.tensors.tensors import BFLOAT16
from headrace.streaming.batches.batch import Batch
from headrace.streaming.batches.open_batch import OpenBatch
from headrace.streaming.batches.processing import SampleProcessing, wants_rng
from headrace.streaming.batches.user_fields import as_numpy, is_tensor
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.bijection import mix

_BATCH_TRANSFORM = 2
_SHOWN_KEYS = 8


class TransformedBatch:
    """A batch whose `finish` calls the user's function (`OpenBatch`)."""

    def __init__(self, opened: OpenBatch, processing: SampleProcessing, plan: BatchPlan) -> None:
        """Call nothing yet.

        Args:
            opened: the batch that the function gets.
            processing: has the function and the seed.
            plan: the plan of the batch: a random generator is seeded by its epoch and the position of its first row.
        """
        self._opened = opened
        self._processing = processing
        self._plan = plan
        self.is_filled_whole = opened.is_filled_whole

    def __len__(self) -> int:
        """See `OpenBatch`."""
        return len(self._opened)

    def fill(self, start: int, stop: int) -> None:
        """See `OpenBatch`."""
        self._opened.fill(start, stop)

    def finish(self) -> Batch:
        """The batch with the function's result. Raises `SampleError` with its keys if the function raises."""
        batch = self._opened.finish()
        try:
            changed = self._changed(batch)
        except ConfigError:
            raise
        except Exception as error:
            raise SampleError(
                f"batch_transform, on the batch of {_shown(batch.keys)}: {type(error).__name__}: {error}"
            ) from error
        return Batch(batch.keys, [], batch.is_padding, errors=batch.errors, changed=changed)

    def _changed(self, batch: Batch) -> Any:  # noqa: ANN401 - what the user's function gives
        config = self._processing.config
        function = config.batch_transform
        assert function is not None  # else the batch is not one of this class
        shown = batch.to_dict(config.output)
        if wants_rng(function):
            seed = int(mix(self._processing.seed, self._plan.epoch, *self._plan.positions[:1], _BATCH_TRANSFORM))
            changed: Any = function(shown, rng=np.random.default_rng(seed))
        else:
            changed = function(shown)
        if changed is None:
            raise TypeError("it gave None: let it return the batch")
        return changed


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor as an array; bfloat16 as uint16."""

    array: NDArray[Any]
    dtype: str


def without_tensors(value: Any) -> Any:  # noqa: ANN401 - what the user's function gave
    """A value whose tensors are arrays, also in dicts, lists and tuples; `with_tensors` is its inverse."""
    if is_tensor(value):
        try:
            return _Tensor(*as_numpy(value))
        except TypeError:  # a dtype that numpy has not
            return value
    return _mapped(value, without_tensors)


def with_tensors(value: Any) -> Any:  # noqa: ANN401 - as above
    """The value that `without_tensors` was given, sharing memory with its arrays."""
    if not isinstance(value, _Tensor):
        return _mapped(value, with_tensors)
    import torch

    tensor = torch.from_numpy(value.array)
    return tensor.view(torch.bfloat16) if value.dtype == BFLOAT16 else tensor


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - as above
    if type(value) is dict:
        return {name: change(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(change, value))
    return value


def _shown(keys: list[str]) -> str:
    real = [repr(key) for key in keys if key]
    more = f" and {len(real) - _SHOWN_KEYS} more" if len(real) > _SHOWN_KEYS else ""
    return f"{', '.join(real[:_SHOWN_KEYS]) or 'padding only'}{more}"
