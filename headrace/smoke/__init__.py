"""The loader smoke test: checks that training loaders read a data set completely and correctly."""

__all__ = ["choice", "run", "verdicts"]
