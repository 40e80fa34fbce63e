"""Texts with names in braces: templates of paths.

Columns give paths (`source.columns.path`), and paths give columns (`source.path_columns`).
"""

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


UNNAMED = "_"
"""Name of a part of a path that gives no column."""


def checked_path_columns(template: str) -> str:
    """The template, unchanged. Raises `ValueError` if it gives no columns, or is ambiguous."""
    pieces, names = pieces_of(template), [name for name in names_in(template) if name != UNNAMED]
    if not names or any("{" in text or "}" in text for text in pieces[::2]) or "" in names:
        raise ValueError("expected names in braces, such as {speaker}/{chapter}/{_}.flac")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{{{twice[0]}}} is there twice; write {{_}} for what gives no column")
    if any(not text for text in pieces[2:-1:2]):
        raise ValueError("two names have nothing between them, so where one ends is not known")
    return template


def path_columns(template: str) -> list[str]:
    """The columns that a template of `source.path_columns` gives, in their order."""
    return [name for name in names_in(template) if name != UNNAMED]


def path_expression(template: str) -> str:
    r"""The regular expression of the whole path, with a group for each column of `path_columns`.

    >>> path_expression("{speaker}/{_}.wav")
    '^([^/]+)/[^/]+\\.wav$'
    """
    parts = pieces_of(template)
    groups = {UNNAMED: "[^/]+"}
    found = [groups.get(part, "([^/]+)") if place % 2 else re.escape(part) for place, part in enumerate(parts)]
    return f"^{''.join(found)}$"


def columns_of(path: str) -> list[str]:
    """The columns that a path is made from: those of a template, or the one that `path` names."""
    if not is_template(path):
        return [path]
    return [name for name in names_in(path) if name not in {TABLE_FOLDER, TABLE_STEM}]
