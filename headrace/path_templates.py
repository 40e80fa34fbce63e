"""Texts with names in braces: the template of a path (`source.columns.path`)."""

import re

TABLE_FOLDER, TABLE_STEM = "_folder", "_stem"
"""Names that stand for the folder and the stem of the file of a table."""

_NAME = re.compile(r"\{([^{}]*)\}")


def pieces_of(template: str) -> list[str]:
    """The texts outside of braces (even places), and the names in braces (odd places).

    >>> pieces_of("wavs/{id}.wav")
    ['wavs/', 'id', '.wav']
    """
    return _NAME.split(template)


def names_in(template: str) -> list[str]:
    """The names in braces, in their order."""
    return pieces_of(template)[1::2]


def is_template(text: str) -> bool:
    """Whether a text has names in braces."""
    return bool(names_in(text))


def columns_of(path: str) -> list[str]:
    """The columns that a path is made from: those of a template, or the one that `path` names."""
    if not is_template(path):
        return [path]
    return [name for name in names_in(path) if name not in {TABLE_FOLDER, TABLE_STEM}]
