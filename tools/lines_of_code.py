"""Counts the lines of code of all that is installed, without docstrings, comments and blank lines.

`python tools/lines_of_code.py` prints them by package, largest first, and their sum.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

INSTALLED = ("headrace", "headrace_dagster", "assets", "resources", "sensors")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(text: str) -> int:
    """Lines of a module that hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in _NO_CODE for line in _span(token.start[0], token.end[0])}
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _DOCUMENTED) and ast.get_docstring(node)]
    return len(lines - {line for node in nodes for line in _span(node.body[0].lineno, node.body[0].end_lineno or 0)})


def _span(first: int, last: int) -> range:
    return range(first, last + 1)


if __name__ == "__main__":
    counts: Counter[str] = Counter()
    for folder in INSTALLED:
        for path in Path(folder).rglob("*.py"):
            counts["/".join(path.parts[:2])] += lines_of_code(path.read_text(encoding="utf-8"))
    for name, number in counts.most_common():
        print(f"{number:7,}  {name}")
    print(f"{counts.total():7,}  all")
