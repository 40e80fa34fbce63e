"""Finds what a user named: an output of Headrace, a folder of shards, or the tars of any WebDataset.

`locate` is the one answer that the loaders and the commands share; `locate_shards` takes lists of names.
"""

from headrace.locate.locating import Location as Location
from headrace.locate.locating import locate as locate

__all__ = ["listing", "names", "no_shards", "outputs", "shard_list", "tars"]
