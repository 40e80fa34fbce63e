"""Makes text safe for a terminal: names of files may hold escape sequences."""

import unicodedata

_CONTROLS = {"Cc", "Cf", "Cs"}  # controls, formats such as the direction of writing, halves of surrogate pairs


def printable(text: object) -> str:
    r"""A text in which characters that control a terminal, or turn the direction of writing, are escaped.

    >>> printable("a\x1b[31m.wav"), printable("b\u202egpj.wav"), printable("two\nlines")
    ('a\\x1b[31m.wav', 'b\\u202egpj.wav', 'two\nlines')
    """
    return "".join(_escaped(one) if _is_control(one) else one for one in str(text))


def _is_control(one: str) -> bool:
    return one != "\n" and unicodedata.category(one) in _CONTROLS


def _escaped(one: str) -> str:
    return one.encode("unicode_escape", "surrogatepass").decode()
