"""What is asked of the encoding of a partition: which latent shards, stored how, how fast. No torch here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.machine import num_cores
from headrace.shardwriter import ShardPlace
from headrace.storage import Storage

LatentDtype = Literal["float16", "bfloat16", "float32"]

AUDIO_SHARD_NOTE = "audio_shard"
ENCODER_NOTE = "encoder"
SECONDS_NOTE = "seconds"

_MOST_THREADS = 16


@dataclass(frozen=True, slots=True)
class LatentPlan:
    """A latent shard that should exist.

    Attributes:
        audio_shard: name of the audio shard that it is made of.
        seconds: audio in it.
        place: where it belongs.
        input_digest: of what it is made from.
    """

    audio_shard: str
    seconds: float
    place: ShardPlace
    input_digest: str


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """How fast latents are computed; nothing here changes what they are beyond rounding.

    Attributes:
        batch_seconds: audio of one batch, padding included; None chooses by device.
        num_threads: threads that decode; each keeps up with over 2000 times real time. None for one per core, at
            most 16.
    """

    batch_seconds: float | None = None
    num_threads: int | None = None

    def decoding_threads(self) -> int:
        """How many threads decode."""
        return self.num_threads or min(_MOST_THREADS, num_cores())


@dataclass(frozen=True, slots=True)
class EncodingRun:
    """From where to where latents are made, stored how, how fast, and who watches.

    Attributes:
        audio: the folder of audio shards.
        storage: the folder of the latents.
        dtype: how they are stored.
        options: how fast.
        progress: called with a number of samples each time so many are done.
        held: key of a sample → name of the latent shard that holds it from before.
    """

    audio: Storage
    storage: Storage
    dtype: LatentDtype
    options: EncodingOptions = field(default_factory=EncodingOptions)
    progress: Callable[[int], None] = lambda num_samples: None  # noqa: ARG005
    held: Mapping[str, str] = field(default_factory=dict)
