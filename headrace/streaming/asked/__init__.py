"""Answers questions about a run from its state: what was delivered, and when."""

__all__ = ["answers", "asked_run"]
