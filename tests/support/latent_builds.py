"""Builds latents of a small audio partition as the asset does."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.assemble.update import PartitionBuild
from headrace.encoding.plans import EncodingOptions
from headrace.format.indexes.index import ShardIndex, index_name
from headrace.format.indexes.index_files import parse_index
from headrace.stores.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.encoders import Encoder

MEL = {"num_mels": 8}
PARTITION = "train-0000"


class Latents:
    """An audio folder and a latents folder that is built from it."""

    def __init__(self, root: Path, **mel: object) -> None:
        self.audio = LocalStorage(root / "audio")
        self.storage = LocalStorage(root / "latents" / "mel")
        self.mel = {**MEL, **mel}
        self.encoders: Callable[[], Sequence[Encoder]] = lambda: [encoders.load("log_mel", self.mel)]
        self.settings = LatentSettings(encoders.fingerprint("log_mel", self.mel), "float32")
        self.done = 0

    def build(self, partition: str = PARTITION, **options: object) -> PartitionBuild:
        """Bring a partition up to date."""
        return build_latent_partition(
            partition,
            self.settings,
            self.encoders,
            self.audio,
            self.storage,
            options=EncodingOptions(**options),
            progress=self._count,
        )

    def use(self, kind: str, settings: "Mapping[str, object]", dtype: str = "float32") -> "Latents":
        """Build with this encoder instead."""
        self.encoders = lambda: [encoders.load(kind, settings)]
        self.settings = LatentSettings(encoders.fingerprint(kind, settings), dtype)
        return self

    def _count(self, num_samples: int) -> None:
        self.done += num_samples

    def index(self, shard: str) -> ShardIndex:
        """The index of a latent shard."""
        return parse_index(self.storage.read(index_name(shard)), shard)

    def sample(self, shard: str, key: str) -> tuple[dict[str, object], dict[str, object], np.ndarray]:
        """The .pth of a sample, its JSON, and the raw tensor at the index's byte range."""
        index, blob = self.index(shard), self.storage.read(shard)
        i = index.keys().index(key)
        parts = [blob[slice(*(index.range_of(i, field) or (0, 0)))] for field in ("pth", "json")]
        start, stop, num_latent, dim = (int(value) for value in index.tensors[i, 0])
        raw = np.frombuffer(blob[start:stop], index.tensor_dtype).reshape(num_latent, dim)
        return torch.load(io.BytesIO(parts[0]), weights_only=True), json.loads(parts[1]), raw


class Broken:
    """Log-mel that gives another first number for samples of some lengths. Counts the rows that it encodes."""

    def __init__(self, values: dict[int, float]) -> None:
        self._own = encoders.load("log_mel", MEL)
        self._values = values
        self.num_rows = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.num_rows += len(batch)
        hidden, num_latent = self._own.encode(batch, lengths)
        for length, value in self._values.items():
            hidden[lengths == length, 0, 0] = value
        return hidden, num_latent
