"""Shared by test_comparing and the tests beside it."""

from dataclasses import replace

from headrace.smoke.arrivals import (
    ArrivedSample,
)


def sample(key, **changes):
    return replace(ArrivedSample(key, 4, 1, 8000, is_finite=True, content=7), **changes)
