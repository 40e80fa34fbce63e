"""Values of the columns of tars of others, whatever wrote their members, and however samples are divided in tars."""

import json

import pytest

from headrace import StreamingDataset
from headrace.errors import ConfigError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars
from tests.support.foreign_tars import flac
from tests.support.tars import tar_of


def write(folder, number, *jsons):
    """A tar whose samples have these JSON members."""
    names = [f"s{number}{place}" for place in range(len(jsons))]
    files = {f"{name}.flac": flac(1, 400) for name in names}
    files |= {f"{name}.json": json for name, json in zip(names, jsons, strict=True)}
    (folder / f"train-{number}.tar").write_bytes(tar_of(dict(sorted(files.items()))))


def index(folder):
    """Index with columns. Returns the faults."""
    return [one.fault for one in index_tars(str(folder), num_threads=1, columns=True) if one.fault]


def values(folder, name):
    """The type of a column, and its value in each sample."""
    storage = LocalStorage(folder)
    snapshot = read_snapshot(storage.at("tars")).snapshot
    columns, table = fitting_columns(storage.at("columns/metadata"), snapshot), read_table(storage.at("tars"), snapshot)
    tables = [columns.read(table.name(shard)) for shard in range(len(table))]
    kind = next(spec.kind.value for spec in columns.specs if spec.name == name)
    return kind, [table.row(row)[name] for table in tables for row in range(len(table))]


MISSING = {
    "text": (b'"de"', ("string", ["de", None])),
    "whole numbers": (b"9007199254740993", ("int", [9007199254740993, None])),
    "decimals": (b"0.5", ("float", [0.5, None])),
    "booleans": (b"true", ("bool", [True, None])),
    "lists": (b"[1]", ("json", [[1], None])),
}


@pytest.mark.parametrize("missing", [b"NaN", b"-Infinity", b"null"])
@pytest.mark.parametrize(("value", "wanted"), MISSING.values(), ids=MISSING)
def test_nan_is_null_in_a_column_of_any_type(tmp_path, value, wanted, missing):
    write(tmp_path, 0, b'{"a": %s}' % value, b'{"a": %s}' % missing)
    assert not index(tmp_path)
    assert values(tmp_path, "a") == wanted


@pytest.mark.parametrize("first", [b'{"a": null}', b'{"a": NaN}'])
@pytest.mark.parametrize(("value", "wanted"), MISSING.values(), ids=MISSING)
def test_a_column_without_values_takes_the_type_of_the_first_tar_that_has_some(tmp_path, value, wanted, first):
    write(tmp_path, 0, first)
    assert not index(tmp_path)
    write(tmp_path, 1, b'{"a": %s}' % value)
    assert not index(tmp_path)
    kind, found = values(tmp_path, "a")
    assert (kind, found[::-1]) == wanted


def test_a_column_of_text_stays_text_when_numbers_come(tmp_path):
    write(tmp_path, 0, b'{"a": null}')
    write(tmp_path, 1, b'{"a": "x"}')
    assert not index(tmp_path)
    write(tmp_path, 2, b'{"a": 1}')
    assert not index(tmp_path)
    assert values(tmp_path, "a") == ("string", [None, "x", "1"])


@pytest.mark.parametrize("blob", ['{"a": "é"}'.encode("utf-16"), b'{"\\ud800": 1}'], ids=["UTF-16", "name"])
def test_json_that_no_loader_or_no_column_can_hold_is_a_fault(tmp_path, blob):
    write(tmp_path, 0, blob)
    (fault,) = index(tmp_path)
    assert "not a JSON object" in fault or "not valid Unicode" in fault
    assert not (tmp_path / "tars").exists()


TEXTS = [b"hello", b"hello\n", b"hello\r\n", b"\xef\xbb\xbfhello\r\n"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_has_no_line_end_and_no_byte_order_mark(tmp_path, text):
    (tmp_path / "a-0.tar").write_bytes(tar_of({"s.flac": flac(1, 400), "s.txt": text, "s.transcript": text}))
    assert not index(tmp_path)
    (sample,) = StreamingDataset(
        remote=str(tmp_path), batch_size=1, columns=["metadata"], where="text = 'hello' and transcript = 'hello'"
    )
    assert sample["metadata"]["text"] == "hello"


@pytest.mark.parametrize("num_tars", [1, 11])
def test_names_of_single_samples_are_an_error_before_they_fill_the_memory(tmp_path, num_tars):
    for number in range(num_tars):
        jsons = [{f"w{name}": 1} for name in range(number, 2001, num_tars)]
        samples = jsons if num_tars == 1 else [{name: 1 for one in jsons for name in one}]
        write(tmp_path, number, *(json.dumps(one).encode() for one in samples))
    try:
        (fault,) = index(tmp_path)
    except ConfigError as error:
        fault = str(error)
    assert "2,00" in fault
    assert "index them with --into and without --columns" in fault


def test_many_columns_that_each_sample_has_are_no_error(tmp_path):
    write(tmp_path, 0, json.dumps(dict.fromkeys(map(str, range(2100)), 1)).encode())
    assert index(tmp_path) == []
