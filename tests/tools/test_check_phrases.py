"""The search for unwanted phrases reads prose alone, and docstrings must begin with a noun or a verb."""

import subprocess
import sys

import pytest

from tools.check_phrases import PHRASES, files, findings, markdown_prose, openings, parsed, python_prose

RULES = {"gizmo": "device", "all sorts": "kinds", "of none": "of no"}


def found(prose: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.phrase) for finding in findings(prose, RULES)]


def test_a_phrase_is_found_with_its_line_and_what_to_write_instead():
    (finding,) = findings("One.\nA Gizmo.\n", RULES)
    assert (finding.line, finding.phrase, finding.instead) == (2, "gizmo", "device")


@pytest.mark.parametrize("prose", ["gizmos", "a_gizmo", "gizmo.py", "the/gizmo", "gizmo-2", "xgizmo", "kind of None"])
def test_only_whole_words_are_found_and_no_parts_of_names(prose):
    assert not found(prose)


def test_a_phrase_may_reach_over_a_line_end():
    assert found("one of all\n    sorts") == [(1, "all sorts")]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("# a gizmo\n", 1),
        ('x = 1\n"""One.\n\nA gizmo.\n"""\n', 4),
        ("x = f'{y} gizmo'\n", 1),
        ('x = rb"a gizmo"\n', 1),
        ("# of all\n# sorts\n", 1),
        ('x = (\n    "of all "\n    "sorts of"\n)\n', 2),
        ('x = "one\\ngizmo"\n', 1),
    ],
)
def test_comments_docstrings_and_string_literals_are_read(source, line):
    (finding,) = findings(python_prose(source), RULES)
    assert finding.line == line


@pytest.mark.parametrize(
    "source",
    [
        "gizmo = all(sorts)\n",
        "'gizmo'\n",
        "x = f'{gizmo} of {a[gizmo]:{gizmo}}'\n",
        '"""One.\n\n>>> gizmo\n"""\n',
        "# the `gizmo` in it\n",
        'f("of all", x, "sorts of")\n',
        "x = 1  # of all\ny = 2  # sorts\n",
    ],
)
def test_identifiers_names_and_doctests_are_not_read(source):
    assert not found(python_prose(source))


@pytest.mark.parametrize(
    "source", ["", "x", "x = '''a\n\n b'''  # c", "if x:\n\ty = 'é € ü'\n", "x = f'a {y!r:>{z}} b'\n"]
)
def test_every_character_keeps_its_place(source):
    assert len(python_prose(source)) == len(source)
    assert [len(line) for line in python_prose(source).split("\n")] == [len(line) for line in source.split("\n")]


def test_markdown_is_read_outside_of_code_and_link_targets():
    text = "A `gizmo`\n\n```\ngizmo\n```\n\n[a](gizmo.md) and [b](gizmo)\n\nA gizmo.\n\n~~~\ngizmo\n"
    assert found(markdown_prose(text)) == [(9, "gizmo")]


@pytest.mark.parametrize("words", ["What", "How", "Where", "The same", "As", "what"])
@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""{} it is."""', 1),
        ("'{} it is.'", 1),
        ('# Comment\n"""{}, it is.\n\nMore.\n"""', 2),
        ('def f():\n    """{}\n    it is."""', 2),
        ('async def f():\n    r"""{} it is."""', 2),
        ('class A:\n    """\n    {} it is.\n    """', 3),
        ('class A:\n    def f(self):\n        """{} it is."""', 3),
        ('class A:\n    x = 1\n    """{} it is."""', 3),
        ('x = 1\n"""{} it is."""', 2),
    ],
)
def test_a_docstring_begins_with_a_noun_or_a_verb(source, line, words):
    (finding,) = openings(source.format(words))
    assert (finding.line, finding.phrase, finding.instead) == (line, words, "begin with a noun or a verb")


@pytest.mark.parametrize("words", ["Whatever", "However", "Whereas", "The sameness", "Assets", "As-is", "The", "`As`"])
def test_other_words_begin_a_docstring(words):
    assert not openings(f'"""{words} it is."""')


@pytest.mark.parametrize(
    "source",
    ["# What it is\n", "x = 'What it is'\n", "f('How it is')\n", '"""Results.\n\nWhere it is.\n"""\n', "b'As it is'\n"],
)
def test_only_docstrings_have_an_opening_and_only_their_first_line(source):
    assert not openings(source)


def test_the_rules_name_a_phrase_once_and_say_what_to_write_instead():
    text = PHRASES.read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(parsed(text)) == sum(len(line.partition("->")[0].split(",")) for line in lines)
    assert all(parsed(text).values())
    assert all(findings(phrase, parsed(text)) for phrase in parsed(text))


def test_hidden_folders_and_what_builds_write_are_skipped(tmp_path):
    for name in (".venv/a.py", "data/b.md", "docs/c.md", "d.py", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in files([tmp_path])] == ["d.py", "docs/c.md"]


@pytest.mark.medium
def test_the_command_prints_findings_and_fails_where_there_are_any(tmp_path):
    phrase, instead = next(iter(parsed(PHRASES.read_text()).items()))
    bad, good, opened = tmp_path / "bad.md", tmp_path / "good.md", tmp_path / "opened.py"
    bad.write_text(f"Text.\n\nAgain: {phrase}\n")
    good.write_text("Text.\n")
    opened.write_text(f'"""What is text."""\n\n# {phrase}\n')

    def run(*paths):
        return subprocess.run(
            [sys.executable, "tools/check_phrases.py", *paths], capture_output=True, text=True, check=False
        )

    assert run(good).returncode == 0
    outcome = run(tmp_path)
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines() == [
        f"{bad}:3: {phrase} -> {instead}",
        f"{opened}:1: What -> begin with a noun or a verb",
        f"{opened}:3: {phrase} -> {instead}",
    ]
