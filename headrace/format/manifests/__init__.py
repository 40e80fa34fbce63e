"""Reads and commits manifests: what each partition holds."""
