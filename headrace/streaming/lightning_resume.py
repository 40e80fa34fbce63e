"""Gives loaders under Lightning their states where Lightning itself does not; Lightning finds it by its entry point.

Lightning (2.6) saves the states of loaders with each checkpoint. It does not load them if the checkpoint is of the end
of an epoch, or if `configure_optimizers` has read `trainer.estimated_stepping_batches`. So this callback loads them
when training starts. Lightning adds it to every Trainer (`*.callbacks_factory` in pyproject.toml).

It also makes epochs as long as they are, and validation the same in every run. While a Trainer trains, loaders count
whole epochs, as it does.

Borrowed ground: this module sets `FitLoop.max_batches` and the limits of `FitLoop._combined_loader`, and reads the
states from `checkpoint["loops"]`. On an upgrade of Lightning, tests/streaming/test_lightning_resume.py fails first. It
imports Lightning only in functions that Lightning itself calls.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from headrace.errors import ConfigError, StateError
from headrace.streaming.loader import FITTING, StreamingDataLoader

_LIGHTNING = ("pytorch_lightning", "lightning.pytorch")  # the packages that it comes in


class _Resume:
    """The hooks, to be joined to the `Callback` of each Lightning that is imported (`lightning`, `pytorch_lightning`).

    Both may be imported in one process, and a Trainer accepts a callback of its own package only. Trainers and modules
    are `Any`, since the types of the two packages differ.
    """

    _packages: tuple[str, ...] = ()
    _states: tuple[dict[str, Any], ...] = ()

    def setup(self, trainer: Any, _module: Any, stage: str) -> None:  # noqa: ANN401
        """Let loaders count whole epochs from now on, if the Trainer is going to train."""
        if stage == "fit":
            FITTING.add(trainer)

    def teardown(self, trainer: Any, _module: Any, stage: str) -> None:  # noqa: ANN401, ARG002 - a keyword of Lightning
        """Let loaders count the remaining batches again."""
        FITTING.discard(trainer)

    def on_exception(self, trainer: Any, _module: Any, _exception: BaseException) -> None:  # noqa: ANN401
        """Do as at the end: Lightning does not call `teardown` then."""
        FITTING.discard(trainer)

    def on_save_checkpoint(self, trainer: Any, _module: Any, checkpoint: dict[str, Any]) -> None:  # noqa: ANN401
        """If a batch was under way, as after an error, let it come again: Lightning does not count it either."""
        batches = trainer.fit_loop.epoch_loop.batch_progress.current
        states = _states_in(checkpoint)
        if not states or batches.ready == batches.processed:
            return
        for number, loader in enumerate(_stateful_of(trainer.train_dataloader)):
            if isinstance(loader, StreamingDataLoader):
                states[number] = loader.dataset.epochs.progress.state_before_last_batch()

    def on_load_checkpoint(self, trainer: Any, _module: Any, checkpoint: dict[str, Any]) -> None:  # noqa: ANN401
        """Keep the states of the training loaders until training starts."""
        if trainer.state.fn == "fit":
            self._states = tuple(_states_in(checkpoint))

    def on_train_start(self, trainer: Any, _module: Any) -> None:  # noqa: ANN401
        """Load the states. No loader has begun, unless one beside it has no length.

        Raises:
            ConfigError: training and validation read one dataset.
            StateError: there are more or fewer loaders than states, or a state does not fit its loader.
        """
        _check_apart(trainer)
        states, self._states = self._states, ()
        loaders = _stateful_of(trainer.train_dataloader)
        ours = [one for one in loaders if isinstance(one, StreamingDataLoader)]
        if not states or not ours:
            return
        if len(states) != len(loaders):
            raise StateError(
                f"the checkpoint has states of {len(states)} loaders, but there are {len(loaders)}: train with the "
                "loaders that it was saved with, or load the weights alone"
            )
        for loader, state in zip(loaders, states, strict=True):
            if loader in ours:
                _load(loader, state)
        if _has_ended_epoch(trainer.fit_loop):
            _begin_next_epochs(ours)
            _leave_ended_epoch(trainer.fit_loop)
        _set_length(trainer)

    def on_train_epoch_start(self, trainer: Any, _module: Any) -> None:  # noqa: ANN401
        """Set the number of batches of this epoch."""
        _set_length(trainer)

    def on_validation_start(self, trainer: Any, _module: Any) -> None:  # noqa: ANN401
        """Let validation loaders read the epoch of the training: the same in every run, also after a resume.

        Raises:
            ConfigError: training and validation read one dataset.
        """
        if trainer.state.fn == "fit":
            _check_apart(trainer)
            for loader in _ours_of(trainer.val_dataloaders):
                loader.dataset.epochs.progress.restart(trainer.current_epoch)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...], dict[str, Any]]:
        """Pickle for processes that Lightning starts: the class is made when it is needed."""
        return _callback, self._packages, self.__dict__


def callbacks() -> list[Any]:
    """The callbacks that Lightning adds to every Trainer."""
    return [_callback(*_imported())]


def _callback(*packages: str) -> object:
    bases = dict.fromkeys(import_module(f"{name}.callbacks").Callback for name in packages)
    return type("HeadraceResume", (_Resume, *bases), {"_packages": packages})()


def _imported() -> list[str]:
    return [name for name in _LIGHTNING if name in sys.modules]


def _all_of(loaders: object) -> Sequence[Any]:
    """The loaders of any collection of loaders, in Lightning's order; none of None."""
    if loaders is None:
        return ()
    combined = import_module(f"{_imported()[0]}.utilities").CombinedLoader(loaders)
    return combined.flattened  # type: ignore[no-any-return]


def _stateful_of(loaders: object) -> list[Any]:
    """The loaders that Lightning saves states of."""
    return [one for one in _all_of(loaders) if hasattr(one, "state_dict") and hasattr(one, "load_state_dict")]


def _states_in(checkpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The states of the training loaders in a checkpoint."""
    loop = checkpoint.get("loops", {}).get("fit_loop", {}).get("state_dict", {})
    return loop.get("combined_loader", [])  # type: ignore[no-any-return]


def _ours_of(loaders: object) -> list[StreamingDataLoader]:
    return [one for one in _all_of(loaders) if isinstance(one, StreamingDataLoader)]


def _check_apart(trainer: Any) -> None:  # noqa: ANN401
    """Raise `ConfigError` if training and validation read one dataset, which has one position."""
    training, validation = (
        {id(loader.dataset) for loader in _ours_of(loaders)}
        for loaders in (trainer.train_dataloader, trainer.val_dataloaders)
    )
    if training & validation:
        raise ConfigError(
            "one StreamingDataset is read for training and for validation, which would move each other's position: "
            "make a StreamingDataset and a StreamingDataLoader for each"
        )


def _load(loader: StreamingDataLoader, state: dict[str, Any]) -> None:
    if loader.is_running:
        warnings.warn(
            "a loader beside this one has no length, so Lightning took a batch of both before it loaded their states: "
            "the run goes on at the beginning of an epoch; give the other loader a length",
            stacklevel=2,
        )
    loader.load_state_dict(state)


def _has_ended_epoch(loop: Any) -> bool:  # noqa: ANN401
    """Whether the checkpoint is of the end of an epoch, or of a place after the limit of now."""
    batches = loop.epoch_loop.batch_progress
    return bool(batches.is_last_batch or batches.current.ready >= loop.max_batches)


def _begin_next_epochs(loaders: Sequence[StreamingDataLoader]) -> None:
    """Let loaders that a limit or another loader ended in mid-epoch begin their next epoch, as without a stop."""
    for epochs in (loader.dataset.epochs for loader in loaders):
        if epochs.is_in_mid_epoch:
            epochs.progress.restart(epochs.progress.next_epoch + 1)


def _leave_ended_epoch(loop: Any) -> None:  # noqa: ANN401
    """Let the next epoch begin as any other.

    With `max_steps`, Lightning continues an epoch that has ended: it takes one batch of the next, and ends it there.
    """
    epochs = loop.epoch_progress.current
    if loop.epoch_loop.restarting and epochs.processed == epochs.started:
        epochs.completed = epochs.processed
        loop.epoch_loop.restarting = False
        loop.on_iteration_done()


def _set_length(trainer: Any) -> None:  # noqa: ANN401
    """Let Lightning count the batches of this epoch; it counts those of the first alone, which may be fewer or more."""
    loop, loaders = trainer.fit_loop, _all_of(trainer.train_dataloader)
    is_whole = isinstance(trainer.limit_train_batches, float) and trainer.limit_train_batches == 1
    if len(loaders) > 1 or not is_whole or not isinstance(loaders[0], StreamingDataLoader):
        return  # how loaders are combined, or limits of the user, decide the number
    length = loaders[0].next_len
    if length == loop.max_batches:
        return
    loop.max_batches = length
    loop._combined_loader.limits = [length]  # noqa: SLF001 - there is no public way to the limits
    if isinstance(trainer.val_check_interval, float) and isinstance(trainer.val_check_batch, int):
        trainer.val_check_batch = max(1, int(length * trainer.val_check_interval))
