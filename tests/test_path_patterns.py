"""Glob patterns over relative paths."""

import pytest

from headrace.path_patterns import has_pattern, ignoring, path_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.wav", ["a.wav", ".wav", "ä.wav"], ["b/a.wav", "a.WAV", "a.wav2", "xawav"]),
        ("**/*.wav", ["a.wav", "b/a.wav", "b/c/a.wav"], ["a.mp3"]),
        ("raw/**", ["raw/a", "raw/b/c"], ["raw", "xraw/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("?.txt", ["a.txt"], ["ab.txt", ".txt", "/.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"], ["c.txt", "[ab].txt"]),
        ("[!ab].txt", ["c.txt"], ["a.txt", "/.txt"]),
        ("[a-c]1", ["a1", "b1"], ["d1", "-1"]),
        ("[]x]", ["]", "x"], ["a"]),
        ("[x", ["[x"], ["x"]),
        ("a+(b).c", ["a+(b).c"], ["aab.c"]),
        ("a\nb*", ["a\nb", "a\nbc\nd"], ["a b"]),
        ("[&&~^|\\]", ["&", "~", "^", "|", "\\"], ["a"]),
    ],
)
def test_what_a_pattern_matches(pattern, matching, other):
    compiled = path_pattern(pattern)
    assert [path for path in [*matching, *other] if compiled.fullmatch(path)] == matching


@pytest.mark.parametrize(("path", "expected"), [("a/b.csv", False), ("a/*.csv", True), ("a?", True), ("[1]", True)])
def test_which_paths_have_patterns(path, expected):
    assert has_pattern(path) is expected


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.txt", ["a.txt", "b/c/a.txt"], ["a.txt/b"]),
        ("tmp**", ["tmp1", "a/tmp.wav", "tmp"], ["tmp/a.wav", "tmp1/b/c.wav", "a/tmp/b.wav"]),
        ("**.bak", [".bak", "x/a.bak"], ["a.bak/x"]),
        ("a**b", ["ab", "c/axb"], ["a/b", "a/x/b"]),
        ("**", ["a", "b/c"], []),
        ("raw/*", ["raw/a"], ["raw/b/c", "x/raw/a"]),
        ("raw/**", ["raw/a", "raw/b/c"], ["x/raw/a"]),
        ("raw**/a", ["raw/a", "raw1/a", "raw1/b/a"], ["x/raw/a", "rawa"]),
    ],
)
def test_a_pattern_without_a_slash_is_about_names_and_another_about_paths(pattern, matching, other):
    assert [path for path in [*matching, *other] if ignoring((pattern,))(path)] == matching
