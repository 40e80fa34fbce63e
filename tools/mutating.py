"""Makes the mutants of a module: copies of its text, each with one small change that a test should notice.

cosmic-ray's operators make the changes. Left out are changes without effect on what the code does: of annotations, of
imports for the type checker, of protocols, which nothing runs, and of what only prevents mistakes: `frozen`, `slots`
and `eq` of dataclasses, and `strict` of `zip`.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module's text with one change."""

    path: str
    """The module, relative to the repository's root."""
    operator: str
    """The change, as cosmic-ray names it."""
    source: str
    """The complete text with the change."""
    line: int
    """The first changed line, counted from 1."""
    text: str
    """The first changed line as it is now, without indentation; `without …` if it was removed."""
    diff: str
    """The change as a unified diff."""

    @property
    def constant(self) -> str:
        """The module's constant whose number is another one; empty for every other change."""
        named = re.match(r"(_?[A-Z][A-Z0-9_]*)(?:: [^=]+)? = ", self.text)
        return named[1] if named and self.operator == "NumberReplacer" else ""


def mutants(path: str, source: str, operators: Iterable[str], order: random.Random | None = None) -> Iterator[Mutant]:
    """The mutants of the module `path`; `operators` are regular expressions of cosmic-ray's names; `order` shuffles."""
    places = _places(source, operators)
    if order:
        order.shuffle(places)
    seen = {behaviour(source), ""}
    for name, place in places:
        changed = _changed(source, name, place)
        if (what := behaviour(changed)) not in seen:
            seen.add(what)
            yield _described(path, name, source, changed)


def behaviour(source: str) -> str:
    """The syntax tree of `source` without what has no effect on its behaviour; empty if it cannot be compiled."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return ""
    return ast.dump(_Behaviour().visit(ast.parse(source)))


def _places(source: str, operators: Iterable[str]) -> list[tuple[str, int]]:
    """Places that can be changed: cosmic-ray's name of an operator, and the number of the place where it applies."""
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415 - cosmic-ray is an extra
    from cosmic_ray.plugins import get_operator, operator_names  # noqa: PLC0415

    nodes = list(ast_nodes(get_ast(source)))
    chosen = re.compile("core/(?:" + "|".join(operators) + ")")
    return [
        (name, place)
        for name in filter(chosen.fullmatch, operator_names())
        for place in range(sum(len(list(get_operator(name)().mutation_positions(node))) for node in nodes))
    ]


def _changed(source: str, name: str, place: int) -> str:
    """`source` with one change; `source` itself where the operator cannot make it."""
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator  # noqa: PLC0415

    with contextlib.suppress(AttributeError):  # of the operator, at `except (module.Error, …)`
        return mutate_code(source, get_operator(name)(), place)
    return source


def _described(path: str, operator: str, source: str, changed: str) -> Mutant:
    before, after = source.splitlines(), changed.splitlines()
    line = next(number for number, text in enumerate(before, 1) if [text] != after[number - 1 : number])
    header, name, *diff = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", n=2, lineterm="")
    added, removed = ([text[1:].strip() for text in diff if text[0] == sign and text[1:].strip()] for sign in "+-")
    text = added[0] if added else f"without {removed[-1]}"
    return Mutant(path, operator.partition("/")[2], changed, line, text, "\n".join([header, name, *diff]))


class _Behaviour(ast.NodeTransformer):
    """Removes from a syntax tree what has no effect on behaviour."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "zip":
            node.keywords = []
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if "Protocol" in map(ast.unparse, node.bases):
            node.body = [ast.Pass()]
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "dataclass":
                decorator.keywords = [word for word in decorator.keywords if word.arg not in {"frozen", "slots", "eq"}]
        return self.generic_visit(node)
