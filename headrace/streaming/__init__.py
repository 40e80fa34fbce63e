"""Streaming for training jobs: an exact, elastic, resumable order of samples, and the loader that follows it."""
