"""Lines become rows; quotation marks and blank lines hide none."""

import pytest

from headrace.errors import ConfigError
from tests.support.table_forms import by_metadata, written


@pytest.mark.parametrize("blank", ["", "\n", "\r\n"])
def test_line_ends_and_blank_lines_hide_no_rows(tmp_path, blank):
    file = tmp_path / "t.csv"
    end = blank or "\n"
    file.write_bytes(f'path,text\na,"one{end}b,two{end}{blank}c,three"{end}'.encode())
    with pytest.raises(ConfigError, match="lines 2 to"):
        by_metadata(file)


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
