import json
import os

import polars as pl
import pytest

from headrace.catalog.tables.cell_types import typed
from headrace.catalog.tables.metadata_files import read_metadata
from headrace.errors import ConfigError


def table(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_metadata(path)


def test_a_csv_column_gets_the_type_that_fits_all_its_cells(tmp_path):
    found = table(tmp_path, "m.csv", 'path,title,bpm,gain,live\na.wav,"x, ""y""",120,-0.5,true\nb.wav,,,1,FALSE\n')
    assert found.to_dicts() == [
        {"path": "a.wav", "title": 'x, "y"', "bpm": 120, "gain": -0.5, "live": True},
        {"path": "b.wav", "title": None, "bpm": None, "gain": 1.0, "live": False},
    ]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", ""], [1, -2, None]),
        (["007", "12"], ["007", "12"]),
        (["+49 30", "1"], ["+49 30", "1"]),
        (["1", "2.5e3"], [1.0, 2500.0]),
        (["1", "x"], ["1", "x"]),
        (["9223372036854775807", "-1"], [9223372036854775807, -1]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["True", "false"], [True, False]),
        (["[1, 2]", "[]", ""], [[1, 2], [], None]),
        (["[1]", "[0.5, null]"], [[1.0], [0.5, None]]),
        (['["a", "b"]'], [["a", "b"]]),
        (["[[1, 2], []]"], [[[1, 2], []]]),
        (["[1]", "[true]"], ["[1]", "[true]"]),
        (["[1, 'a']", "[1]"], ["[1, 'a']", "[1]"]),
        (["[99999999999999999999]"], ["[99999999999999999999]"]),
        (["[]", ""], [[], None]),
        (["", ""], [None, None]),
        (["2024-05-01"], ["2024-05-01"]),
    ],
)
def test_cells_are_typed_by_fixed_rules(cells, values):
    column = typed(pl.Series("c", cells))
    assert column.to_list() == values
    assert [type(value) for value in column] == [type(value) for value in pl.Series(values)]


def test_paths_and_keys_are_always_text(tmp_path):
    assert table(tmp_path, "m.csv", "path,key\n001,0012\n2,3\n").rows() == [("001", "0012"), ("2", "3")]
    assert table(tmp_path, "m.jsonl", '{"path": 1, "key": 2}\n').rows() == [("1", "2")]


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path):
    assert table(tmp_path, "m.csv", b"\xef\xbb\xbfpath,n\r\na.wav,1\r\n\r\n").to_dicts() == [{"path": "a.wav", "n": 1}]


def test_tabs_separate_the_cells_of_a_tsv(tmp_path):
    assert table(tmp_path, "m.tsv", "path\ttitle\na\tx, y\n").rows() == [("a", "x, y")]


def test_line_breaks_in_quotes_belong_to_the_cell(tmp_path):
    assert table(tmp_path, "m.csv", 'path,text\na,"one\ntwo"\n').rows() == [("a", "one\ntwo")]


def test_json_lines_keep_lists_and_objects(tmp_path):
    found = table(
        tmp_path, "m.jsonl", '{"path": "a", "chords": [1, 2]}\n\n{"path": "b", "by": {"name": "x"}, "n": null}\n'
    )
    assert found.to_dicts() == [
        {"path": "a", "chords": [1, 2], "by": None, "n": None},
        {"path": "b", "chords": None, "by": {"name": "x"}, "n": None},
    ]


def test_names_of_json_lines_have_the_same_order_in_every_process(tmp_path):
    names = [f"c{number}" for number in range(40)]  # polars orders more than 32 names by a random hash
    row = {"path": "a", **dict.fromkeys(names, 1), "of": [dict.fromkeys(names, 1)]}
    found = table(tmp_path, "m.jsonl", json.dumps(row))
    assert found.columns == ["path", *names, "of"]
    assert [field.name for field in found.schema["of"].inner.fields] == sorted(names)
    assert found["of"].to_list() == [[dict.fromkeys(names, 1)]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.csv", "path,n\na,nan\nb,1\nc,-inf\n"),
        ("m.jsonl", '{"path": "a", "n": NaN}\n\n{"path": "b", "n": 1}\n{"path": "c", "n": -1e999}\n'),
    ],
)
def test_nan_and_infinities_are_floats_in_every_format(tmp_path, name, content):
    assert str(table(tmp_path, name, content)["n"].to_list()) == "[nan, 1.0, -inf]"


def test_nan_in_lists_and_objects_of_json_lines_is_null(tmp_path):
    found = table(tmp_path, "m.jsonl", '{"path": "a", "l": [NaN, 1.5], "o": {"x": Infinity, "y": 2}}\n')
    assert found.select("l", "o").row(0) == ([None, 1.5], {"x": None, "y": 2})


def test_objects_without_any_name_are_null_so_that_they_can_be_stored(tmp_path):
    found = table(tmp_path, "m.jsonl", '{"path": "a", "o": {}, "l": [{}], "in": {"o": {}}, "n": 1}\n')
    assert found.row(0, named=True) == {"path": "a", "o": None, "l": [None], "in": {"o": None}, "n": 1}
    found.write_parquet(tmp_path / "stored.parquet")


def test_empty_cells_of_text_columns_are_null(tmp_path):
    assert table(tmp_path, "m.csv", "path,key,n\na,,1\n,k,2\n").rows() == [("a", None, 1), (None, "k", 2)]


def test_a_list_with_half_of_a_surrogate_pair_stays_text(tmp_path):
    assert table(tmp_path, "m.csv", 'path,l\na,"[""\\ud83d""]"\n')["l"].to_list() == ['["\\ud83d"]']


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"path": ["a"], "chords": [[1, 2]]}, schema_overrides={"chords": pl.List(pl.Int16)})
    frame.write_parquet(tmp_path / "m.parquet")
    assert read_metadata(tmp_path / "m.parquet").equals(frame)


def test_empty_columns_become_text_so_that_they_can_be_stored(tmp_path):
    found = table(tmp_path, "m.jsonl", '{"path": "a", "n": null, "l": []}\n')
    assert found.schema == {"path": pl.String, "n": pl.String, "l": pl.List(pl.String)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", "path,n\na,1\nb,2,3\n", r"m\.csv, line 3: 3 cells, but the header has 2"),
        ("m.csv", "path,n\na,1\nb\n", r"m\.csv, line 3: 1 cells"),
        ("m.csv", 'path,n\na,"1\n', r"m\.csv, line 2"),
        ("m.csv", b"path,n\na,\xe9\n", r"m\.csv: not valid UTF-8"),
        ("m.csv", "", r"m\.csv: has no column 'path'.*none"),
        ("m.csv", "file,title\na,b\n", r"m\.csv: has no column 'path'.*file, title"),
        ("m.csv", ",path\n0,a\n", r"m\.csv: column 1 has no name .*index=False"),
        ("m.csv", "path,a,a\nx,1,2\n", r"two columns are named 'a'"),
        ("m.jsonl", '{"path": "a"}\n{"path": \n', r"m\.jsonl, line 2"),
        ("m.jsonl", '{"path": "a"}\n[1]\n', r"m\.jsonl, line 2: expected one JSON object per line"),
        ("m.jsonl", '{"path": ["a"]}\n', r"m\.jsonl: column 'path' must be text"),
        ("m.jsonl", "", r"m\.jsonl"),
        ("m.jsonl", '{"path": "a", "t": "\\ud83d"}\n', r"m\.jsonl, line 1: half of a surrogate pair \('\\ud83d'\)"),
        ("m.jsonl", '{"path": ' + "[" * 9999 + "]" * 9999 + "}", r"m\.jsonl, line 1: .*nested too deeply"),
        ("m.parquet", b"PAR1 junk", r"m\.parquet: not a readable Parquet file"),
        ("m.xlsx", b"", r"m\.xlsx: the file's name must end in one of \.csv"),
    ],
)
def test_the_error_about_an_invalid_table_names_file_and_line(tmp_path, name, content, message):
    with pytest.raises(ConfigError, match=message):
        table(tmp_path, name, content)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ('["a"]', '"x"', "'c' is a list in line 1 and text in line 3"),
        ("[1]", '["x"]', r"'c\[\]' is a number in line 1 and text in line 3"),
        ("1", '"x"', "'c' is a number in line 1 and text in line 3"),
        ("1", "true", "'c' is a number in line 1 and true or false in line 3"),
        ("[1, true]", "null", r"'c\[\]' is a number in line 1 and true or false in line 1"),
        ('{"a": 1, "b": 2}', '{"a": {}, "b": 2}', r"'c\.a' is a number in line 1 and an object in line 3"),
        ('[{"a": 1}]', '[{"a": "x"}]', r"'c\[\]\.a' is a number in line 1 and text in line 3"),
    ],
)
def test_the_error_about_a_json_lines_column_of_two_types_names_both_lines(tmp_path, first, second, message):
    with pytest.raises(ConfigError, match=r"m\.jsonl: column " + message):
        table(tmp_path, "m.jsonl", f'{{"path": "a", "c": {first}}}\n\n{{"path": "b", "c": {second}}}\n')


def test_nulls_integers_and_floats_are_of_one_type(tmp_path):
    lines = '{"path": "a", "n": 1, "l": [1, null]}\n{"path": "b", "n": null}\n{"path": 3, "n": 0.5, "l": [0.5]}\n'
    found = table(tmp_path, "m.jsonl", lines)
    assert found["path"].to_list() == ["a", "b", "3"]
    assert found["n"].to_list() == [1.0, None, 0.5]
    assert found["l"].to_list() == [[1.0, None], None, [0.5]]


def test_the_error_about_a_missing_table_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.csv: there is no such file"):
        read_metadata(tmp_path / "gone.csv")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_special_file_in_place_of_the_table_is_an_error_that_names_it_and_does_not_block(tmp_path, suffix):
    pipe, link, folder = (tmp_path / f"{name}.{suffix}" for name in ("pipe", "link", "folder"))
    os.mkfifo(pipe)
    link.symlink_to("gone.csv")
    folder.mkdir()
    with pytest.raises(ConfigError, match=rf"pipe\.{suffix}: not a regular file but a pipe"):
        read_metadata(pipe)
    with pytest.raises(ConfigError, match=rf"link\.{suffix}: a symbolic link to gone\.csv, which does not exist"):
        read_metadata(link)
    with pytest.raises(ConfigError, match=rf"folder\.{suffix}: a folder"):
        read_metadata(folder)
