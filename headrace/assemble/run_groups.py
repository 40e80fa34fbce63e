"""Decides which partitions are built together in one run. Pure.

Dagster's runs of several partitions take a range, so a group is consecutive in the layout. Its partitions need the same
work for the same reason. A partition whose work has failed before gets a run of its own: if it kills its process, no
other partition is lost with it again.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import pairwise


def grouped(
    kinds: Mapping[str, Hashable], layout: Sequence[str], most: int, alone: Collection[str] = ()
) -> list[tuple[str, ...]]:
    """The partitions to build, in the same order, as groups of at most `most`. Each is in exactly one group.

    Args:
        kinds: partition → what a run does with it; equal for all partitions of a group.
        layout: all partitions of the data set, in order.
        most: the most partitions in a group.
        alone: partitions that are in a group of their own.

    >>> grouped(dict.fromkeys("abdef"), "abcdef", 2)
    [('a', 'b'), ('d', 'e'), ('f',)]
    """
    following = dict(pairwise(layout))
    groups: list[list[str]] = []
    for name, kind in kinds.items():
        last = groups[-1] if groups else []
        is_next = bool(last) and following.get(last[-1]) == name and kinds[last[-1]] == kind
        if is_next and len(last) < most and {last[-1], name}.isdisjoint(alone):
            last.append(name)
        else:
            groups.append([name])
    return [tuple(group) for group in groups]
