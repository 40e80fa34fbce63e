"""Orders that make batches of samples of similar length."""

__all__ = ["buckets", "frame_budget"]
