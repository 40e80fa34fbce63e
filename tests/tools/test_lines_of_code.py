"""Lines of code are counted without docstrings, comments and blank lines."""

import pytest

from tools.lines_of_code import lines_of_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""A module."""\n\nx = 1  # one\n# two\n', 1),
        ('def f():\n    """Two\n    lines."""\n    return """a\nb"""\n', 3),
        ("x = [\n    1,\n\n    2,\n]\n", 4),
        ("", 0),
    ],
)
def test_only_lines_with_code_count(text, expected):
    assert lines_of_code(text) == expected
