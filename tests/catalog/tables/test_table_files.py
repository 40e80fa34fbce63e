"""A metadata table of several files: one schema, one order, and messages that name file and line."""

import gzip
import itertools
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.tables.cell_types import typed
from headrace.catalog.tables.metadata_files import in_memory, open_metadata_files, read_metadata, with_origins
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError

FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")


def write(folder, name, rows):
    """Write rows (dictionaries of JSON values) as the format that the name says."""
    file, kind = folder / name, name.rpartition(".")[2]
    if kind == "json":
        file.write_text(json.dumps(rows, indent=1))
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        pl.DataFrame(rows).write_parquet(file)
    else:
        pl.DataFrame(rows).write_csv(file, separator="\t" if kind == "tsv" else ",")
    return file


def opened(*files, **asked):
    form = TableConfig(**asked.pop("form", {}))
    return open_metadata_files([(file, file.name) for file in files], form=form, **asked)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(FORMATS, FORMATS)))
def test_files_of_all_formats_are_one_table_and_lacking_columns_are_null(tmp_path, one, other):
    files = [
        write(tmp_path, f"a.{one}", [{"path": "a.wav", "n": 1, "only": "x"}, {"path": "b.wav", "n": 2, "only": "y"}]),
        write(tmp_path, f"b.{other}", [{"path": "c.wav", "n": 2.5}]),
    ]
    table = opened(*files)
    assert table.schema == pl.Schema({"path": pl.String, "n": pl.Float64, "only": pl.String})
    assert in_memory(table).rows() == [("a.wav", 1.0, "x"), ("b.wav", 2.0, "y"), ("c.wav", 2.5, None)]


@pytest.mark.parametrize(
    ("kind", "lines", "unit"),
    [("csv", [2, 3], "line"), ("jsonl", [1, 2], "line"), ("json", [1, 2], "row"), ("parquet", [1, 2], "row")],
)
def test_rows_know_their_file_and_their_line(tmp_path, kind, lines, unit):
    rows = [{"path": "a.wav", "n": 1}, {"path": "b.wav", "n": 2}]
    table = opened(write(tmp_path, f"x.{kind}", rows), write(tmp_path, f"y.{kind}", rows))
    origins = [origin for _, origin in with_origins(table)]
    assert [(origin.file.shown, origin.file.stem, origin.unit, origin.lines.to_list()) for origin in origins] == [
        (f"{name}.{kind}", name, unit, lines) for name in "xy"
    ]


@pytest.mark.parametrize(
    ("name", "text", "numbers"),
    [
        ("a.csv", 'path,t\n\na,"x\ny"\nb,z\n', [3, 5]),  # a blank line, and a cell over two lines
        ("a.jsonl", '\n{"path": "a"}\n\n{"path": "b"}\n', [2, 4]),
        ("a.json", '[{"path": "a"},\n\n{"path": "b"}]', [1, 2]),
    ],
)
def test_lines_are_those_of_the_file(tmp_path, name, text, numbers):
    (tmp_path / name).write_text(text)
    ((batch, origin),) = with_origins(opened(tmp_path / name))
    assert (batch["path"].to_list(), origin.lines.to_list()) == (["a", "b"], numbers)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((["1", "2"], ["3"]), [1, 2, 3]),
        ((["1", "2"], ["2.50"]), [1.0, 2.0, 2.5]),
        ((["1.10"], ["x"]), ["1.10", "x"]),  # the digits of the first file stay
        ((["true"], ["", "false"]), [True, None, False]),
        ((["", ""], ["7"]), [None, None, 7]),  # no value says nothing
        ((["[1, 2]"], ["[0.5]"]), [[1.0, 2.0], [0.5]]),
        ((["[1, 2]"], ["x"]), ["[1, 2]", "x"]),
        ((["", ""], [""]), [None, None, None]),
    ],
)
def test_a_column_of_several_csv_files_has_the_type_of_all_of_its_cells(tmp_path, cells, expected):
    files = []
    for number, column in enumerate(cells):
        files.append(tmp_path / f"{number}.tsv")
        files[-1].write_text("".join(f"{line}\n" for line in ["path\tv", *(f"p\t{cell}" for cell in column)]))
    assert in_memory(opened(*files))["v"].to_list() == expected


@pytest.mark.medium
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(["1", "-2", "0.5", "1e3", "007", "true", "", "[1]", "[]", "x"]), min_size=1, max_size=3
        ),
        min_size=1,
        max_size=3,
    )
)
def test_several_files_have_the_types_of_one_file_with_all_lines(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("t")
    files = []
    for number, column in enumerate(cells):
        files.append(folder / f"{number}.tsv")
        files[-1].write_text("".join(f"{line}\n" for line in ["path\tv", *(f"p\t{cell}" for cell in column)]))
    whole = typed(pl.Series("v", list(itertools.chain(*cells))))
    assert in_memory(opened(*files))["v"].to_list() == whole.to_list()


@pytest.mark.parametrize("first", ["csv", "jsonl"])
def test_cells_of_text_may_be_read_as_text_if_another_file_has_text(tmp_path, first):
    one = write(tmp_path, f"a.{first}", [{"path": "a", "v": 1}])
    other = write(tmp_path, "b.jsonl", [{"path": "b", "v": "x"}])
    if first == "csv":
        assert in_memory(opened(one, other))["v"].to_list() == ["1", "x"]
    else:
        with pytest.raises(ConfigError, match=r"b\.jsonl: column 'v' is text, but a number in metadata table a\.jsonl"):
            opened(one, other)
        assert in_memory(opened(one, other, form={"types": {"v": "text"}}))["v"].to_list() == ["1", "x"]


EMPTY = {
    "csv": ("", "\ufeff", "path,n\n", "\n\n"),
    "jsonl": ("", "\n \n"),
    "json": ("[]", " [ ]\n", ""),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("kind", "content"), [(kind, one) for kind, contents in EMPTY.items() for one in contents])
def test_a_file_without_rows_adds_none_to_the_others_and_is_no_table_alone(tmp_path, kind, content, packed):
    empty = tmp_path / (f"a.{kind}.gz" if packed else f"a.{kind}")
    empty.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    full = write(tmp_path, "b.jsonl", [{"path": "b", "n": 1}])
    for files in ((empty, full), (full, empty)):
        assert in_memory(opened(*files)).rows(named=True) == [{"path": "b", "n": 1}]
        assert [origin.file.shown for _, origin in with_origins(opened(*files))] == ["b.jsonl"]
    if "n" in content.replace("\n", ""):
        assert in_memory(opened(empty)).rows() == []
    else:
        with pytest.raises(ConfigError, match=r"a\.\w+.*there is no row, so nobody knows its columns"):
            opened(empty)


def test_rows_without_any_name_are_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n\n{}\n")
    full = write(tmp_path, "b.jsonl", [{"path": "b"}])
    ((rows, origin), _) = with_origins(opened(tmp_path / "a.jsonl", full))
    assert (rows.rows(), origin.lines.to_list()) == ([(None,), (None,)], [1, 3])


def test_objects_have_the_names_of_all_files(tmp_path):
    one = write(tmp_path, "a.jsonl", [{"path": "a", "o": {"x": 1}}])
    other = write(tmp_path, "b.jsonl", [{"path": "b", "o": {"y": "z"}}])
    assert in_memory(opened(one, other))["o"].to_list() == [{"x": 1, "y": None}, {"x": None, "y": "z"}]


def test_paths_are_text_in_every_file(tmp_path):
    one = write(tmp_path, "a.jsonl", [{"path": 1, "key": 2}])
    other = write(tmp_path, "b.csv", [{"path": "007", "key": "k"}])
    assert in_memory(opened(one, other)).rows() == [("1", "2"), ("007", "k")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"path": "a"}, {"path": "b"}', "not a valid array of JSON: .*expected , or"),
        ('[{"path": "a"} {"path": "b"}]', "expected , or"),
        ('[{"path": "a"}] x', "text after the array"),
        ('[{"path": "a"}, 7]', "row 2: expected one JSON object"),
        ("[]", "there is no row"),
        ('[{"path": "a", "v": 1}, {"path": "b", "v": "x"}]', "a number in row 1 and text in row 2"),
        ('[{"path": "a", "path": "b"}]', "row 1: .*the name 'path' twice"),
    ],
)
def test_an_array_that_is_no_table_is_an_error_that_names_file_and_row(tmp_path, text, message):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ConfigError, match=rf"t\.json.*{message}"):
        read_metadata(tmp_path / "t.json")


def test_an_array_may_be_compressed_and_begin_with_a_mark_and_spaces(tmp_path):
    text = '\ufeff \n[ {"path": "ä"} ,\r\n{"path"\n:"b", "n": [1,\n2]} ]\n'
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text.encode()))
    assert read_metadata(tmp_path / "t.json.gz").rows() == [("ä", None), ("b", [1, 2])]


@pytest.mark.parametrize("separator", [" ", "|", "\t"])
def test_a_file_of_any_name_is_text_if_its_delimiter_or_header_is_given(tmp_path, separator):
    (tmp_path / "84-121123.trans.txt").write_text(f"a{separator}one\nb{separator}two\n")
    form = {"delimiter": separator, "header": ["path", "text"]}
    assert in_memory(opened(tmp_path / "84-121123.trans.txt", form=form)).rows() == [("a", "one"), ("b", "two")]


def test_the_rest_of_a_line_and_an_empty_rest(tmp_path):
    (tmp_path / "a.trans.txt").write_text("84-0 GO  ON\tNOW \n84-1\n\n84-2 x\n")
    form = {"delimiter": " ", "header": ["path", "text"]}
    assert in_memory(opened(tmp_path / "a.trans.txt", form=form)).rows() == [
        ("84-0", "GO  ON\tNOW "), ("84-1", None), ("84-2", "x")
    ]  # fmt: skip


def test_an_error_of_one_file_names_it(tmp_path):
    good = write(tmp_path, "a.csv", [{"path": "a"}])
    (tmp_path / "b.csv").write_text("path,n\na\n")
    with pytest.raises(ConfigError, match=r"metadata table b\.csv, line 2: 1 cells"):
        opened(good, tmp_path / "b.csv")
