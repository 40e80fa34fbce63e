"""Recognises the layout of a corpus, and writes the YAML that reads it as it is. Changes nothing in the corpus."""

__all__ = ["command"]
