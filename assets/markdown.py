"""Markdown for the web interface, which shows descriptions of check results as Markdown."""

from collections.abc import Sequence


def markdown_list(lines: Sequence[str], most: int | None = None) -> str:
    """A bulleted list of these lines; a single line stays as it is.

    Args:
        lines: a line each. Line breaks in them are kept.
        most: the most lines; the number of others follows. None for all.

    >>> print(markdown_list(["a: too short", "b: silent", "c: silent"], most=2))
    - a: too short
    - b: silent
    … and 1 more
    """
    if len(lines) == 1:
        return lines[0]
    shown = ["- " + line.replace("\n", "  \n  ") for line in lines[:most]]
    more = [f"… and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
    return "\n".join([*shown, *more])
