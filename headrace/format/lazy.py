"""Properties that are computed on first use, without a lock.

`functools.cached_property` of Python 3.11 holds one lock for all objects of a class. A worker process that is forked
while another thread of its parent holds that lock would wait for it forever.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - as functools calls it
    """`functools.cached_property` without a lock: threads that ask at once may compute it twice."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Called by Python with the name of the property."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        """The value, which is stored in the object: later reads find it there and do not call this method."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
