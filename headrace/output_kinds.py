"""Kinds of outputs of encoders, and the names that come with them."""

from enum import StrEnum

HIDDEN = "encoder_hidden"
"""The output of encoders that name none; its number of frames is `encoder_length`."""
LENGTH = "_length"
"""End of the name under which a `.pth` and a batch have the number of frames of a named output."""
OFFSET = "_offset"
"""End of the name under which a cropped batch has the first frame of a named output."""
CHOICE = "_choice"
"""End of the name under which a batch has the number of the vector that was drawn from those of a sample."""
LATENT_PREFIX = "latent_"
"""Beginning of the names of latent shards."""
INTEGER_DTYPES = ("int16", "int32", "uint16")
"""Dtypes of codes."""

CONTEXT_SECONDS = 0.5
"""Audio beside a window that encoders with named outputs hear, and by which their lengths may differ, by default."""


class OutputKind(StrEnum):
    """The kind of an output: float vectors in time (T, D), whole numbers in time (T, K), or one float vector (D,)."""

    FRAMES = "frames"
    CODES = "codes"
    VECTOR = "vector"
