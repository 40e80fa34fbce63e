"""Joins the latents of a clip's windows to the latents of the whole clip, in any order of the windows."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import ClipPiece
from headrace.encoding.plans import NoLatents
from headrace.encoding.windows import ClipWindow, blend_weights


@dataclass(slots=True)
class Assembly:
    """Latents of the clips of one group, as far as their windows are encoded.

    Attributes:
        windows: the windows of each clip.
        lengths: PCM frames of each clip at the encoder's rate.
    """

    windows: tuple[tuple[ClipWindow, ...], ...]
    lengths: tuple[int, ...]
    _parts: dict[int, Tensor] = field(default_factory=dict)
    _missing: dict[int, int] = field(default_factory=dict)
    _rejections: dict[int, set[NoLatents]] = field(default_factory=dict)

    def add(self, piece: ClipPiece, hidden: Tensor | NoLatents, encoder: Encoder) -> Tensor | NoLatents | None:
        """Add the latents of one window, (T, D) in the stored dtype, or its rejection.

        Returns:
            None, unless this was the clip's last window. Then the latents of the whole clip, or its rejection: a clip
            is rejected if one of its windows is.
        """
        windows = self.windows[piece.clip]
        if len(windows) == 1:
            return hidden
        missing = self._missing[piece.clip] = self._missing.get(piece.clip, len(windows)) - 1
        if isinstance(hidden, NoLatents):
            self._rejections.setdefault(piece.clip, set()).add(hidden)
        elif piece.clip not in self._rejections:
            self._blend(piece, hidden, encoder)
        return None if missing else self._whole(piece.clip)

    def _blend(self, piece: ClipPiece, hidden: Tensor, encoder: Encoder) -> None:
        windows = self.windows[piece.clip]
        if piece.clip not in self._parts:
            num_latent = encoder.num_latent_frames(self.lengths[piece.clip])
            self._parts[piece.clip] = torch.zeros(num_latent, hidden.shape[1], dtype=hidden.dtype)
        weights = torch.from_numpy(blend_weights(windows, piece.index, len(hidden), encoder))
        first = piece.window.start // encoder.hop
        part = self._parts[piece.clip][first : first + len(hidden)]
        part += (hidden.float() * weights[:, None]).to(hidden.dtype)[: len(part)]

    def _whole(self, clip: int) -> Tensor | NoLatents:
        """The latents of a clip whose windows were all added, or its rejection."""
        del self._missing[clip]
        hidden = self._parts.pop(clip, None)
        if (found := self._rejections.pop(clip, None)) is not None:
            return min(found, key=lambda rejection: rejection.code)  # does not depend on the order of the windows
        assert hidden is not None
        if not hidden.isfinite().all():  # blending two windows near the dtype's largest number may overflow
            return NoLatents.overflow(str(hidden.dtype).removeprefix("torch."))
        return hidden
