"""Rules for the end of a key in a member name, and the error about samples that look like several samples."""

import pytest

from headrace.errors import FormatError
from headrace.format.tars.member_names import KeyAt, check_fields, split_name

FIRST, LAST = KeyAt.FIRST_DOT, KeyAt.LAST_DOT


@pytest.mark.parametrize(
    ("member", "first", "last"),
    [
        ("x.flac", ("x", "flac"), ("x", "flac")),
        ("x.01.flac", ("x", "01.flac"), ("x.01", "flac")),
        ("a.b/x.01.FLAC", ("a.b/x", "01.flac"), ("a.b/x.01", "flac")),
        ("x.", ("x", ""), ("x", "")),
        ("x..flac", ("x", ".flac"), ("x.", "flac")),
        ("two\nlines.flac", ("two\nlines", "flac"), ("two\nlines", "flac")),
        ("x", None, None),
        (".hidden.flac", None, None),
        ("a/._x.flac", None, None),
        ("__meta__/x.flac", None, None),
        ("__meta__", None, None),
    ],
)
def test_the_key_ends_at_the_first_or_at_the_last_dot_of_the_last_component(member, first, last):
    assert split_name(member, FIRST) == first
    assert split_name(member, LAST) == last


SOUND = [
    ["flac", "json"],
    ["mic.flac", "json"],
    ["mic.flac"],
    ["flac", "mic.flac", "json", "mic.json"],
    ["flac", "a.pth", "b.pth", "json"],
    ["v2.txt", "flac"],
    ["pth", "v2.pth"],
    ["flac", "a.txt", "b.txt"],
    ["01.txt"],
]
IN_DOUBT = [
    ["01.flac", "02.flac"],
    ["01.flac", "02.wav", "json"],
    [" 1.flac", " 2.flac"],
    ["v2.flac", "v2.json"],
    ["flac", "v2.json"],
    ["01.pth", "02.pth", "json"],
    ["01.txt", "02.txt"],
    ["v2.json"],
]


@pytest.mark.parametrize("fields", SOUND, ids=str)
def test_samples_with_one_plain_file_of_each_kind_or_one_in_total_are_valid(fields):
    check_fields("a.tar", "x", fields)


@pytest.mark.parametrize("fields", IN_DOUBT, ids=str)
def test_the_error_about_samples_that_look_like_several_names_files_and_key_at(fields):
    with pytest.raises(FormatError, match=r'^a\.tar: .* of one sample, \'x\'.*key_at="last_dot".*--key-at') as fault:
        check_fields("a.tar", "x", fields)
    assert all(f"x.{name}" in str(fault.value) for name in fields if "." in name)


def test_fields_that_a_build_declares_are_accepted():
    fields = ["mix.flac", "vocals.flac", "json"]
    check_fields("a.tar", "x", fields, declared=fields)
    with pytest.raises(FormatError, match=r"x\.mix\.flac, x\.vocals\.flac are files"):
        check_fields("a.tar", "x", fields, declared=["json"])


def test_of_many_files_some_are_named_and_the_rest_is_counted():
    with pytest.raises(FormatError, match=r"x\.4\.flac and 995 more are files of one sample"):
        check_fields("a.tar", "x", [f"{number}.flac" for number in range(1000)])
