"""Parses a share of something, written as a fraction or as a number: `1/7`, `0.2`."""

from fractions import Fraction


def share_of(text: str | float) -> Fraction:
    """The share that a text or number states, exactly.

    Raises:
        ValueError: not a number above 0 and at most 1.
    """
    try:
        share = Fraction(str(text))
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise ValueError(f"expected a number above 0 and at most 1, such as 1/7; found {text}")
    return share
