"""Names that batches use themselves, so that no audio field, output, column or file of a sample may have them."""

NAMES_OF_BATCHES = frozenset(
    {"audio", "frame_offset", "is_padding", "keys", "metadata", "num_frames", "sample_rate", "start_seconds"}
    | {"valid_frames"}
)
"""Besides these, names that begin with `encoder_` are those of latents."""
