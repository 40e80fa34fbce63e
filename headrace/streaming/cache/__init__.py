"""Keeps shards in a folder that the processes of a host share, and reads byte ranges of open shards."""
