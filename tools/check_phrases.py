"""Lists phrases and openings of docstrings that the project's texts do not use, each with what to write instead.

Usage:
    python tools/check_phrases.py [PATH ...]

The phrases are in phrases.txt. Searched is prose alone: comments and string literals of Python files, and Markdown
outside of code blocks and inline code. Identifiers do not count, nor do strings without a blank, which are names, nor
doctests. Each finding is a line `path:line: phrase -> instead`; with any, the exit status is 1. There is no list of
exceptions: a phrase that has a good use in some text must become narrower in phrases.txt, or leave it.

Docstrings, those of attributes included, begin with a noun or a verb: a first line that begins with a word of `OPENING`
needs its context to be understood, and is a finding as well.

Left out for their technical uses: `stands` alone (a pattern stands for names), `walk` (a walk over a folder tree),
`bring` (to bring up to date) and `doubt`. phrases.txt has the combinations that these uses do not need. `leg` and
`lane` are in it as they are: they have no use in audio, storage or data loading.
"""

from __future__ import annotations

import ast
import io
import itertools
import os
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

PHRASES = Path(__file__).with_name("phrases.txt")
SKIPPED_FOLDERS = {"data", "build", "dist"}  # what builds write; hidden folders are skipped as well

PROSE_TOKENS = {"COMMENT", "STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END"}  # FSTRING_*: since Python 3.12

CODE = "\0"  # in place of a character that is not prose: no phrase reaches across it
LITERAL = re.compile(r"(?P<prefix>[a-z]*)(?P<quotes>'''|\"\"\"|'|\")(?P<body>.*)(?P=quotes)", re.DOTALL | re.IGNORECASE)
FIELD = re.compile(r"\{[^{}]*\}")  # of an f-string, innermost first
ESCAPE = re.compile(r"\\[nrt]")
DOCTEST = re.compile(r"^\s*(?:>>>|\.\.\.) .*$", re.MULTILINE)
INLINE_CODE = re.compile(rf"(`+)(?:(?!\n\s*\n)[^`{CODE}])+\1")
LINK_TARGET = re.compile(r"(?<=\])\([^)\s]*\)|\w+://\S+")
OPENING = re.compile(r"\s*(What|How|Where|The same|As)(?![\w-])", re.IGNORECASE)  # of a docstring
FENCE = re.compile(r"^ *(?P<fence>```+|~~~+).*?(?:^ *(?P=fence)|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """A phrase or opening in a text: its line, counted from 1, and what to write instead."""

    line: int
    phrase: str
    instead: str


def parsed(text: str) -> dict[str, str]:
    """Replacements by phrase, from the text of phrases.txt."""
    rules = [line.partition("->") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {phrase.strip(): instead.strip() for phrases, _, instead in rules for phrase in phrases.split(",")}


def findings(prose: str, phrases: Mapping[str, str]) -> list[Finding]:
    """Every phrase in `prose`, in order. A part of a name (`a-b`, `a/b`, `a.b`) is no word, and None is not none."""
    longest_first = sorted(phrases, key=len, reverse=True)
    choices = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in longest_first)
    pattern = re.compile(rf"\b(?<![/.-])(?:{choices})(?![\w/-]|\.\w)", re.IGNORECASE)
    found = []
    for match in pattern.finditer(prose):
        phrase = " ".join(match[0].lower().split())
        if "None" not in match[0]:
            found.append(Finding(prose.count("\n", 0, match.start()) + 1, phrase, phrases[phrase]))
    return found


def openings(source: str) -> list[Finding]:
    """Docstrings in `source` that begin with neither a noun nor a verb, in any order."""
    literals = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    return [
        Finding(literal.lineno + opening[0].count("\n"), opening[1], "begin with a noun or a verb")
        for literal in literals
        if isinstance(literal, ast.Constant) and isinstance(literal.value, str)
        if (opening := OPENING.match(literal.value))
    ]


def python_prose(source: str) -> str:
    """`source` with everything blanked but comments and string literals. Every character keeps its place."""
    starts = [0, *itertools.accumulate(map(len, io.StringIO(source)))]
    pieces, end = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if tokenize.tok_name[token.type] in PROSE_TOKENS:
            start, stop = (starts[row - 1] + column for row, column in (token.start, token.end))
            pieces += [_blanked(source[end:start]), _token_prose(token.type, source[start:stop])]
            end = stop
    prose = "".join([*pieces, _blanked(source[end:])])
    return _without(_without(prose, DOCTEST), INLINE_CODE)


def markdown_prose(text: str) -> str:
    """`text` with code blocks, inline code and link targets blanked. Every character keeps its place."""
    for code in (FENCE, INLINE_CODE, LINK_TARGET):
        text = _without(text, code)
    return text


def _token_prose(kind: int, text: str) -> str:
    """The prose of one token. `#` and quotes become spaces, so that a phrase is found across the end of a line."""
    if kind == tokenize.COMMENT:
        return text.replace("#", " ")
    if kind == tokenize.STRING and (literal := LITERAL.fullmatch(text)):
        body = ESCAPE.sub("  ", literal["body"])
        if "f" in literal["prefix"].lower():
            while (fewer := _without(body, FIELD)) != body:
                body = fewer
        if re.search(r"\s", body):
            return " " * literal.start("body") + body + " " * len(literal["quotes"])
        return _blanked(text)
    return text if tokenize.tok_name[kind] == "FSTRING_MIDDLE" else " " * len(text)


def _blanked(text: str) -> str:
    return re.sub(r"\S", CODE, text)


def _without(text: str, code: re.Pattern[str]) -> str:
    return code.sub(lambda match: _blanked(match[0]), text)


PROSE: dict[str, Callable[[str], str]] = {".py": python_prose, ".md": markdown_prose}


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The Python and Markdown files among `paths` and below them."""
    for path in paths:
        if path.is_file() and path.suffix in PROSE:
            yield path
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name[0] != "." and name not in SKIPPED_FOLDERS)
            yield from (Path(folder, name) for name in sorted(names) if Path(name).suffix in PROSE)


def file_findings(path: Path, phrases: Mapping[str, str]) -> list[Finding]:
    """Phrases and openings of docstrings in a Python or Markdown file, in order."""
    text = path.read_text()
    found = findings(PROSE[path.suffix](text), phrases) + (openings(text) if path.suffix == ".py" else [])
    return sorted(found, key=lambda finding: finding.line)


def main(arguments: list[str]) -> int:
    """Print the findings below `arguments`, or below the repository; 1 if there are any."""
    phrases = parsed(PHRASES.read_text())
    lines = [
        f"{path}:{finding.line}: {finding.phrase} -> {finding.instead}"
        for path in files(map(Path, arguments or ["."]))
        for finding in file_findings(path, phrases)
    ]
    print("\n".join(lines), end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
