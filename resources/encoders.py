"""Loads encoders on the devices of this machine. torch is imported when the first encoder is loaded."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import dagster as dg
from pydantic import Field, PrivateAttr

from headrace.config.content import EncoderConfig
from headrace.encoders import Encoder, load
from headrace.encoding.plans import EncodingOptions

AUTO = "auto"
"""Stands for the devices that the machine has."""
_COMPILED = frozenset({"crepe", "transformers"})
"""Kinds of encoders that have the setting `compile`, which does not change their fingerprint."""


class Encoders(Protocol):
    """Interface through which assets encode audio."""

    def load(self, config: EncoderConfig, beside: Sequence[EncoderConfig] = ()) -> list[Encoder]:
        """The encoder, once for each device. Raises as `headrace.encoders.load`.

        Args:
            config: the encoder.
            beside: encoders that stay loaded if they are; the memory of all others is freed.
        """

    def release(self) -> None:
        """Free the memory of the loaded encoders."""

    def devices_in_words(self) -> str:
        """The devices of this machine on which encoders run, for messages."""

    def options(self, num_threads: int) -> EncodingOptions:
        """Batch size and threads of one partition, for which the caller has `num_threads` threads."""


class EncoderLoader:
    """Loads an encoder on first use and frees its memory when `release` is called.

    A plain object: Dagster copies a `ConfigurableResource` for each run, and `build.py` keeps one loaded model for the
    runs of many partitions.

    Attributes:
        devices: torch devices, one copy of the encoder each; `auto`, or an empty tuple, means every GPU, or the CPU
            without GPUs.
        wants_compiled: whether networks run through `torch.compile`; None leaves that to the YAML.
        keep: whether `release` keeps the encoder for the next partition.
    """

    def __init__(self, devices: Sequence[str] = (), *, wants_compiled: bool | None = None, keep: bool = False) -> None:
        self.devices = () if tuple(devices) == (AUTO,) else tuple(devices)
        self.wants_compiled = wants_compiled
        self.keep = keep
        self._loaded: list[tuple[EncoderConfig, list[Encoder]]] = []

    def load(self, config: EncoderConfig, beside: Sequence[EncoderConfig] = ()) -> list[Encoder]:
        """See `Encoders.load`."""
        kept = [config, *beside]
        self._loaded = [pair for pair in self._loaded if pair[0] in kept]  # free the memory of old models first
        for found, loaded in self._loaded:
            if found == config:
                return loaded
        settings = self._settings(config)
        new = [load(config.kind, settings, device) for device in self._devices()]
        self._loaded.append((config, new))
        return new

    def release(self) -> None:
        """See `Encoders.release`."""
        if self.keep or not self._loaded:
            return
        self._loaded = []
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def devices_in_words(self) -> str:
        """See `Encoders.devices_in_words`."""
        return ", ".join(self._devices())

    def options(self, num_threads: int) -> EncodingOptions:
        """See `Encoders.options`."""
        return EncodingOptions(num_threads=num_threads)

    def _settings(self, config: EncoderConfig) -> dict[str, Any]:
        if self.wants_compiled is None or config.kind not in _COMPILED:
            return config.settings
        return {**config.settings, "compile": self.wants_compiled}

    def _devices(self) -> Sequence[str]:
        if self.devices:
            return self.devices
        import torch

        return [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]


class EncodersResource(dg.ConfigurableResource["EncodersResource"]):
    """Devices and speed of encoders. No field changes the latents, so none makes a partition stale."""

    devices: list[str] = Field(
        default=[AUTO],
        description="torch devices, such as cuda:0, with one copy of the encoder each; auto for every GPU, or the "
        "CPU on a machine without GPUs",
    )
    batch_seconds: float | None = Field(
        default=None,
        gt=0,
        description="seconds of audio in one batch, padding included; null (auto) to choose by device. Make it "
        "smaller if GPU memory runs out",
    )
    compile: bool | None = Field(
        default=None,
        description="whether networks of the kinds crepe and transformers run through torch.compile; null (auto) for "
        "what the data set's YAML says",
    )
    num_threads: int = Field(
        default=0, ge=0, description="threads that decode audio for the encoder; 0 (auto) for those of headrace_workers"
    )

    _loader: EncoderLoader | None = PrivateAttr(default=None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to a cluster: the fields, without what Dagster has bound to this process."""
        return partial(EncodersResource, **self.model_dump()), ()

    def load(self, config: EncoderConfig, beside: Sequence[EncoderConfig] = ()) -> list[Encoder]:
        """See `Encoders.load`."""
        return self._own_loader().load(config, beside)

    def devices_in_words(self) -> str:
        """See `Encoders.devices_in_words`."""
        return self._own_loader().devices_in_words()

    def release(self) -> None:
        """See `Encoders.release`."""
        if self._loader is not None:
            self._loader.release()

    def options(self, num_threads: int) -> EncodingOptions:
        """See `Encoders.options`."""
        return EncodingOptions(batch_seconds=self.batch_seconds, num_threads=self.num_threads or num_threads)

    def _own_loader(self) -> EncoderLoader:
        if self._loader is None:
            self._loader = EncoderLoader(self.devices, wants_compiled=self.compile)
        return self._loader
