"""The section `source` and the key `exclude`: which settings go together, and which columns have a meaning."""

import pytest
from pydantic import TypeAdapter, ValidationError

from headrace.audio_names import AUDIO_EXTENSIONS
from headrace.config.source import Exclude, SourceConfig
from headrace.config.tables import TableFile

EXCLUDE = TypeAdapter(Exclude)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"where": "a = 1"}, "where needs metadata"),
        ({"table": {"quotes": "none"}}, "table needs metadata"),
        ({"samples": "rows"}, "samples: rows needs metadata"),
        ({"columns": {"key": "id"}}, "columns.key needs metadata"),
        ({"columns": {"path": "file"}}, "columns.path needs metadata"),
        ({"metadata": "m.csv", "fields": {"mix": "a"}}, "fields needs samples: rows"),
        ({"metadata": "m.csv", "columns": {"end": "e"}}, "columns.end needs samples: rows"),
        (
            {"metadata": "m.csv", "samples": "rows", "fields": {"mix": "a"}, "columns": {"path": "b"}},
            "columns.path: expected 'a', the column of the first of fields",
        ),
        ({"metadata": "m.csv", "where": "  "}, "where"),
        ({"min_seconds": float("nan")}, "min_seconds"),
    ],
)
def test_settings_that_need_others_are_errors_that_name_both(settings, message):
    with pytest.raises(ValidationError, match=message):
        SourceConfig(uri="a", **settings)


def test_a_list_of_places_is_one_text_with_urls_first():
    found = SourceConfig(kind="headrace", uri=["/data/a", "s3://bucket/b", "c"])
    assert found.uri == "s3://bucket/b,/data/a,c"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"uri": ["a", "b"]}, "uri: a list is for other kinds than files"),
        ({"uri": [], "kind": "nemo"}, "expected a path or URL, or a list of these"),
        ({"uri": ["a", 1], "kind": "nemo"}, "expected a path or URL, or a list of these"),
        ({"uri": ["a,b", "c"], "kind": "nemo"}, "'a,b': a path in a list cannot have a comma"),
        ({"uri": ["ftp://a", "c"], "kind": "nemo"}, "unknown URL scheme 'ftp'"),
    ],
)
def test_other_lists_of_places_are_errors(settings, message):
    with pytest.raises(ValidationError, match=message):
        SourceConfig(**settings)


def test_the_first_field_is_the_recording_and_paths_and_keys_are_text():
    rows = {"uri": "a", "metadata": "m.csv", "samples": "rows"}
    fields = SourceConfig(**rows, fields={"mix": "m", "voice": "v"}, columns={"key": "id"})
    assert (fields.path_column, set(fields.text_columns)) == ("m", {"m", "v", "id"})
    plain = SourceConfig(**rows)
    assert (plain.path_column, plain.text_columns) == ("path", ("path",))


def test_keys_to_exclude_are_a_list_of_texts_or_a_table():
    assert EXCLUDE.validate_python(["a", "b"]) == ("a", "b")
    assert EXCLUDE.validate_python("keys.csv") == TableFile(uri="keys.csv")
    assert EXCLUDE.validate_python({"uri": "keys.csv"}) == TableFile(uri="keys.csv")


@pytest.mark.parametrize(
    ("value", "message"),
    [("", "the path is empty"), (7, "expected a list of keys"), ([7], "write 7 in quotes"), ([""], "a key is empty")],
)
def test_other_values_of_exclude_are_errors(value, message):
    with pytest.raises(ValidationError, match=message):
        EXCLUDE.validate_python(value)


@pytest.mark.parametrize("kind", ["files", "kaldi", "nemo"])
def test_a_kind_without_options_says_so(kind):
    with pytest.raises(
        ValidationError,
        match=rf"options\.x: unknown key; .*\(kind: {kind}, which has no options\)",
    ):
        SourceConfig(uri="x", kind=kind, options={"x": 1})
    assert SourceConfig(uri="x", kind=kind, options={}).kind == kind


@pytest.mark.parametrize("name", [*AUDIO_EXTENSIONS, "WAV", "oga", "x.wav", "mp4"])
def test_an_extension_of_audio_is_no_extension_of_sidecars(name):
    with pytest.raises(ValidationError, match=f"'{name}' is an extension of audio"):
        SourceConfig(uri="x", sidecars=["json", name])
    assert SourceConfig(uri="x", sidecars=["wav.json", "mp3x"]).sidecars == ("wav.json", "mp3x")
