"""Joining the windows of clips to whole latents, whatever order they come back in."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import Piece
from headrace.encoding.windows import Window, blend_weights


@dataclass(slots=True)
class Assembly:
    """Latents of the clips of one group, as far as their windows have come back.

    Attributes:
        windows: of each clip.
        lengths: PCM frames of each clip at the encoder's rate.
    """

    windows: tuple[tuple[Window, ...], ...]
    lengths: tuple[int, ...]
    _parts: dict[int, Tensor] = field(default_factory=dict)
    _missing: dict[int, int] = field(default_factory=dict)

    def add(self, piece: Piece, hidden: Tensor, encoder: Encoder) -> Tensor | None:
        """Take the latents of one window, (T, D) in the dtype they are stored in.

        Returns:
            The whole clip's latents when this was its last window.
        """
        windows = self.windows[piece.clip]
        if len(windows) == 1:
            return hidden
        num_latent = encoder.num_latent_frames(self.lengths[piece.clip])
        if piece.clip not in self._parts:
            self._parts[piece.clip] = torch.zeros(num_latent, hidden.shape[1], dtype=hidden.dtype)
            self._missing[piece.clip] = len(windows)
        weights = torch.from_numpy(blend_weights(windows, piece.index, len(hidden), encoder))
        first = piece.window.start // encoder.hop
        part = self._parts[piece.clip][first : first + len(hidden)]
        part += (hidden.float() * weights[:, None]).to(hidden.dtype)[: len(part)]
        self._missing[piece.clip] -= 1
        if self._missing[piece.clip]:
            return None
        return self._parts.pop(piece.clip)
