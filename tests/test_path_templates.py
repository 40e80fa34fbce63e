"""Templates of paths: which are valid, and what they match."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.path_templates import (
    checked_path_columns,
    columns_of,
    is_template,
    path_columns,
    path_expression,
    pieces_of,
)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "expected names in braces"),
        ("a/b.wav", "expected names in braces"),
        ("{_}/x.wav", "expected names in braces"),
        ("{}/x.wav", "expected names in braces"),
        ("{a}/{b.wav", "expected names in braces"),
        ("{a}/{b}}.wav", "expected names in braces"),
        ("{a}/{a}-{b}.wav", r"\{a\} is there twice; write \{_\}"),
        ("{a}{b}.wav", "two names have nothing between them"),
        ("{_}{b}.wav", "two names have nothing between them"),
    ],
)
def test_invalid_templates_are_errors(template, message):
    with pytest.raises(ValueError, match=message):
        checked_path_columns(template)


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("{speaker}/{chapter}/{utterance}.flac", "84/121123/84-0.flac", ("84", "121123", "84-0")),
        ("{speaker}/{chapter}/{utterance}.flac", "x/84/121123/84-0.flac", None),  # the whole path
        ("{speaker}/{chapter}/{utterance}.flac", "84/121123/84-0.wav", None),
        ("{_}/{b}.wav", "a/b.wav", ("b",)),
        ("{a}-{b}.wav", "x-y-z.wav", ("x-y", "z")),  # the first name takes as much as it can
        ("{a}.{b}", "a.wav", ("a", "wav")),
        ("{a b}/{ä}.wav", "1/2.wav", ("1", "2")),
        ("x+(y) {a}.wav", "x+(y) é.wav", ("é",)),
        ("{a}/z.wav", "/z.wav", None),  # a name is not empty
        ("{a}", "a\nb", ("a\nb",)),
    ],
)
def test_a_template_matches_whole_paths(template, path, values):
    found = re.match(path_expression(checked_path_columns(template)), path)
    assert (found and found.groups()) == values


@pytest.mark.medium
@given(
    st.lists(
        st.text(st.characters(exclude_characters="/{}\n", exclude_categories=["Cs"]), min_size=1),
        min_size=1,
        max_size=4,
    )
)
def test_values_are_found_again_in_a_path_that_is_made_of_them(values):
    template = "/".join(f"{{c{number}}}" for number in range(len(values)))
    found = re.match(path_expression(checked_path_columns(template)), "/".join(values))
    assert found
    assert (list(found.groups()), path_columns(template)) == (values, [f"c{n}" for n in range(len(values))])


def test_a_path_is_a_column_or_a_template_over_columns():
    assert (columns_of("path"), is_template("path")) == (["path"], False)
    assert (columns_of("a/{_folder}/{b}-{c}.{_stem}"), is_template("{a}")) == (["b", "c"], True)
    assert pieces_of("a{b}") == ["a", "b", ""]
