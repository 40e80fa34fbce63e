"""Checks shards: what every build checks, `headrace verify`, and the alignment of columns with latent frames."""

__all__ = [
    "audit",
    "certificate",
    "column_fit",
    "encoded_again",
    "excerpts",
    "frame_alignment",
    "rounds",
    "shard_check",
    "verify",
]
