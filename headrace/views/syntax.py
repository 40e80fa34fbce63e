"""Parses the condition of a view into a tree. Types and values of columns are not known here, and polars is not needed.

The grammar is the part of SQL that an expression over one row needs: docs/config.md lists it. Whatever is not in it is
an error, so that no query, aggregate, alias or comment can be part of a condition
(docs/design/0083-conditions-are-parsed-and-evaluated-here.md).
"""

from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.views.sql import Token, column_parts, described, tokens_of

MAX_DEPTH = 100
"""Levels of operators and parentheses, one inside the other. Chains of AND, of OR and of WHEN are one level."""
MAX_CALLS = 20_000
"""Operators and functions of a condition."""

_CAST_TYPES = ("int", "integer", "bigint", "float", "double", "text", "varchar", "boolean")

_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OR, _AND, _NOT, _TEST, _JOIN, _SUM, _PRODUCT, _SIGN = range(1, 9)  # how tightly each binds
_LEVELS = {
    "or": _OR, "and": _AND, **dict.fromkeys([*_COMPARISONS, "like", "ilike", "in", "between", "is", "not"], _TEST),
    "||": _JOIN, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT,
}  # fmt: skip
_CONSTANTS = {"null": None, "true": True, "false": False}
_RESERVED = frozenset({"and", "or", "not", "in", "between", "is", "like", "ilike"})
_CASE_WORDS = frozenset({"when", "then", "else", "end"})


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a column, by its parts."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written in the condition; None is null."""

    value: "Scalar"


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator with its operands.

    Attributes:
        function: in lower case: a name, an operator, `and`, `or` (two operands or more), `not`, `in` (a value, then
            the list), `like`, `ilike`, `between`, `is null`, `case` (conditions and values in turn, then the value of
            ELSE) or `cast` (a value, then the type as a text).
        operands: its operands.
        depth: levels of the tree below it, and its own.
        calls: number of calls of the tree, with itself.
    """

    function: str
    operands: tuple["Node", ...]
    depth: int
    calls: int


Scalar = bool | int | float | str | None
Node = Name | Literal | Call


def parsed(condition: str, what: str = "where") -> Node:
    """The tree of a condition.

    Raises:
        ConfigError: it is not a condition; the message shows the place.
    """
    return _Parser(condition, what).whole()


def names_in(condition: str, what: str = "where") -> list[tuple[str, ...]]:
    """The names of columns in a condition, each once, in the order of the text.

    Raises:
        ConfigError: as `parsed`.
    """
    found: dict[tuple[str, ...], None] = {}
    nodes = [parsed(condition, what)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Name):
            found[node.parts] = None
        elif isinstance(node, Call):
            nodes.extend(reversed(node.operands))
    return list(found)


class _Parser:
    """A parser by precedence: each operator takes what binds more tightly than itself."""

    def __init__(self, condition: str, what: str) -> None:
        self._condition, self._what = condition, what
        self._tokens = list(tokens_of(condition, what))
        self._next = 0
        self._open = 0  # expressions that have begun and not ended
        self._cases = 0  # CASE without its END

    def whole(self) -> Node:
        """The tree of all tokens."""
        node = self._expression()
        if self._token.kind != "end":
            raise self._fault(
                f"{self._token.text!r} follows a complete condition: an operator such as AND, OR or = is missing "
                "before it"
            )
        return node

    def _expression(self, least: int = _OR) -> Node:
        """An operand, and all operators behind it that bind as tightly as `least` or more."""
        self._open += 1
        self._check_depth(self._open)
        node, last = self._operand(least), 0
        while (level := _LEVELS.get(self._token.word, 0)) >= least:
            if level == last == _TEST and self._token.word != "is":
                raise self._fault(
                    f"{self._token.text!r} follows another comparison: write a < b AND b < c, or put one of them in "
                    "parentheses"
                )
            node, last = self._continued(node, level), level
        self._open -= 1
        return node

    def _continued(self, left: Node, level: int) -> Node:
        """An operator and its right side, whose left side has been read."""
        word = self._take().word
        if level in {_OR, _AND}:
            operands = [left, self._expression(level + 1)]
            while self._took(word):
                operands.append(self._expression(level + 1))
            return self._call(word, *operands)
        if word == "is":
            return self._null_test(left)
        if word == "not":
            if self._token.word not in {"like", "ilike", "in", "between"}:
                raise self._fault("after a value, NOT is followed by IN, LIKE, ILIKE or BETWEEN; AND may be missing")
            return self._call("not", self._continued(left, level))
        if word == "in":
            return self._call("in", left, *self._listed())
        if word == "between":
            low = self._expression(level + 1)
            self._expect("and")
            return self._call("between", left, low, self._expression(level + 1))
        return self._call(_COMPARISONS.get(word, word), left, self._expression(level + 1))

    def _null_test(self, left: Node) -> Node:
        is_not = self._took("not")
        if not self._took("null"):
            raise self._fault("after IS, expected NULL or NOT NULL; write x or NOT x for a truth value")
        test = self._call("is null", left)
        return self._call("not", test) if is_not else test

    def _operand(self, least: int) -> Node:
        """A value, a name, a function, or an expression in parentheses; NOT and signs belong to it."""
        token = self._take()
        if token.word in {"(", "-", "+"} or (token.word == "not" and least <= _NOT):
            return self._prefixed(token.word)
        if token.kind == "text":
            return Literal(token.text[1:-1].replace("''", "'"))
        if token.kind == "number":
            return self._number(token.text)
        if token.word in _CONSTANTS:
            return Literal(_CONSTANTS[token.word])
        if token.kind != "name" or token.word in _RESERVED or (self._cases and token.word in _CASE_WORDS):
            self._next -= 1
            raise self._fault(f"expected a column, a number, a text or a function, found {token.text or 'the end'!r}")
        return self._case() if token.word == "case" else self._named(token)

    def _prefixed(self, word: str) -> Node:
        """The operand behind a parenthesis, a sign or NOT."""
        if word == "(":
            node = self._expression()
            self._expect(")")
            return node
        if word == "not":
            return self._call("not", self._expression(_NOT))
        if self._token.kind == "number":
            return self._number(word + self._take().text)
        return self._call(f"{word}x", self._expression(_SIGN))

    def _named(self, token: Token) -> Node:
        """A function if a parenthesis follows, otherwise a column."""
        if self._token.word != "(" or not token.text.isidentifier():
            return Name(column_parts(token.text))
        if token.word != "cast":
            return self._call(token.word, *self._listed())
        self._expect("(")
        node = self._expression()
        self._expect("as")
        wanted = self._take().word
        if wanted not in _CAST_TYPES:
            self._next -= 1
            raise self._fault(f"cannot cast to {self._token.text!r}; expected one of {', '.join(_CAST_TYPES)}")
        self._expect(")")
        return self._call("cast", node, Literal(wanted))

    def _case(self) -> Node:
        self._cases += 1
        subject = None if self._token.word == "when" else self._expression()
        operands: list[Node] = []
        while self._took("when"):
            condition = self._expression()
            operands.append(condition if subject is None else self._call("=", subject, condition))
            self._expect("then")
            operands.append(self._expression())
        if not operands:
            self._expect("when")
        operands.append(self._expression() if self._took("else") else Literal(None))
        self._expect("end")
        self._cases -= 1
        return self._call("case", *operands)

    def _listed(self) -> list[Node]:
        """Expressions in parentheses, with commas between them."""
        self._expect("(")
        found = [self._expression()]
        while self._took(","):
            found.append(self._expression())
        self._expect(")")
        return found

    def _number(self, text: str) -> Literal:
        if not text.lstrip("+-").isdecimal():
            return Literal(float(text))
        if -(1 << 63) <= int(text) < 1 << 63:
            return Literal(int(text))
        raise self._fault(f"the whole number {text} has more than 64 bits; write it as {float(text)!r}")

    def _call(self, function: str, *operands: Node) -> Call:
        calls = [node for node in operands if isinstance(node, Call)]
        depth = 1 + max((node.depth for node in calls), default=0)
        number = 1 + sum(node.calls for node in calls)
        self._check_depth(depth)
        if number > MAX_CALLS:
            raise self._fault(f"more than {MAX_CALLS:,} operators and functions; for a list of values, write x IN (…)")
        return Call(function, operands, depth, number)

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} operators or parentheses, one inside the other")

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _took(self, word: str) -> bool:
        found = self._token.word == word
        self._next += found
        return found

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise self._fault(f"expected {word.upper()}, found {self._token.text or 'the end'!r}")

    def _fault(self, message: str) -> ConfigError:
        return ConfigError(f"{described(self._condition, self._what)}: {message} (character {self._token.place + 1})")
