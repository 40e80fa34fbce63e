"""Glob patterns over relative POSIX paths, with one meaning for folders and buckets. Pure."""

import re
from collections.abc import Callable
from functools import lru_cache

_PART = re.compile(r"(?<![^/])\*\*/|\*\*|\*|\?|\[(!?)(\]?[^\]]*)\]|[^*?\[]+|\[")
_MEANINGS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def has_pattern(path: str) -> bool:
    """Whether a path has characters of a glob pattern."""
    return re.search(r"[*?\[]", path) is not None


def path_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression that matches the whole of a path.

    `*` and `?` stay within a name, `**` crosses folders, `[abc]` and `[!abc]` are one character.

    >>> path_pattern("**/raw/*.wav").fullmatch("a/b/raw/x.wav") is not None
    True
    >>> path_pattern("**/raw/*.wav").fullmatch("raw/x/y.wav") is not None
    False
    """
    return re.compile("".join(map(_meaning, _PART.finditer(pattern))), re.DOTALL)


@lru_cache(maxsize=16)
def ignoring(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """A function that returns whether a relative path matches a pattern of `source.ignore`.

    A pattern without `/` is about the file's name, in which `**` is `*`; another is about the whole path.
    """
    paths = [pattern if "/" in pattern else f"**/{re.sub(r'[*]+', '*', pattern)}" for pattern in patterns]
    expressions = [path_pattern(pattern).pattern for pattern in paths]
    return re.compile("|".join(f"(?:{expression})" for expression in expressions) or r"(?!)", re.DOTALL).fullmatch


def _meaning(part: re.Match[str]) -> str:
    if part[2] is None:
        return _MEANINGS.get(part[0], re.escape(part[0]))
    inner = part[2].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
    inner = re.sub(r"([&~|])", r"\\\1", inner)
    return f"(?!/)[{'^' if part[1] else ''}{inner}]"
