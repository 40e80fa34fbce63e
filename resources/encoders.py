"""Where encoders come from and which devices they run on. torch is imported when the first one is loaded."""

from collections.abc import Sequence

from headrace.config import EncoderConfig
from headrace.encoders import Encoder, load


class EncoderLoader:
    """Loads an encoder on first use and lets go of it when `release` is called.

    A plain object and not a `ConfigurableResource`: Dagster copies those, and `build.py` keeps one loaded model through
    many partitions.

    Attributes:
        devices: torch devices, one copy of the encoder each; none means every GPU, or the CPU without one.
        keep: whether `release` keeps the encoder for the next partition.
    """

    def __init__(self, devices: Sequence[str] = (), *, keep: bool = False) -> None:
        self.devices = tuple(devices)
        self.keep = keep
        self._loaded: tuple[EncoderConfig, list[Encoder]] | None = None

    def load(self, config: EncoderConfig) -> list[Encoder]:
        """The encoder, once for each device. Raises as `headrace.encoders.load`."""
        if self._loaded is None or self._loaded[0] != config:
            self._loaded = None  # let go of the old model before the new one takes memory
            self._loaded = config, [load(config.kind, config.settings, device) for device in self._devices()]
        return self._loaded[1]

    def release(self) -> None:
        """Free the encoder's memory, unless it is kept."""
        if self.keep or self._loaded is None:
            return
        self._loaded = None
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _devices(self) -> Sequence[str]:
        if self.devices:
            return self.devices
        import torch

        return [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
