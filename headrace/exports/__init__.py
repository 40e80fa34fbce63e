"""Exports a snapshot in the form that other tools read: one small module for each form.

`exporter` has the protocol, `exporting` gives the shards or samples of a snapshot to an exporter, `kinds` finds an
exporter by name, and `folder` keeps what is written out of sight until it is complete.
"""

__all__ = ["exporter", "exporting", "folder", "selected"]
