"""Reads the YAML file of a data set into typed settings, with error messages in the terms of YAML."""

__all__ = ["content", "dataset", "folder", "operation", "partitioning", "section", "shares", "source", "tables"]
