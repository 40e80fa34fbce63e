"""Simulates a training job before it runs."""
