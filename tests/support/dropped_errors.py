"""Checks that errors which were dropped are freed without the cycle collector."""

import gc
import weakref


def alive_after(kind, use):
    """Number of errors of `kind` raised while `use` ran, and number of them that were alive afterwards.

    Args:
        kind: a class of errors.
        use: called with a function that always raises such an error.
    """
    raised = []

    class FailedError(kind):
        def __init__(self, message):
            super().__init__(message)
            raised.append(weakref.ref(self))

    def fail():
        raise FailedError("as a test")

    gc.disable()
    try:
        use(fail)
        return len(raised), sum(error() is not None for error in raised)
    finally:
        gc.enable()
