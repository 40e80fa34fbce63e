"""Tests of `headrace.catalog.tables.json_lines`."""

import json
from unittest import mock

import pytest

from headrace.catalog.rows.metadata_columns import metadata_dicts
from headrace.catalog.tables import json_lines
from headrace.catalog.tables.declared_types import is_intervals
from headrace.catalog.tables.metadata_files import in_memory, open_metadata, open_metadata_files, read_metadata
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError, StorageError
from tests.support.given_tables import table


def test_a_full_temporary_folder_is_said_for_a_file_of_lines(tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_text('{"path": "a.wav", "n": NaN}\n')
    with (
        mock.patch.object(json_lines.tempfile, "NamedTemporaryFile", side_effect=OSError(28, "No space left")),
        pytest.raises(StorageError, match=r"^temporary folder .*No space left.*TMPDIR"),
    ):
        open_metadata(file)


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


def test_nan_in_lists_and_objects_of_json_lines_is_null(tmp_path):
    found = table(tmp_path, "m.jsonl", '{"path": "a", "l": [NaN, 1.5], "o": {"x": Infinity, "y": 2}}\n')
    assert found.select("l", "o").row(0) == ([None, 1.5], {"x": None, "y": 2})


def test_objects_without_any_name_are_null_so_that_they_can_be_stored(tmp_path):
    found = table(tmp_path, "m.jsonl", '{"path": "a", "o": {}, "l": [{}], "in": {"o": {}}, "n": 1}\n')
    assert found.row(0, named=True) == {"path": "a", "o": None, "l": [None], "in": {"o": None}, "n": 1}
    found.write_parquet(tmp_path / "stored.parquet")


def test_a_list_with_half_of_a_surrogate_pair_stays_text(tmp_path):
    assert table(tmp_path, "m.csv", 'path,l\na,"[""\\ud83d""]"\n')["l"].to_list() == ['["\\ud83d"]']


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


LONG = 2**64 - 1
"""A whole number of more than 64 bits with a sign, such as a MinHash."""


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "nan"])
@pytest.mark.parametrize(
    "values",
    [
        [[LONG, 1], [-1]],
        [[1], [LONG, -LONG]],
        [[[LONG], [1]], None],
        [[{"h": LONG}, {"h": 1}], [{"h": None}]],
        [{"h": [LONG, 1]}, {"h": [2]}],
        [{"h": LONG}, {"h": 1}],
    ],
)
def test_long_whole_numbers_beside_others_stay_numbers(tmp_path, form, values):
    rows = [{"path": f"{number}.wav", "v": value, "x": 0.5} for number, value in enumerate(values)]
    if form == "json":
        file, content = "m.json", json.dumps(rows)
    elif form == "csv":
        cells = [f"{row['path']}\t{json.dumps(row['v']) if row['v'] else ''}\n" for row in rows]
        file, content = "m.tsv", "path\tv\n" + "".join(cells)
    else:
        rows[0]["x"] = float("nan") if form == "nan" else 0.5  # polars cannot read such a line by itself
        file, content = "m.jsonl", "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / file).write_text(content)
    types = {"quotes": "none", "types": {"v": "json"}} if form == "csv" else {}
    assert read_metadata(tmp_path / file, form=TableConfig(**types))["v"].to_list() == values


def test_long_whole_numbers_beside_fractions_are_an_error_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"m\.jsonl: .*0\.5"):
        table(tmp_path, "m.jsonl", f'{{"path": "a", "v": [{LONG}, 0.5]}}\n')


TEXTS = {
    "1": "1", "2.5": "2.5", "2.0": "2.0", "9007199254740993": "9007199254740993", "1e-7": "1e-07", "true": "true",
    '"007"': "007", "null": None,
}  # fmt: skip
"""A value of JSON Lines → the value of a column of text."""


@pytest.mark.parametrize("column", ["path", "key", "declared"])
@pytest.mark.parametrize(("value", "text"), TEXTS.items())
def test_a_number_in_a_column_of_text_is_the_same_text_beside_any_other(tmp_path, column, value, text):
    form = TableConfig(types={"declared": "text"})
    others = ", ".join(f'"{name}": "x"' for name in {"path", "key", "declared"} - {column})
    for other, its_text in TEXTS.items():
        lines = [f'{{{others}, "{column}": {one}}}\n' for one in (value, other)]
        (tmp_path / "m.jsonl").write_text("".join(lines))
        assert read_metadata(tmp_path / "m.jsonl", form=form)[column].to_list() == [text, its_text], other


WIDE = [{"path": f"{number:03d}", "of": {f"w{number}": [number, "x"]}} for number in range(201)]
LISTS = [{"path": f"{number:03d}", "of": [{f"w{number}": number}, {}, None]} for number in range(201)]


@pytest.mark.parametrize("rows", [WIDE, LISTS])
@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_objects_of_many_names_stay_as_they_are(tmp_path, rows, form):
    """Columns of a table would be as many values as the square of their number."""
    file, empty = tmp_path / f"m.{form}", [{"path": "x", "of": None}]
    if form == "csv":
        text = "path\tof\n" + "".join(f"{row['path']}\t{json.dumps(row['of'])}\n" for row in rows) + "x\t\n"
    else:
        text = json.dumps(rows + empty) if form == "json" else "\n".join(map(json.dumps, rows + empty))
    file.write_text(text)
    config = TableConfig(quotes="none", delimiter="\t", types={"of": "json"}) if form == "csv" else TableConfig()
    found = metadata_dicts(read_metadata(file, form=config))
    lost = None if form == "csv" else {}  # as polars has no empty objects
    wanted = [[lost if one == {} else one for one in row["of"]] if rows is LISTS else row["of"] for row in rows]
    assert [row["of"] for row in found] == [*wanted, None]


def test_an_object_of_as_many_names_as_are_columns_has_those_of_all_rows(tmp_path):
    rows = "\n".join(map(json.dumps, WIDE[1:])).replace(', "x"', "")
    (first, *_) = metadata_dicts(table(tmp_path, "m.jsonl", rows))
    assert first["of"] == {f"w{number}": [1] if number == 1 else None for number in range(1, 201)}


@pytest.mark.parametrize("rows", [WIDE, LISTS])
@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_files_with_few_and_with_many_names_are_one_table(tmp_path, rows, form):
    few = [{"path": "few", "of": {"w0": [1], "v": 2}} if rows is WIDE else {"path": "few", "of": [{"w0": 1}]}]
    for name, of_file in {"few": few, "many": rows}.items():
        lines = map(json.dumps, of_file)
        if form == "tsv":
            lines = ["path\tof", *(f"{row['path']}\t{json.dumps(row['of'])}" for row in of_file)]
        (tmp_path / f"{name}.{form}").write_text("\n".join(lines))
    files = [(tmp_path / name, name) for name in (f"few.{form}", f"many.{form}")]
    config = TableConfig(quotes="none", types={"of": "json"}) if form == "tsv" else TableConfig()
    found = metadata_dicts(in_memory(open_metadata_files(files, form=config)))
    wanted = [row["of"] for row in few + rows]
    if form == "tsv" and rows is LISTS:
        wanted = [[None if one == {} else one for one in value] for value in wanted]
    assert [row["of"] for row in found] == wanted


def test_a_list_beside_an_object_of_many_names_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="column 'of' is an object in line 1 and a list in line 202"):
        table(tmp_path, "m.jsonl", "\n".join(map(json.dumps, [*WIDE, {"path": "x", "of": [1]}])))


def test_a_column_of_intervals_is_never_of_many_names(tmp_path):
    rows = [{"path": "a", "of": [{"start": 0, "end": 1, f"w{number}": 1} for number in range(300)]}]
    file = tmp_path / "m.jsonl"
    file.write_text(json.dumps(rows[0]))
    assert is_intervals(read_metadata(file, form=TableConfig(types={"of": "intervals"})).schema["of"])


def test_columns_of_single_rows_are_an_error_before_they_fill_the_memory(tmp_path):
    rows = "\n".join(json.dumps({"path": "a", f"w{number}": 1}) for number in range(2100))
    with pytest.raises(
        ConfigError, match=r"2,101 names \('w2099' is one\), of which a row has 2 on average.*one object"
    ):
        table(tmp_path, "m.jsonl", rows)


def test_many_columns_that_each_row_has_are_no_error(tmp_path):
    rows = "\n".join(json.dumps({"path": path, **dict.fromkeys(map(str, range(2100)), 1)}) for path in "ab")
    assert len(table(tmp_path, "m.jsonl", rows).columns) == 2101


def test_names_whose_values_are_null_and_names_in_several_places_count(tmp_path):
    nulls = [{"path": f"{number}", "of": {f"w{number}": None}} for number in range(201)]
    nested = [{"path": f"{n}", "of": {f"a{n % 150}": {f"b{m}": {"c": n} for m in range(14)}}} for n in range(150)]
    for rows in (nulls, nested):
        found = metadata_dicts(table(tmp_path, "m.jsonl", "\n".join(map(json.dumps, rows))))
        assert [row["of"] for row in found] == [row["of"] for row in rows]


def test_the_name_of_what_is_kept_as_json_is_no_name_of_a_user(tmp_path):
    with pytest.raises(ConfigError, match=r"line 1: the name .* is Headrace's own"):
        table(tmp_path, "m.jsonl", json.dumps({"path": "a", "of": {"\0json": 1}}))
