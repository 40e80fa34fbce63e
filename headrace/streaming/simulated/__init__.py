"""Simulates a training job before it runs."""

__all__ = ["simulation"]
