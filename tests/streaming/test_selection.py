"""A selection is one value, from the arguments to the opened snapshots."""

import dataclasses
import importlib
import pkgutil
from pathlib import Path

import pytest

import headrace.streaming
from headrace.errors import ConfigError
from headrace.streaming.selection import Selection, WantedTensor, names_of_parts, wanted_tensors
from headrace.streaming.stream import Stream

CHOICES = {"split", "view", "where", "latents", "columns", "tensors", "fields", "key_at"}


def _dataclasses():
    """All dataclasses of the loader."""
    for found in pkgutil.walk_packages(headrace.streaming.__path__, "headrace.streaming."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__module__ == found.name:
                yield value


def test_an_argument_of_a_user_is_a_field_of_two_classes_at_most():
    """Classes that name several choices and no fingerprint carry the choice of a user; others name what was found."""
    carriers = {one for one in _dataclasses() if len(CHOICES & {field.name for field in dataclasses.fields(one)}) > 2}
    carriers = {one for one in carriers if "fingerprint" not in one.__dataclass_fields__}
    assert carriers == {Stream, Selection}


@pytest.mark.parametrize("name", ["columns", "latents"])
def test_a_path_is_a_folder_and_a_text_without_a_slash_is_the_name_of_a_part(name):
    assert names_of_parts(name, ["mel", Path("mel"), "out/columns/mel"]) == ("mel", "./mel", "out/columns/mel")
    with pytest.raises(ConfigError, match=rf"{name} is 'mel': expected a list of names, such as \['mel'\]"):
        names_of_parts(name, "mel")


def test_tensors_are_named_with_or_without_a_value_for_null():
    assert wanted_tensors("tensors", ["snr", "snr"]) == (WantedTensor("snr"),)
    assert wanted_tensors("tensors", {"snr": -1.0, "is_live": False}) == (
        WantedTensor("snr", -1.0),
        WantedTensor("is_live", False),
    )
    with pytest.raises(ConfigError, match=r"tensors\['snr'\] is None: expected a number, True or False"):
        wanted_tensors("tensors", {"snr": None})


@pytest.mark.parametrize(
    ("own", "of_dataset", "expected"),
    [
        ({}, {"split": "train", "columns": ["a"]}, {"split": "train", "columns": ["a"]}),
        ({"split": "test", "columns": []}, {"split": "train", "columns": ["a"]}, {"split": "test"}),
        ({"view": "loud"}, {"where": "snr > 3"}, {"view": "loud"}),
        ({"where": "snr > 3"}, {"view": "loud"}, {"where": "snr > 3"}),
        (
            {"latents": ["mel"], "snapshot": 3},
            {"fields": ["audio"]},
            {"latents": ["mel"], "snapshot": 3, "fields": ["audio"]},
        ),
        ({"key_at": "last_dot"}, {"tensors": ["snr"]}, {"key_at": "last_dot", "tensors": ["snr"]}),
    ],
)
def test_a_stream_takes_what_it_does_not_say_from_the_dataset(own, of_dataset, expected):
    assert Stream("a", **own).selection(Selection(**of_dataset)) == Selection(**expected)
