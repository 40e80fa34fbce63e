"""The files of a data set on disk: tars, indexes, `.pth`, `sizes.json`, manifests, snapshots (docs/format.md)."""
