"""Decides which partitions are built together in one run. Pure.

Dagster's runs of several partitions take a range, so a group is consecutive in the layout. Its partitions need the same
work for the same reason. A partition whose work has failed before gets a run of its own: if it kills its process, no
other partition is lost with it again.
"""

from collections.abc import Collection, Mapping, Sequence

from headrace.build.waves import PartitionWork


def grouped(
    starts: Mapping[str, PartitionWork], layout: Sequence[str], most: int, alone: Collection[str] = ()
) -> list[tuple[str, ...]]:
    """The partitions to start, as groups of at most `most`, in the layout's order. Each is in exactly one group.

    Args:
        starts: partition → its work.
        layout: all partitions of the data set, in order.
        most: the most partitions in a group.
        alone: partitions that are in a group of their own.

    >>> work = PartitionWork(("audio",), "token")
    >>> grouped({name: work for name in "abdef"}, "abcdef", 2)
    [('a', 'b'), ('d', 'e'), ('f',)]
    """
    groups: list[list[str]] = []
    before = None
    for name in layout:
        if name in starts:
            last = groups[-1] if groups else []
            is_joined = before is not None and name not in alone and before not in alone and len(last) < most
            if is_joined and _kind(starts[name]) == _kind(starts[last[0]]):
                last.append(name)
            else:
                groups.append([name])
        before = name if name in starts else None
    return [tuple(group) for group in groups]


def _kind(work: PartitionWork) -> tuple[object, ...]:
    return work.stages, work.reason
