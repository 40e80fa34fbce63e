import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.keys import MAX_KEY_LENGTH, sample_keys

file_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=90)
file_paths = st.lists(file_names, min_size=1, max_size=4).map("/".join)


@pytest.mark.medium
@given(st.lists(file_paths, min_size=1, max_size=20, unique=True))
def test_keys_are_dot_free_short_and_unique(paths):
    keys = sample_keys(pl.Series(paths)).to_list()
    assert all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", key) for key in keys)
    assert all(len(key) <= MAX_KEY_LENGTH for key in keys)
    assert len(set(keys)) == len(paths)


@pytest.mark.medium
@given(st.lists(file_paths, min_size=1, max_size=20, unique=True), st.data())
def test_a_key_does_not_depend_on_other_files(paths, data):
    some = data.draw(st.lists(st.sampled_from(paths), unique=True))
    all_keys = dict(zip(paths, sample_keys(pl.Series(paths)), strict=True))
    assert sample_keys(pl.Series(some, dtype=pl.String)).to_list() == [all_keys[path] for path in some]


def test_keys_never_change():
    paths = ["a.wav", "drums/Kick 01.wav", "音.flac", "x/.../y.b.c.wav", "long/" + 100 * "z" + ".wav"]
    assert sample_keys(pl.Series(paths)).to_list() == [
        "a-bc30c538c410",
        "drums_Kick_01-eb520e8dc8c1",
        "recording-7bbe5853c3e6",
        "x_y_b_c-cd846b26c1f8",
        60 * "z" + "-877162f4344c",
    ]


def test_an_empty_list_of_paths_gives_no_keys():
    assert sample_keys(pl.Series([], dtype=pl.String)).to_list() == []
