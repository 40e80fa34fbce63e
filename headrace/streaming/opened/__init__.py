"""Opens the streams of a dataset at one snapshot each."""

__all__ = ["known_lengths", "opening", "reading"]
