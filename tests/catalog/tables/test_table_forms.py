"""Forms of a user's table: quotation marks, delimiters, headers, declared types; at every door that reads tables."""

import gzip
import io
import tempfile

import polars as pl
import pytest
import zstandard

from headrace.catalog.tables.metadata_files import read_keys
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError
from tests.support.table_forms import by_columns, by_metadata, written

SENTENCES = ("plain", '"Hello there', "middle one", "middle two", 'said he."')


DOORS = {"metadata": by_metadata, "columns": by_columns}


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


def test_a_declared_column_must_exist_and_paths_stay_text(tmp_path):
    file = written(tmp_path, [["path", "v"], ["1", "2"]])
    with pytest.raises(ConfigError, match="types: there is no column 'w'; the columns are path, v"):
        by_metadata(file, types={"w": "int"})
    with pytest.raises(ConfigError, match=r"types, or source\.rows: there is no column 'turns'"):
        by_metadata(file, types={"turns": "intervals"})
    with pytest.raises(ConfigError, match="column 'path' holds paths or keys"):
        by_metadata(file, types={"path": "int"})
