"""Joins the outputs of a clip's windows to those of the whole clip, in any order of the windows.

Frames of neighbouring windows are blended. Codes cannot be blended: they meet at a seam in the middle of what the two
windows share. Of vectors the mean is taken, weighted by the lengths of the windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import ClipPiece
from headrace.encoding.made import Made
from headrace.encoding.plans import NoLatents
from headrace.encoding.windows import ClipWindow, blend_weights, seam
from headrace.output_kinds import HIDDEN, OutputKind


@dataclass(slots=True)
class Assembly:
    """Outputs of the clips of one group, as far as their windows are encoded.

    Attributes:
        windows: the windows of each clip.
        lengths: PCM frames of each clip at the encoder's rate.
    """

    windows: tuple[tuple[ClipWindow, ...], ...]
    lengths: tuple[int, ...]
    _parts: dict[int, list[list[tuple[int, Tensor]]]] = field(default_factory=dict)
    _missing: dict[int, int] = field(default_factory=dict)
    _rejections: dict[int, set[NoLatents]] = field(default_factory=dict)

    def add(self, piece: ClipPiece, made: Made, encoder: Encoder) -> Made | None:
        """Add the outputs of one window, (T, D) each in the stored dtype, or its rejection.

        Returns:
            None, unless this was the clip's last window. Then the outputs of the whole clip, or its rejection: a clip
            is rejected if one of its windows is.
        """
        windows = self.windows[piece.clip]
        if len(windows) == 1:
            return made
        missing = self._missing[piece.clip] = self._missing.get(piece.clip, len(windows)) - 1
        if isinstance(made, NoLatents):
            self._rejections.setdefault(piece.clip, set()).add(made)
        elif piece.clip not in self._rejections:
            parts = self._parts.setdefault(piece.clip, [[] for _ in made])
            for output, values, found in zip(outputs_of(encoder), made, parts, strict=True):
                self._join(piece, output, values, found, encoder)
        return None if missing else self._whole(piece.clip, encoder)

    def _join(
        self, piece: ClipPiece, output: EncoderOutput, values: Tensor, parts: list[tuple[int, Tensor]], encoder: Encoder
    ) -> None:
        """Add the values of a window to the parts of an output."""
        windows = self.windows[piece.clip]
        if output.kind is OutputKind.VECTOR:
            parts.append((piece.index, values))
        elif output.kind is OutputKind.CODES:
            first = windows[piece.index].start // output.hop
            start, stop = seam(windows, piece.index, len(values), encoder.info.overlap, output.hop)
            parts.append((first + start, values[start:stop]))
        else:
            weights = torch.from_numpy(blend_weights(windows, piece.index, len(values), encoder.info, output.hop))
            weighted = (values.float() * weights[:, None]).to(values.dtype)
            parts.append((windows[piece.index].start // output.hop, weighted))

    def _whole(self, clip: int, encoder: Encoder) -> Made:
        """The outputs of a clip whose windows were all added, or its rejection."""
        del self._missing[clip]
        parts = self._parts.pop(clip, None)
        if (found := self._rejections.pop(clip, None)) is not None:
            return min(found, key=lambda rejection: rejection.code)  # does not depend on the order of the windows
        assert parts is not None
        pairs = zip(outputs_of(encoder), parts, strict=True)
        made = tuple(self._joined(clip, output, found, encoder) for output, found in pairs)
        for values in made:
            if values.is_floating_point() and not values.isfinite().all():  # blending may overflow near the largest
                return NoLatents.overflow(str(values.dtype).removeprefix("torch."))
        return made

    def _joined(
        self, clip: int, output: EncoderOutput, parts: Sequence[tuple[int, Tensor]], encoder: Encoder
    ) -> Tensor:
        parts = sorted(parts, key=lambda part: part[0])
        if output.kind is OutputKind.CODES:
            return torch.cat([values for _, values in parts])
        if output.kind is OutputKind.VECTOR:
            frames = torch.tensor([window.num_frames for window in self.windows[clip]], dtype=torch.float64)
            stacked = torch.cat([values for _, values in parts])
            return (stacked.double() * (frames / frames.sum())[:, None]).sum(0, keepdim=True).to(stacked.dtype)
        num_frames = max(first + len(values) for first, values in parts)
        if output.name == HIDDEN:
            num_frames = encoder.num_latent_frames(self.lengths[clip])
        return _added(parts, num_frames)


def _added(parts: Sequence[tuple[int, Tensor]], num_frames: int) -> Tensor:
    """The sum of weighted values (T, D), each from its first frame on."""
    values = parts[0][1]
    whole = torch.zeros(num_frames, values.shape[1], dtype=values.dtype)
    for first, weighted in parts:
        part = whole[first : first + len(weighted)]
        part += weighted[: len(part)]
    return whole
