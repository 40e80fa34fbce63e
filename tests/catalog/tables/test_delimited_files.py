"""CSV and TSV files are read with the delimiter and the header that the YAML gives."""

import pytest

from headrace.errors import ConfigError
from tests.support.given_tables import table
from tests.support.table_forms import by_metadata, written


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


def test_a_csv_column_gets_the_type_that_fits_all_its_cells(tmp_path):
    found = table(tmp_path, "m.csv", 'path,title,bpm,gain,live\na.wav,"x, ""y""",120,-0.5,true\nb.wav,,,1,FALSE\n')
    assert found.to_dicts() == [
        {"path": "a.wav", "title": 'x, "y"', "bpm": 120, "gain": -0.5, "live": True},
        {"path": "b.wav", "title": None, "bpm": None, "gain": 1.0, "live": False},
    ]


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path):
    assert table(tmp_path, "m.csv", b"\xef\xbb\xbfpath,n\r\na.wav,1\r\n\r\n").to_dicts() == [{"path": "a.wav", "n": 1}]


def test_tabs_separate_the_cells_of_a_tsv(tmp_path):
    assert table(tmp_path, "m.tsv", "path\ttitle\na\tx, y\n").rows() == [("a", "x, y")]


def test_line_breaks_in_quotes_belong_to_the_cell(tmp_path):
    assert table(tmp_path, "m.csv", 'path,text\na,"one\ntwo"\n').rows() == [("a", "one\ntwo")]
