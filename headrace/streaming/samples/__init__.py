"""Samples before they are in a batch: their fields, their bytes in shards, and what is read of them."""

__all__ = [
    "chosen_fields",
    "crop",
    "decoded_fields",
    "fields",
    "local_latents",
    "missing_latents",
    "plausibility",
    "stored_sample",
    "stream_reader",
]
