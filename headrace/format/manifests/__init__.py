"""Reads and commits manifests: what each partition holds."""

__all__ = ["length_census", "made_by", "manifests", "planned_keys", "stored_census"]
