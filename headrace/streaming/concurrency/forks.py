"""Keeps an iteration in the process that began it.

A forked process inherits an iterator, but none of the threads, and none of the children, that make its batches: it
would wait for ever. If it ended them, the other process would lose them.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.errors import ForkedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Home:
    """The process that made this object."""

    pid: int = field(default_factory=os.getpid)

    @property
    def is_here(self) -> bool:
        """Whether this is still that process, and not one that was forked from it."""
        return os.getpid() == self.pid

    def check(self) -> None:
        """Raise `ForkedError` in a process that was forked from it."""
        if not self.is_here:
            raise ForkedError(
                f"this iteration began in process {self.pid}, and this is process {os.getpid()}, which was forked from "
                "it: the threads or workers that make its batches stayed there; call iter() on the loader here"
            )


def kept_home(items: Iterator[T]) -> Iterator[T]:
    """Pass items through; in a forked process, raise `ForkedError` instead of the next one."""
    home = Home()
    while True:
        home.check()
        try:
            item = next(items)
        except StopIteration:
            return
        yield item
        del item  # only the consumer keeps it
