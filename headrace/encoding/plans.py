"""The input of an encoding: the latent shards to write, their dtype, batch size and threads. Does not import torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from headrace.format.rejects import RejectReason
from headrace.format.shards.writer import ShardPlace
from headrace.machine import num_cores
from headrace.stores.storage import Storage

if TYPE_CHECKING:
    from headrace.encoding.shared_audio import SharedPart

LatentDtype = Literal["float16", "bfloat16", "float32"]

AUDIO_SHARD_NOTE = "audio_shard"
AUDIO_FIELD_NOTE = "audio_field"
"""The note with the name of the audio field that latents are made from; without this note it is the first."""
COLUMN_NOTE = "text_column"
"""The note with the name of the metadata column whose texts latents are made from."""
COLUMNS_NOTE = "text_columns"
"""The note with the file of columns that has these texts; without this note the JSON of the samples has them."""
DTYPE_NOTE = "dtype"
ENCODER_NOTE = "encoder"
SECONDS_NOTE = "seconds"

_MOST_THREADS_PER_DEVICE = 16
_FETCHES_PER_DEVICE = 4


@dataclass(frozen=True, slots=True)
class LatentPlan:
    """A latent shard that should exist.

    Attributes:
        audio_shard: name of the audio shard that it is made from.
        seconds: length of the audio in it.
        place: its partition and sequence number.
        input_digest: digest of everything that it is made from.
        columns: for texts of a set of columns, the file with those of the shard; empty for any other latents.
    """

    audio_shard: str
    seconds: float
    place: ShardPlace
    input_digest: str
    columns: str = ""


@dataclass(frozen=True, slots=True)
class NoLatents:
    """Why a sample has no latents.

    Attributes:
        code: `RejectReason.NOT_FINITE`, `RejectReason.OVERFLOW` or `RejectReason.NO_TEXT`.
        reason: explanation in a sentence.
    """

    code: str
    reason: str

    @classmethod
    def not_finite(cls) -> "NoLatents":
        """The rejection of latents that are not finite as the encoder computed them."""
        return cls(
            RejectReason.NOT_FINITE.value,
            "the encoder gives latents that are not finite numbers; check its weights and settings (autocast float16 "
            "overflows easily), or list the sample's key under exclude",
        )

    @classmethod
    def no_text(cls, column: str) -> "NoLatents":
        """The rejection of a sample whose text is null, or missing."""
        return cls(
            RejectReason.NO_TEXT.value,
            f"its {column} is null or missing; give it a text, which may be empty, or raise max_rejected",
        )

    @classmethod
    def no_tokens(cls) -> "NoLatents":
        """The rejection of a text without a token that the model knows."""
        return cls(RejectReason.NO_TEXT.value, "its text has no token of the model's; give it another text")

    @classmethod
    def no_codes(cls, name: str, dtype: str) -> "NoLatents":
        """The rejection of codes that are negative, or too large for their dtype."""
        return cls(
            RejectReason.OVERFLOW.value,
            f"its {name} are not from 0 to the largest {dtype} that is no padding; let the encoder's outputs declare a "
            "wider dtype, or correct its encode",
        )

    @classmethod
    def overflow(cls, dtype: str) -> "NoLatents":
        """The rejection of finite latents that are too large for the stored dtype."""
        wider = "float32" if dtype == "bfloat16" else "bfloat16 or float32"
        return cls(RejectReason.OVERFLOW.value, f"its latents do not fit {dtype}; store them as {wider}")


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """Options that change the speed of an encoding, and its results by rounding only.

    Attributes:
        batch_seconds: audio of one batch, padding included; None to choose by device.
        num_threads: threads that decode audio, each over 2000 times real time; None for one per core, at most 16 per
            device.
    """

    batch_seconds: float | None = None
    num_threads: int | None = None

    @property
    def batch_in_words(self) -> str:
        """The length of a batch, for messages."""
        return f"{self.batch_seconds:g} s" if self.batch_seconds else "a length that fits the device"

    def decoding_threads(self, num_devices: int) -> int:
        """Number of threads that decode audio."""
        return self.num_threads or min(_MOST_THREADS_PER_DEVICE * num_devices, num_cores())

    def fetching_threads(self, num_devices: int) -> int:
        """Number of threads that fetch audio shards and check their digests (a core checks 1 to 2 GB/s)."""
        return min(_FETCHES_PER_DEVICE * num_devices, num_cores())


@dataclass(frozen=True, slots=True)
class EncodingRun:
    """Folders, dtype and options of one encoding.

    Attributes:
        audio: the folder of audio shards.
        storage: the folder of this set of latents.
        dtype: dtype of the stored latents.
        audio_field: name of the audio field that is encoded; empty for the first.
        options: batch size and threads.
        progress: called with a number of samples each time this many are done.
        held: key of a sample → name of the existing latent shard that has it.
        column: the metadata column whose texts are encoded; empty for audio.
        columns: the folder of the set of columns that has it; None if the JSON of the samples has it.
        shared: the audio that other encodings of the partition read at the same time; None for this one alone.
    """

    audio: Storage
    storage: Storage
    dtype: LatentDtype
    audio_field: str = ""
    options: EncodingOptions = field(default_factory=EncodingOptions)
    progress: Callable[[int], None] = lambda num_samples: None  # noqa: ARG005
    held: Mapping[str, str] = field(default_factory=dict)
    column: str = ""
    columns: Storage | None = None
    shared: "SharedPart | None" = None
