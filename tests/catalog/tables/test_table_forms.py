"""Forms of a user's table: quotation marks, delimiters, headers, declared types; at every door that reads tables."""

import gzip
import io
import json
import tempfile

import polars as pl
import pytest
import zstandard

from headrace.catalog.tables.metadata_files import in_memory, open_table, read_keys, read_metadata
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError

SENTENCES = ("plain", '"Hello there', "middle one", "middle two", 'said he."')


def by_metadata(path, **form):
    return read_metadata(path, form=TableConfig(**form))


def by_columns(path, **form):
    return in_memory(open_table(path, str(path), form=TableConfig(**form)))


DOORS = {"metadata": by_metadata, "columns": by_columns}


def written(tmp_path, lines, separator="\t"):
    file = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    file.write_text("".join(separator.join(line) + "\n" for line in lines))
    return file


def clips(place, num_columns, texts=SENTENCES):
    """A table whose column `place` has the texts; the others have short cells. Column 0 of the others is `path`."""
    names = ["sentence" if column == place else f"c{column}" for column in range(num_columns)]
    names[0 if place else -1] = "path"
    rows = [
        [text if column == place else f"{row}.mp3" for column in range(num_columns)] for row, text in enumerate(texts)
    ]
    return [names, *rows]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("separator", ["\t", ","])
@pytest.mark.parametrize(("place", "num_columns"), [(1, 3), (0, 3), (2, 3), (0, 2), (1, 2), (4, 7)])
@pytest.mark.parametrize("middle", [0, 1, 2, 30])
def test_rows_between_two_unbalanced_quotes_are_read_or_refused_by_line(  # noqa: PLR0913, PLR0917 - a table of cases
    tmp_path, door, separator, place, num_columns, middle
):
    texts = ["plain", '"Hello there', *["middle"] * middle, 'said he."', "end"]
    file = written(tmp_path, clips(place, num_columns, texts), separator)
    with pytest.raises(ConfigError, match=rf"lines 3 to {4 + middle}: .*quotes: none"):
        DOORS[door](file)
    assert DOORS[door](file, quotes="none")["sentence"].to_list() == texts


@pytest.mark.parametrize("blank", ["", "\n", "\r\n"])
def test_line_ends_and_blank_lines_hide_no_rows(tmp_path, blank):
    file = tmp_path / "t.csv"
    end = blank or "\n"
    file.write_bytes(f'path,text\na,"one{end}b,two{end}{blank}c,three"{end}'.encode())
    with pytest.raises(ConfigError, match="lines 2 to"):
        by_metadata(file)


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        ('"A" and "B"', "line 3"),
        ('"never closed', "lines 3 to 4"),
        ('"', "lines 3 to 4"),
        ('x"', None),
        ('say "hi"', None),
    ],
)
@pytest.mark.parametrize("door", DOORS)
def test_one_odd_cell_is_refused_by_line_and_read_without_quotes(tmp_path, door, cell, lines):
    file = written(tmp_path, [["path", "text"], ["a", "x"], ["b", cell], ["c", "y"]])
    if lines is None:  # a mark inside of a cell is text
        assert DOORS[door](file)["text"].to_list() == ["x", cell, "y"]
    else:
        with pytest.raises(ConfigError, match=rf"{lines}: .*quotes: none"):
            DOORS[door](file)
    assert DOORS[door](file, quotes="none")["text"].to_list() == ["x", cell, "y"]


def test_keys_of_exclude_are_read_or_refused_by_line(tmp_path):
    file = written(tmp_path, [["key", "why"], ["k1", "x"], ["k2", '"asked'], ["k3", "y"], ["k4", 'so"']])
    with pytest.raises(ConfigError, match="lines 3 to 5"):
        read_keys(file)
    assert read_keys(file, form=TableConfig(quotes="none")) == {"k1", "k2", "k3", "k4"}


def test_a_column_of_keys_alone_has_no_cell_over_several_lines(tmp_path):
    file = written(tmp_path, [["key"], ["k1"], ['"k2'], ["k3"], ['k4"']])
    with pytest.raises(ConfigError, match="lines 3 to 5"):
        read_keys(file)


@pytest.mark.parametrize(
    "text",
    ["one\ntwo", "one\n\ntwo\n", "one\r\ntwo, three, four", "a,b\nc,d\ne", 'she said "no"\nand left'],
)
def test_a_quoted_cell_over_several_lines_is_text(tmp_path, text):
    file = tmp_path / "t.csv"
    quoted = text.replace('"', '""')
    file.write_bytes(f'path,text,n\na,"{quoted}",1\nb,y,2\n'.encode())
    assert by_metadata(file)["text"].to_list() == [text, "y"]


def test_a_cell_whose_lines_look_like_rows_is_refused_and_can_be_written_as_json_lines(tmp_path):
    file = written(tmp_path, [["path", "text", "n"], ["a", '"b, c\nd, e"', "1"]], ",")
    with pytest.raises(ConfigError, match=r"lines 2 to 3: cell 2 goes over 2 lines.*write the table as JSON Lines"):
        by_metadata(file)


def test_a_header_with_an_unbalanced_quote_hides_no_rows(tmp_path):
    file = written(tmp_path, [["path", '"text'], ["a", "x"], ["b", 'y"'], ["c", "z"]])
    with pytest.raises(ConfigError, match="lines 1 to 3"):
        by_metadata(file)


def test_a_delimiter_and_a_header_can_be_given(tmp_path):
    file = tmp_path / "metadata.csv"
    file.write_text("LJ001|Printing, in|only\nLJ002|in being|x\n")
    found = by_metadata(file, delimiter="|", quotes="none", header=["path", "text", "normalized"])
    assert found.rows() == [("LJ001", "Printing, in", "only"), ("LJ002", "in being", "x")]


def test_a_space_gives_the_last_column_the_rest_of_the_line(tmp_path):
    file = tmp_path / "text"
    file.write_text('utt1 HE "SAID  SO\nutt2\tYES\n\nutt3\n')
    found = by_metadata(file, format="csv", delimiter=" ", header=["path", "text"])
    assert found.rows() == [("utt1", 'HE "SAID  SO'), ("utt2", "YES"), ("utt3", None)]


def test_the_format_can_be_given_for_any_name(tmp_path):
    file = tmp_path / "table.txt"
    file.write_text("path\ttext\na\tx\n")
    assert by_metadata(file, format="tsv").rows() == [("a", "x")]
    with pytest.raises(ConfigError, match="must end in one of"):
        by_metadata(file)


PACKED = {".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("name", ["t.csv", "t.TSV", "t.jsonl", "t.parquet", "t.txt"])
def test_a_compressed_table_is_the_table_that_it_holds(tmp_path, monkeypatch, packing, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = pl.DataFrame({"path": ["a", "b"], "n": [1, 2]})
    plain = io.BytesIO()
    if name.endswith("parquet"):
        rows.write_parquet(plain)
    elif name.endswith("jsonl"):
        rows.write_ndjson(plain)
    else:
        rows.write_csv(plain, separator="\t" if "TSV" in name else ",")
    file = tmp_path / (name + packing)
    file.write_bytes(PACKED[packing](plain.getvalue()))
    form = {"format": "csv"} if name == "t.txt" else {}
    assert by_metadata(file, **form).rows() == by_columns(file, **form).rows() == rows.rows()
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("damage", [lambda blob: b"path,n", lambda blob: blob[:-9]])
def test_a_damaged_compressed_table_is_an_error_that_names_it(tmp_path, packing, damage):
    file = tmp_path / f"t.csv{packing}"
    file.write_bytes(damage(PACKED[packing](b"path,n\n" + b"a.wav,1\n" * 1000)))
    with pytest.raises(ConfigError, match=r"metadata table .*t\.csv.*cannot be unpacked"):
        by_metadata(file)


DECLARED = [  # kind, cells, values, values of JSON
    ("text", ["1.10", "12e4", "007", ""], ["1.10", "12e4", "007", None]),
    ("int", ["007", "+5", " -3 ", ""], [7, 5, -3, None]),
    ("float", ["1.10", "12e4", "", "7"], [1.1, 120000.0, None, 7.0]),
    ("float", ["", ""], [None, None]),
    ("int", [""], [None]),
    ("bool", ["true", "0", "1", "False", ""], [True, False, True, False, None]),
    ("json", ['{"a": 1}', '{"b": [1.5]}', ""], [{"a": 1, "b": None}, {"a": None, "b": [1.5]}, None]),
    ("json", ["1", "2.5"], [1.0, 2.5]),
    ("json", ['"x"', "null"], ["x", None]),
    ("json", ["[1]", "[]"], [[1], []]),
    ("json", [""], [None]),
]


@pytest.mark.parametrize(("kind", "cells", "values"), DECLARED)
def test_a_declared_type_is_the_type_of_the_column(tmp_path, kind, cells, values):
    file = tmp_path / "t.tsv"
    file.write_text("path\tv\n" + "".join(f"{row}\t{cell}\n" for row, cell in enumerate(cells)))
    form = {"quotes": "none", "types": {"v": kind}}
    assert by_metadata(file, **form)["v"].to_list() == by_columns(file, **form)["v"].to_list() == values
    pl.DataFrame({"path": list(map(str, range(len(cells)))), "v": cells}).write_parquet(tmp_path / "t.parquet")
    found = by_metadata(tmp_path / "t.parquet", types={"v": kind})["v"].to_list()
    assert found == (cells if kind == "text" else values)  # the text of Parquet may be empty


@pytest.mark.parametrize(
    ("kind", "cell"),
    [("int", "1.0"), ("int", "12e4"), ("int", "9223372036854775808"), ("int", "x"), ("float", "word"), ("float", "1,5"),
     ("bool", "yes"), ("bool", "2"), ("json", "{a: 1}"), ("json", "NaN"), ("json", '{"a": 1, "a": 2}')],
)  # fmt: skip
def test_a_cell_that_does_not_fit_its_declared_type_is_an_error_with_its_line(tmp_path, kind, cell):
    file = tmp_path / "t.tsv"
    file.write_text(f"path\tv\na\t1\n\nb\t{cell}\n")
    with pytest.raises(ConfigError, match=rf"line 4: column 'v': expected .*types: {kind}"):
        by_metadata(file, quotes="none", types={"v": kind})
    pl.DataFrame({"path": ["a", "b"], "v": ["1", cell]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match=rf"row 2: column 'v': expected .*types: {kind}"):
        by_metadata(tmp_path / "t.parquet", types={"v": kind})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("int", [1, None], 1.5), ("int", [1], "2"), ("int", [1], True), ("float", [1, 2.5], "x"), ("bool", [True], "true"),
     ("bool", [1], 2), ("text", ["x", 1, True], [1]), ("int", [1], 1 << 63)],
)  # fmt: skip
def test_values_of_json_lines_fit_their_declared_types_or_the_line_is_named(tmp_path, kind, good, bad):
    file = tmp_path / "t.jsonl"
    lines = [json.dumps({"path": "a", "v": value}) for value in good]
    file.write_text("\n".join(lines))
    by_metadata(file, types={"v": kind})
    file.write_text("\n".join([*lines, json.dumps({"path": "b", "v": bad})]))
    with pytest.raises(ConfigError, match=rf"line {len(good) + 1}: column 'v': expected .*types: {kind}"):
        by_metadata(file, types={"v": kind})


@pytest.mark.parametrize(("kind", "dtype"), [("float", pl.Float64), ("int", pl.Int64), ("bool", pl.Boolean)])
@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_a_column_of_nulls_has_its_declared_type(tmp_path, kind, dtype, name):
    rows = pl.DataFrame({"path": ["a"], "v": [None]})
    (rows.write_ndjson if name.endswith("jsonl") else rows.write_parquet)(tmp_path / name)
    assert by_metadata(tmp_path / name, types={"v": kind}).schema["v"] == dtype


@pytest.mark.parametrize(
    ("kind", "values"), [("int", [1.5]), ("bool", [3]), ("float", [True]), ("int", [[1]]), ("text", [[1]])]
)
def test_values_of_parquet_that_do_not_fit_are_an_error_with_their_row(tmp_path, kind, values):
    pl.DataFrame({"path": ["a"], "v": values}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="row 1: column 'v': expected"):
        by_metadata(tmp_path / "t.parquet", types={"v": kind})


def test_a_declared_column_must_exist_and_paths_stay_text(tmp_path):
    file = written(tmp_path, [["path", "v"], ["1", "2"]])
    with pytest.raises(ConfigError, match="types: there is no column 'w'; the columns are path, v"):
        by_metadata(file, types={"w": "int"})
    with pytest.raises(ConfigError, match="column 'path' holds paths or keys"):
        by_metadata(file, types={"path": "int"})


TWICE = [
    '{"path": "a", "path": "b"}',
    '{"path": "a", "v": {"x": 1, "x": 2}}',
    '{"path": "a", "v": [{"x": 1, "x": 1}]}',
]


@pytest.mark.parametrize("row", TWICE)
def test_a_name_that_is_twice_in_a_json_object_is_an_error_with_its_line(tmp_path, row):
    file = tmp_path / "t.jsonl"
    file.write_text(f'{{"path": "z"}}\n{row}\n')
    with pytest.raises(ConfigError, match=r"line 2: .*the name '(path|x)' twice"):
        by_metadata(file)
