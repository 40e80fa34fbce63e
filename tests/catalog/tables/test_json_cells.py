"""Values of JSON Lines have declared types, and objects have each name once."""

import json

import pytest

from headrace.errors import ConfigError
from tests.support.table_forms import by_metadata


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


@pytest.mark.parametrize("values", [[True, 0], [0, None, True], [1.0, False, 1]])
def test_true_and_1_are_values_of_one_declared_column(tmp_path, values):
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(json.dumps({"path": str(row), "v": value}) for row, value in enumerate(values)))
    found = by_metadata(file, types={"v": "bool"})
    assert found["v"].to_list() == [None if value is None else bool(value) for value in values]


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
