"""Checks that an encoder's results do not depend on the rest of the batch.

One row of each run is encoded twice: in its batch and alone. The build fails if the two results differ by more than
rounding. The batch of that row is held back until the comparison, and later batches come after it, so no latents of a
failing encoder are published.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from headrace.encoders.output import name_of
from headrace.encoders.outputs import outputs_of
from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import ClipPiece
from headrace.encoding.clips import AudioClip
from headrace.encoding.device_worker import EncodedJob
from headrace.encoding.made import Made
from headrace.encoding.plans import LatentDtype, NoLatents
from headrace.encoding.reading import EncodingJob
from headrace.encoding.stats import Comparison
from headrace.encoding.texts import TextItem
from headrace.errors import BuildError
from headrace.output_kinds import OutputKind

_COMPUTED = {"cpu": 2e-4, "cuda": 1e-3}
"""Largest difference of float32 sums in another order, as a share of the largest frame. A GPU also changes kernels."""
_STORED: dict[LatentDtype, float] = {"float32": 0.0, "float16": 2**-10, "bfloat16": 2**-7}
"""Relative distance of neighbouring numbers of a dtype: nearly equal results may be rounded to either."""
_DIFFERING_CODES = 0.05
"""Largest share of different codes. A code is the nearest of many vectors: a last bit may make another the nearest."""


@dataclass(slots=True)
class AloneCheck:
    """The check of one run. At most one row is encoded twice.

    Attributes:
        encoder: the encoder to check.
        dtype: dtype of the stored latents.
        comparison: the result; None as long as nothing was compared. Without a batch of several rows it stays None.
    """

    encoder: Encoder
    dtype: LatentDtype
    comparison: Comparison | None = None
    _shared: EncodingJob | None = None
    _held: list[EncodedJob] = field(default_factory=list)

    def with_one_alone(self, jobs: Sequence[EncodingJob]) -> Iterator[EncodingJob]:
        """The jobs, with one more after the run's first job that has several rows: its shortest row, alone.

        The shortest row is chosen because it has the most padding in its batch.
        """
        for job in jobs:
            yield job
            if self._shared is None and len(job.batch.pieces) > 1:
                self._shared = job
                yield replace(job, batch=replace(job.batch, pieces=(self._chosen(job),)))

    def passed(self, encoded: EncodedJob) -> list[EncodedJob]:
        """The results that may be published now. The batch of the chosen row is held back until the comparison.

        Raises:
            BuildError: the row's latents, alone and in its batch, differ by more than rounding.
        """
        shared = self._shared
        if shared is None or self.comparison is not None or encoded.group != shared.group:
            return [encoded]
        if encoded.rows[0][0] not in shared.batch.pieces:
            return [encoded]
        chosen = self._chosen(shared)
        batched = next((hidden for job in self._held for piece, hidden in job.rows if piece == chosen), None)
        if batched is None:
            self._held.append(encoded)
            return []
        self._compare(shared.clip_of(chosen), encoded.rows[0][1], batched)
        held, self._held = self._held, []
        return held

    @staticmethod
    def _chosen(job: EncodingJob) -> ClipPiece:
        return job.batch.pieces[-1]

    def _compare(self, clip: AudioClip | TextItem, alone: Made, batched: Made) -> None:
        self.comparison = compared(clip.key, alone, batched, self.encoder, self.dtype)
        if not self.comparison.is_same:
            raise BuildError(
                f"{clip.shard}: sample {clip.key!r}: {name_of(self.encoder)}: the latents depend on the rest of the "
                f"batch: {self.comparison}; correct its encode (mask the padding, compute no statistics over the "
                "batch), or, if it computes in half precision, raise batch_tolerance of its info"
            )


def compared(key: str, alone: Made, stored: Made, encoder: Encoder, dtype: LatentDtype) -> Comparison:
    """The difference of two results of one sample, and the allowed difference: of the output that differs most.

    Two rejections for the same reason are equal. A rejection differs infinitely from latents.
    """
    if isinstance(alone, NoLatents) or isinstance(stored, NoLatents):
        is_same = isinstance(alone, NoLatents) and alone == stored
        return Comparison(key, 0.0 if is_same else float("inf"), _allowed(encoder, dtype))
    return worst(compared_outputs(key, alone, stored, encoder, dtype))


def compared_outputs(
    key: str, alone: Sequence[Tensor], stored: Sequence[Tensor], encoder: Encoder, dtype: LatentDtype
) -> dict[str, Comparison]:
    """Output → the difference of two results of one sample, and the allowed difference."""
    return {
        output.name: Comparison(key, _share(one, other), _DIFFERING_CODES, is_of_codes=True, num_values=one.numel())
        if output.kind is OutputKind.CODES
        else Comparison(key, _difference(one, other), _allowed(encoder, dtype), num_values=one.numel())
        for output, one, other in zip(outputs_of(encoder), alone, stored, strict=True)
    }


def worst(found: Mapping[str, Comparison]) -> Comparison:
    """The comparison of the output that differs most."""
    return max(found.values(), key=lambda comparison: comparison.difference / comparison.allowed)


def _allowed(encoder: Encoder, dtype: LatentDtype) -> float:
    computed = _COMPUTED.get(torch.device(encoder.device).type, _COMPUTED["cuda"])
    return max(computed, encoder.info.batch_tolerance) + _STORED[dtype]


def _share(one: Tensor, other: Tensor) -> float:
    """The share of different codes; infinite if shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    return float((one.to(torch.int64) != other.to(torch.int64)).double().mean()) if one.numel() else 0.0


def _difference(one: Tensor, other: Tensor) -> float:
    """Largest difference of a frame, as a share of the largest frame (Euclidean norms); infinite if shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():  # a vector of several windows, of which nothing is compared
        return 0.0
    one, other = one.double(), other.double()
    scale = max(float(latents.norm(dim=1).max()) for latents in (one, other))
    return float((one - other).norm(dim=1).max()) / scale if scale else 0.0
