"""Reads and commits manifests: what each partition holds."""

__all__ = ["length_census", "manifests", "planned_keys", "stored_census"]
