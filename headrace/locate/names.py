"""Reads names of data sets as text: shell globs and brace patterns.

No store is asked. Of the local disk this module asks only whether a name is a folder, because a folder's name may hold
the characters of a pattern.
"""

import os
import re

from braceexpand import braceexpand

from headrace.format.tars.tar_names import is_tar
from headrace.stores.file_urls import is_file_url, path_of_file_url

SPECIAL = re.compile(r"[*?\[{]")
"""The characters that make a name a pattern."""
LISTS = (".txt", ".list")
"""Ends of the names of text files that list tars."""


def is_folder_name(name: str) -> bool:
    """Whether a name is a path or a URL rather than the name of a part of an output."""
    return "/" in name or name in {".", ".."} or name.startswith("~")


def is_pattern(name: str) -> bool:
    """Whether a name means files rather than a folder: a glob, a brace pattern, a tar, a `.json` or a text list.

    A local folder of that name is a folder, whatever characters its name holds.
    """
    if _is_local_folder(name):
        return False
    return bool(SPECIAL.search(name)) or name.endswith((".json", *LISTS)) or is_tar(name)


def expand_braces(pattern: str) -> list[str]:
    """Every name that a brace pattern stands for, in its order; the pattern itself where braces do not pair up.

    >>> expand_braces("{train,test}-{08..10}.tar")[:4]
    ['train-08.tar', 'train-09.tar', 'train-10.tar', 'test-08.tar']
    """
    try:
        return list(braceexpand(pattern, escape=False))
    except ValueError:  # an unpaired brace
        return [pattern]


def split_pattern(pattern: str) -> tuple[str, str]:
    """A pattern as its folder and the rest.

    The folder ends before the first special character, or later where a longer part of the pattern is a local folder.

    >>> split_pattern("s3://bucket/set/train-*.tar")
    ('s3://bucket/set', 'train-*.tar')
    """
    match = SPECIAL.search(pattern)
    slashes = [slash.start() for slash in re.finditer("/", pattern) if match and slash.start() > match.start()]
    for at in reversed(slashes):
        if _is_local_folder(pattern[:at]):
            return pattern[:at], pattern[at + 1 :]
    plain = pattern[: match.start()] if match else pattern
    folder, slash, _ = plain.rpartition("/")
    return folder or ("/" if slash else "."), pattern[len(folder) + len(slash) :]


def _is_local_folder(name: str) -> bool:
    path = path_of_file_url(name) if is_file_url(name) else name
    return "://" not in path and os.path.isdir(path)  # noqa: PTH112 - Path raises where a pattern is longer than names
