"""Splits the condition of a view into tokens, and spells names of columns. Nothing is parsed or evaluated here."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import ConfigError

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    |(?P<name>(?:[^\W\d]\w*|"(?:[^"]|"")+")(?:\.(?:[^\W\d]\w*|"(?:[^"]|"")+"))*)
    |(?P<operator><=|>=|<>|!=|==|\|\||-(?!-)|[=<>+*/%(),])  # `--` begins a comment elsewhere""",
    re.VERBOSE,
)
_SHOWN = 200
_PART = re.compile(r'[^\W\d]\w*|"(?:[^"]|"")+"')


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a condition.

    Attributes:
        kind: `text`, `number`, `name` (a column, a function or a word of SQL), `operator` or `end`.
        text: as the user wrote it; empty for the end.
        place: number of its first character, from 0.
    """

    kind: str
    text: str
    place: int

    @property
    def word(self) -> str:
        """Its text in lower case; texts and quoted names keep their quotation marks, so they are no words of SQL."""
        return self.text.lower()


def tokens_of(condition: str, what: str = "where") -> Iterator[Token]:
    """The tokens of a condition or of `times`, without white space, and one of kind `end`.

    Raises:
        ConfigError: a character cannot be part of a condition; the message shows its place.
    """
    place = 0
    while place < len(condition):
        match = _TOKEN.match(condition, place)
        if match is None or match.lastgroup is None:
            rest = condition[place : place + 20]
            hint = "; a text is written in single quotation marks" if rest[0] in "'\"" else ""
            raise ConfigError(
                f"{described(condition, what)}: cannot be read from {rest!r} on (character {place + 1}){hint}"
            )
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], place)
        place = match.end()
    yield Token("end", "", place)


def described(condition: str, what: str = "where") -> str:
    """The words for a condition in messages, without the end of a long one; `what` is the name of its key."""
    return f"{what} {condition if len(condition) <= _SHOWN else condition[:_SHOWN] + '…'!r}"


def column_parts(name: str) -> tuple[str, ...]:
    """The parts of a single column's name, such as `speaker`, `metadata.lang` or `"a column"`.

    Raises:
        ConfigError: it is not such a name.
    """
    found = _TOKEN.fullmatch(name.strip())
    if found is None or found.lastgroup != "name":
        raise ConfigError(f'{name!r} is not the name of a column: write speaker, captions.lang or "a name with spaces"')
    return tuple(
        part[1:-1].replace('""', '"') if part[0] == '"' else part
        for part in (match[0] for match in _PART.finditer(name))
    )


def column_name(*parts: str) -> str:
    """The name of a column as a condition spells it, quoted where it has to be.

    >>> column_name("captions", "two words")
    'captions."two words"'
    """
    return ".".join(part if re.fullmatch(r"[^\W\d]\w*", part) else _quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
