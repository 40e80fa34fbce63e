"""Reads any WebDataset through the `webdataset` library: `webdataset_loader`."""

__all__ = ["loader"]
