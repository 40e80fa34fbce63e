"""Tools for data sets: inspect them, export them, remove old snapshots, and index tars."""
