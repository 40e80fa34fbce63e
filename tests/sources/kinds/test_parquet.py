"""Rows of Parquet files as recordings, from the YAML to samples."""

import datetime as dt
import sys
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.rows.metadata_columns import metadata_dicts
from headrace.catalog.tables.metadata_files import read_metadata
from headrace.errors import ConfigError
from headrace.sources.kinds import parquet
from headrace.sources.named_files import stamp_of_file
from headrace.sources.sources import open_corpus
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, KindBuilds, build, sound, text, write_sound

NUMBERS = range(NUM_UTTERANCES)


def rows_of(uri, **options):
    return list(open_corpus("parquet", str(uri), options).rows().read())


def paths_of(uri, **options):
    chunks = open_corpus("parquet", str(uri), options).list()
    return [path for chunk in chunks for path in chunk.path]


class TestStructs(KindBuilds, CorpusContract):
    """Two files in the form of Hugging Face."""

    kind = "parquet"
    prefix = "train-1.parquet/"

    def write(self, folder):
        self.sounds = {number: sound(folder / "made", number).read_bytes() for number in NUMBERS}
        self.texts = {number: text(number) for number in NUMBERS}
        self.write_files(folder, 0, 1)

    def audio(self, number):
        return {"bytes": self.sounds[number], "path": f"utt-{number}.wav"}

    def write_files(self, folder, *parts):
        (folder / "corpus").mkdir(exist_ok=True, parents=True)
        for part in parts:
            numbers = [number for number in NUMBERS if number % 2 == part]
            rows = {
                "sound": [self.audio(number) for number in numbers],
                "text": [self.texts[number] for number in numbers],
            }
            pl.DataFrame(rows).write_parquet(folder / f"corpus/train-{part}.parquet", row_group_size=2)

    def change(self, folder):
        self.sounds[1] = sound(folder / "made", 1, seed=100).read_bytes()
        self.write_files(folder, 1)
        return Change(f"{self.prefix}utt-1.wav", frozenset({f"{self.prefix}utt-3.wav", f"{self.prefix}utt-5.wav"}))

    def spoil(self, folder):
        self.sounds[1] = b"no sound"
        self.write_files(folder, 1)

    def retext(self, folder):
        self.texts[2] = "other"
        self.write_files(folder, 0)

    def harm(self, folder):
        rows = {"sound": [None, {"bytes": None, "path": "gone.wav"}], "text": ["a", "b"]}
        schema = {"sound": pl.Struct({"bytes": pl.Binary, "path": pl.String}), "text": pl.String}
        pl.DataFrame(rows, schema=schema).write_parquet(folder / "corpus/x.parquet")
        return {"x.parquet/0": "unreadable", "gone.wav": "unreadable"}


class TestBinary(TestStructs):
    """A column of bytes without names, which the options name."""

    options: ClassVar[dict] = {"audio": "sound"}

    def audio(self, number):
        return self.sounds[number]

    def change(self, folder):
        super().change(folder)
        return Change(f"{self.prefix}0", frozenset({f"{self.prefix}1", f"{self.prefix}2"}))

    def harm(self, folder):
        pl.DataFrame({"sound": [None]}, schema={"sound": pl.Binary}).write_parquet(folder / "corpus/x.parquet")
        return {"x.parquet/0": "unreadable"}


class TestPaths(TestStructs):
    """Structs with paths only: the files are beside."""

    def write(self, folder):
        for number in NUMBERS:
            sound(folder / "corpus/wav", number)
        self.texts = {number: text(number) for number in NUMBERS}
        self.write_files(folder, 0, 1)

    def audio(self, number):
        return {"bytes": None, "path": f"wav/utt-{number}.wav"}

    def write_files(self, folder, *parts):
        super().write_files(folder, *parts)

    def change(self, folder):
        sound(folder / "corpus/wav", 1, seed=100)
        return Change("wav/utt-1.wav")

    def spoil(self, folder):
        (folder / "corpus/wav/utt-1.wav").write_bytes(b"no sound")


def test_other_columns_are_metadata_and_bytes_are_left_out(tmp_path):
    content = write_sound(tmp_path / "a.wav", 1).read_bytes()
    rows = {
        "audio": [{"bytes": content, "path": "deep/../a.wav"}],
        "day": [dt.date(2026, 1, 2)],
        "tags": [["x", "y"]],
        "path": ["mine"],
        "picture": [b"png"],
        "id": [7],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    found = build(tmp_path, {"kind": "parquet", "uri": "a.parquet"})
    (sample,) = found.samples.values()
    assert sample["metadata"].pop("headrace")["source"] == "a.parquet/a.wav"
    assert sample["metadata"] == {"day": "2026-01-02", "tags": ["x", "y"], "own_path": "mine", "id": "7"}


def test_values_that_json_has_not_are_those_of_a_table(tmp_path):
    """Dates, times, durations and decimals, also in lists and objects."""
    moment = dt.datetime.fromisoformat("2026-01-02T03:04:05.000006")
    values = {"moment": moment, "zoned": moment.replace(tzinfo=dt.UTC), "day": moment.date(), "hour": moment.time(),
              "span": dt.timedelta(seconds=1.5), "price": Decimal("1.10")}  # fmt: skip
    values |= {"many": list(values.values())[-1:], "object": dict(values)}
    content = write_sound(tmp_path / "a.wav", 1).read_bytes()
    rows = pl.DataFrame([values]).with_columns(audio=pl.lit({"bytes": content, "path": "a.wav"}), path=pl.lit("a.wav"))
    rows.drop("path").write_parquet(tmp_path / "a.parquet")
    rows.drop("audio").write_parquet(tmp_path / "table.parquet")
    (sample,) = build(tmp_path, {"kind": "parquet", "uri": "a.parquet"}).samples.values()
    (expected,) = metadata_dicts(read_metadata(tmp_path / "table.parquet").drop("path"))
    assert {name: sample["metadata"][name] for name in expected} == expected
    assert (expected["price"], expected["span"], expected["hour"]) == (1.1, 1.5, "03:04:05.000006")


def test_a_type_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    wide = arrow.array([None], arrow.decimal256(60, 2))
    audio = arrow.array([{"bytes": write_sound(tmp_path / "a.wav", 1).read_bytes(), "path": "a.wav"}])
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"audio": audio, "w": wide}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r"a\.parquet: not a readable Parquet file"):
        rows_of(tmp_path / "a.parquet")


def test_a_row_has_the_name_in_its_struct_or_its_number_if_that_is_not_unique(tmp_path):
    names = ["a.wav", "b.wav", "b.wav", None, "", "../c.wav", "/d.wav", "3"]
    audio = [{"bytes": b"x", "path": name} for name in names]
    pl.DataFrame({"audio": audio}).write_parquet(tmp_path / "a.parquet")
    expected = ["a.wav", "1", "2", "3", "4", "5", "d.wav", "7"]
    assert [path.removeprefix("a.parquet/") for path in paths_of(tmp_path)] == expected
    assert [row["path"].removeprefix("a.parquet/") for row in rows_of(tmp_path)] == expected


PATHS = st.lists(st.none() | st.sampled_from(["a.wav", "b/c.wav", "./d", "3", "", "ü.wav"]) | st.text(max_size=4))
SCHEMAS = {
    "struct": pl.Struct({"bytes": pl.Binary, "path": pl.String}),
    "path": pl.Struct({"path": pl.String}),
    "bytes": pl.Struct({"bytes": pl.Binary}),
    "binary": pl.Binary,
    "string": pl.String,
}


@pytest.mark.medium
@given(paths=PATHS, form=st.sampled_from(list(SCHEMAS)), is_null=st.booleans(), rows=st.integers(1, 5))
def test_names_without_the_audio_are_those_of_the_listing(tmp_path_factory, paths, form, is_null, rows):
    file = str(tmp_path_factory.getbasetemp() / "names.parquet")
    structs = [None if is_null and path is None else {"bytes": b"x", "path": path} for path in paths]
    values = structs if SCHEMAS[form].is_nested() else [None if path is None else path.encode() for path in paths]
    values = paths if form == "string" else values
    pl.DataFrame({"sound": pl.Series(values, dtype=SCHEMAS[form])}).write_parquet(file, row_group_size=rows)
    with patch.object(parquet, "_audio_of", parquet._audio_of.__wrapped__):
        listed = parquet._named_rows(parquet._audio_of(file, None, "sound"))
        alone = parquet._named_rows(parquet._names_of(file, None, "sound"))
        assert [row.name for row in alone] == [row.name for row in listed]


def test_a_row_is_opened_without_decoding_the_others_for_their_names(tmp_path, monkeypatch):
    audio = [{"bytes": bytes([number]), "path": f"{number}.wav"} for number in range(9)]
    pl.DataFrame({"audio": audio}).write_parquet(tmp_path / "a.parquet", row_group_size=3)
    corpus = open_corpus("parquet", str(tmp_path), {})
    stamp = stamp_of_file(str(tmp_path / "a.parquet"))
    monkeypatch.setattr(parquet, "_audio_of", None)
    with corpus.open("a.parquet/7.wav", replace(stamp, num_bytes=1)) as file:
        assert file.read() == bytes([7])


def test_names_are_found_without_pyarrow(tmp_path, monkeypatch):
    pl.DataFrame({"audio": [{"bytes": b"x", "path": "a.wav"}]}).write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    stamp = stamp_of_file(str(tmp_path / "a.parquet"))
    with open_corpus("parquet", str(tmp_path), {}).open("a.parquet/a.wav", replace(stamp, num_bytes=1)) as file:
        assert file.read() == b"x"


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"a": [1]}, {}, "expected one column of structs with bytes and path, found 0.*the columns are a"),
        ({name: [{"bytes": b"", "path": ""}] for name in "ab"}, {}, ".*found 2.*the columns are a, b"),
        ({"a": [1]}, {"audio": "b"}, "options.audio: there is no column 'b'; the columns are a"),
        ({"a": [1]}, {"audio": "a"}, "options.audio: column 'a' is Int64"),
    ],
)
def test_a_file_without_a_column_of_audio_is_an_error_that_names_the_columns(tmp_path, columns, options, said):
    pl.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=rf"a\.parquet: {said}"):
        rows_of(tmp_path, **options)


def test_a_file_that_is_not_parquet_is_an_error(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(ConfigError, match=r"a\.parquet: not a readable Parquet file"):
        rows_of(tmp_path)
