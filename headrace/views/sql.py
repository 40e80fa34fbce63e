"""Splits the condition of a view into tokens, and allows only what an expression over one row needs.

Conditions are SQL as polars reads it. What reaches polars is put together again from known tokens: names of columns,
literals, operators, and functions that see one row. So no query, aggregate, window or function that reads files can be
part of a condition, whatever polars supports.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto

from headrace.errors import ConfigError

FUNCTIONS = frozenset({
    "abs", "ceil", "ceiling", "floor", "round", "sqrt", "exp", "ln", "log10", "log2", "pow", "power", "sign", "mod",
    "coalesce", "ifnull", "nullif", "greatest", "least", "if",
    "lower", "upper", "length", "left", "right", "ltrim", "rtrim", "starts_with", "ends_with", "strpos", "regexp_like",
    "replace", "substr", "concat",
})  # fmt: skip
"""Functions of one row that a condition may call."""

_WORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false", "like", "ilike"})
_CASE_WORDS = frozenset({"when", "then", "else", "end"})
_TYPES = frozenset({"int", "integer", "bigint", "float", "double", "text", "varchar", "boolean"})
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    |(?P<name>(?:[^\W\d]\w*|"(?:[^"]|"")+")(?:\.(?:[^\W\d]\w*|"(?:[^"]|"")+"))*)
    |(?P<operator><=|>=|<>|!=|==|\|\||[=<>+\-*/%(),])""",
    re.VERBOSE,
)
_PART = re.compile(r'[^\W\d]\w*|"(?:[^"]|"")+"')


class TokenKind(Enum):
    """What a token of a condition is."""

    COLUMN = auto()
    """A name of a column, with its prefix if it has one."""
    FUNCTION = auto()
    TEXT = auto()
    """A word, literal or operator, which is passed on as it is."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a condition.

    Attributes:
        kind: what it is.
        text: as the user wrote it.
        parts: the parts of a column's name, without quotation marks; empty for other tokens.
    """

    kind: TokenKind
    text: str
    parts: tuple[str, ...] = ()


def tokens_of(condition: str) -> list[Token]:
    """The tokens of a condition.

    Raises:
        ConfigError: a character or a function is not allowed; the message names it and its place.
    """
    found = list(_scanned(condition))
    tokens: list[Token] = []
    depth = 0  # of CASE … END
    for place, (kind, text, _) in enumerate(found):
        following = found[place + 1][1] if place + 1 < len(found) else ""
        word = text.lower()
        if kind != "name":
            tokens.append(Token(TokenKind.TEXT, text))
        elif word == "case" and following != ",":
            depth += 1
            tokens.append(Token(TokenKind.TEXT, text))
        elif word in _CASE_WORDS and depth:
            depth -= word == "end"
            tokens.append(Token(TokenKind.TEXT, text))
        elif word in _WORDS or (word in _TYPES and _is_after(tokens, "as")) or (word == "as" and _in_cast(tokens)):
            tokens.append(Token(TokenKind.TEXT, text))
        elif following == "(" and "." not in text and text[0] != '"':
            tokens.append(_function(condition, text))
        else:
            tokens.append(Token(TokenKind.COLUMN, text, _parts(text)))
    _check_is(condition, [token.text.lower() for token in tokens])
    return tokens


def balanced(words: Sequence[str]) -> str:
    """A condition with parentheses around the halves of long chains of OR and AND, so that polars reads a flat tree.

    The time of polars grows with the square of a tree's depth, or faster: several seconds for some hundred terms.

    >>> balanced("a or b or c or d and e".split())
    '((a) or (b)) or ((c) or ((d) and (e)))'

    Args:
        words: its tokens, in which `case` and `end` are no names of columns.
    """
    lower = [word.lower() for word in words]
    for operator in ("or", "and"):  # OR binds least, so both sides of any OR are whole
        places = _outside(lower, operator)
        if places and (operator == "or" or "between" not in lower):
            middle = places[len(places) // 2]
            return f"({balanced(words[:middle])}) {operator} ({balanced(words[middle + 1 :])})"
    return " ".join(words)


def column_parts(name: str) -> tuple[str, ...]:
    """The parts of a single column's name, such as `speaker`, `metadata.lang` or `"a column"`.

    Raises:
        ConfigError: it is not such a name.
    """
    found = _TOKEN.fullmatch(name.strip())
    if found is None or found.lastgroup != "name":
        raise ConfigError(f'{name!r} is not the name of a column: write speaker, captions.lang or "a name with spaces"')
    return _parts(name.strip())


def column_name(*parts: str) -> str:
    """The name of a column as a condition spells it, quoted where it has to be.

    >>> column_name("captions", "two words")
    'captions."two words"'
    """
    return ".".join(part if re.fullmatch(r"[^\W\d]\w*", part) else _quoted(part) for part in parts)


def _scanned(condition: str) -> Iterator[tuple[str, str, int]]:
    """Kind, text and place of each token; white space is left out."""
    place = 0
    while place < len(condition):
        match = _TOKEN.match(condition, place)
        if match is None or match.lastgroup is None:
            rest = condition[place : place + 20]
            hint = "; a text is written in single quotation marks" if rest[0] in "'\"" else ""
            raise ConfigError(f"where {condition!r}: cannot be read from {rest!r} on (character {place + 1}){hint}")
        if match.lastgroup != "space":
            yield match.lastgroup, match[0], place
        place = match.end()


def _outside(words: Sequence[str], operator: str) -> list[int]:
    """Places of an operator outside all parentheses and CASE … END."""
    places, depth = [], 0
    for place, word in enumerate(words):
        depth += (word in {"(", "case"}) - (word in {")", "end"})
        if word == operator and depth == 0:
            places.append(place)
    return places


def _function(condition: str, name: str) -> Token:
    if name.lower() in FUNCTIONS or name.lower() == "cast":
        return Token(TokenKind.FUNCTION, name)
    close = get_close_matches(name.lower(), FUNCTIONS, 3)
    meant = f"; did you mean {', '.join(close)}?" if close else ""
    raise ConfigError(
        f"where {condition!r}: the function {name} is not allowed: a condition is about one sample at a time and "
        f"may use {', '.join(sorted(FUNCTIONS))} and CAST{meant}"
    )


def _check_is(condition: str, words: Sequence[str]) -> None:
    """Raise unless every `is` is followed by `null` or `not null`: polars answers `is not true` for null unlike SQL."""
    for place, word in enumerate(words):
        after = [*words[place + 1 : place + 3], "", ""]
        if word == "is" and (after[1] if after[0] == "not" else after[0]) != "null":
            raise ConfigError(
                f"where {condition!r}: after IS, expected NULL or NOT NULL; write x or NOT x for a truth value"
            )


def _in_cast(tokens: Sequence[Token]) -> bool:
    return any(token.kind is TokenKind.FUNCTION and token.text.lower() == "cast" for token in tokens)


def _is_after(tokens: Sequence[Token], word: str) -> bool:
    return bool(tokens) and tokens[-1].kind is TokenKind.TEXT and tokens[-1].text.lower() == word


def _parts(name: str) -> tuple[str, ...]:
    return tuple(
        part[1:-1].replace('""', '"') if part[0] == '"' else part
        for part in (match[0] for match in _PART.finditer(name))
    )


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
