"""`source.where`: rows that are left out before anything else, with the files that only they name."""

import polars as pl
import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.header import read_stamps
from headrace.catalog.stored.update import update_catalog, why_no_recordings
from headrace.catalog.tables.metadata_files import read_metadata
from headrace.config.dataset import DatasetConfig
from headrace.config.source import ColumnsConfig
from headrace.errors import ConfigError
from headrace.sources.source_changes import GradualListing
from headrace.sources.sources import open_source
from headrace.stores.storage import open_storage
from tests.support.catalog_fakes import NOW_NS, FakeSource, fake_runtime

ROWS = [  # path, another audio file, the condition's column
    ("a.wav", "v/a.wav", 1),
    ("b.wav", "v/b.wav", 0),
    ("c.wav", "v/c.wav", None),
    ("bad.wav", "v/bad.wav", 0),
    ("gone.wav", "v/gone.wav", 0),
    ("e\u0301.wav", "v/a.wav", 0),
    ("d.wav", "v/d.wav", 1),
    ("/elsewhere/f.wav", "", 0),
]
TABLE = pl.DataFrame(ROWS, schema={"path": pl.String, "voice": pl.String, "ok": pl.Int64}, orient="row")
FIELDS = {"mix": "path", "voice": "voice"}
KINDS = {"files": {}, "rows": {"samples": "rows"}, "fields": {"samples": "rows", "fields": FIELDS}}


def source_of(*left_out):
    fake = FakeSource()
    for name in ("a.wav", "b.wav", "c.wav", "d.wav", "\u00e9.wav", "unnamed.wav"):
        fake.put(name, f"{name:>20}".encode())
        fake.put(f"v/{name}", f"{'v/' + name:>20}".encode())
    fake.put("bad.wav", b"bad")
    fake.put("v/bad.wav", b"bad")
    for name in left_out:
        del fake.files[name]
    return fake


def scanned(source=None, table=TABLE, where="ok = 1", kind="rows", previous=None, **runtime):
    asked = CatalogSettings(settle_seconds=0, where=where, **KINDS[kind])
    found = scan(source or source_of(), previous, asked, table, fake_runtime(**runtime))
    lost = {origin: found.rejected.filter(pl.col("origin") == origin).height for origin in ("file", "metadata")}
    assert found.num_found == found.num_used + lost["file"] + found.num_unsettled + found.num_left_out_files
    if kind != "files":
        accepted = found.num_recordings + found.num_merged_rows + found.num_waiting_rows + found.num_left_out_rows
        assert found.num_rows == accepted + lost["metadata"]
    return found


LEFT_OUT = {
    "files": ("b.wav", "c.wav", "bad.wav", "\u00e9.wav"),
    "rows": ("b.wav", "c.wav", "bad.wav", "\u00e9.wav"),
    "fields": ("b.wav", "c.wav", "bad.wav", "\u00e9.wav", "v/b.wav", "v/c.wav", "v/bad.wav"),
}


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table_bytes", [1 << 20, 300])
def test_a_scan_with_a_condition_is_one_without_the_rows_and_the_files_of_these(kind, table_bytes):
    """By number of rows in reasons, and by numbers of files and rows, both differ."""
    found = scanned(kind=kind, table_bytes=table_bytes)
    expected = scanned(source_of(*LEFT_OUT[kind]), TABLE.filter(pl.col("ok") == 1), None, kind)
    without_numbers = pl.col("reason").str.replace(r"^row \d+ ", "")
    assert found.recordings.drop("ok").sort("key").rows() == expected.recordings.drop("ok").sort("key").rows()
    assert found.rejected.with_columns(without_numbers).rows() == expected.rejected.with_columns(without_numbers).rows()
    assert (found.num_rows, found.num_left_out_rows) == (8, 6)
    assert found.num_left_out_files == len(LEFT_OUT[kind])


def test_a_recording_without_a_row_is_kept_and_one_whose_row_is_left_out_is_not():
    found = scanned(kind="files")
    paths = set(found.recordings["path"])
    assert {"a.wav", "d.wav", "unnamed.wav"} <= paths
    assert not paths & {"b.wav", "c.wav", "\u00e9.wav"}
    assert found.rejected["path"].to_list() == ["v/bad.wav"]


def test_a_file_that_a_chosen_row_names_too_is_not_left_out():
    table = pl.DataFrame({"path": ["a.wav"] * 2 + ["b.wav"] * 2, "start": [0.0, 0.5] * 2, "ok": [0, 1, 0, 0]})
    found = scanned(table=table)
    assert found.recordings.select("path", "start_frame").rows() == [("a.wav", 5)]
    assert "a.wav" not in set(found.rejected["path"])
    assert "b.wav" not in set(found.rejected["path"])


@pytest.mark.medium
def test_files_that_are_left_out_are_not_opened_in_this_scan_nor_in_the_next():
    source = source_of()
    first = scanned(source)
    assert not {"b.wav", "bad.wav"} & set(source.opened)
    again = scanned(source, previous=first.catalog)
    assert again.num_opened == 0
    relaxed = scanned(source, where="ok < 5", previous=first.catalog)
    assert set(relaxed.recordings["path"]) == {"a.wav", "b.wav", "d.wav", "\u00e9.wav"}


def test_reasons_name_the_rows_of_the_file():
    table = pl.DataFrame({"path": ["a.wav", "b.wav", "gone.wav"], "ok": [0, 0, 1]})
    reasons = scanned(table=table, kind="files").rejected.filter(pl.col("path") == "gone.wav")["reason"]
    assert reasons.item() == "row 3 of the metadata table names no file of the source"


def test_rows_that_are_left_out_may_differ_or_have_two_ends():
    table = pl.DataFrame(
        {"path": ["a.wav"] * 2, "start": [0.0, 0.0], "end": [1.0, 1.0], "duration": [1.0, None], "ok": [0, 1]}
    )
    assert scanned(table=table, where="duration is null").num_recordings == 1
    assert scanned(table=table, kind="files").recordings["ok"].drop_nulls().to_list() == [1]


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("_skipme is null or _skipme = 0", {"b.wav", "c.wav"}),
        ("lang = 'de' and _skipme is null", {"c.wav"}),
        ('"two words" > 1.5', {"b.wav"}),
        ("path like 'a%'", {"a.wav"}),
        ("tags like '%1%'", {"a.wav"}),
    ],
)
def test_a_condition_is_about_the_tables_own_columns(tmp_path, where, chosen):
    file = tmp_path / "t.jsonl"
    file.write_text(
        '{"path": "a.wav", "_skipme": 1, "lang": "de", "two words": 1, "tags": [1], "sha256": "x"}\n'
        '{"path": "b.wav", "_skipme": 0, "lang": "de", "two words": 2}\n{"path": "c.wav", "lang": "de"}\n'
    )
    assert set(scanned(table=read_metadata(file), where=where).recordings["path"]) == chosen
    renamed = read_metadata(file, path_column="path").rename({"path": "audio_filepath"})
    asked = CatalogSettings(
        settle_seconds=0, samples="rows", columns=ColumnsConfig(path="audio_filepath"), where="sha256 = 'x'"
    )
    assert scan(source_of(), None, asked, renamed, fake_runtime()).recordings["path"].to_list() == ["a.wav"]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("okay = 1", r"source.where: where 'okay = 1': no column okay; did you mean ok"),
        ("ok", "not true or false"),
        ("num_frames > 3", "no column num_frames"),
        ("ok = ", "source.where"),
        ("ok = 'x' + 1", "source.where"),
    ],
)
def test_a_wrong_condition_is_an_error_before_a_file_is_opened(where, words):
    source = source_of()
    with pytest.raises(ConfigError, match=words):
        scanned(source, where=where)
    assert source.opened == []


def config_of(**source):
    return DatasetConfig(
        name="chosen",
        source={"uri": "fake", "metadata": "t.csv", "settle_seconds": 0, **source},
        output={"uri": "memory://"},
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_catalog_knows_the_files_that_are_left_out_so_that_no_sensor_takes_them_for_new(kind):
    source, output = source_of(), open_storage("memory://")
    _, header = update_catalog(config_of(where="ok = 1", **KINDS[kind]), source, TABLE, output, fake_runtime())
    assert read_stamps(output, header).equals(GradualListing(source).go_on(60.0))


def test_the_stamps_of_files_that_are_left_out_are_those_of_a_folders_listing(tmp_path):
    """With the change time of the inode, which a listing of a folder has."""
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_bytes(b"x" * 20)
    source, output = open_source(tmp_path), open_storage("memory://")
    table = pl.DataFrame({"path": ["a.wav", "b.wav"], "ok": [1, 0]})
    runtime = fake_runtime(clock=lambda: 2 * NOW_NS)
    found, header = update_catalog(config_of(where="ok = 1"), source, table, output, runtime)
    assert found.num_left_out_files == 1
    assert read_stamps(output, header).equals(GradualListing(source).go_on(60.0))


@pytest.mark.parametrize("samples", ["files", "rows"])
def test_a_condition_that_leaves_out_everything_is_named(samples):
    source, output = FakeSource(), open_storage("memory://")
    source.put("a.wav", b"x" * 20)
    table = pl.DataFrame({"path": ["a.wav"], "ok": [0]})
    found, _ = update_catalog(config_of(where="ok = 1", samples=samples), source, table, output, fake_runtime())
    assert "source.where leaves out the rows of all 1 files" in why_no_recordings(found, "fake")


def test_a_condition_needs_a_table():
    with pytest.raises(ValueError, match="where needs metadata"):
        config_of(metadata=None, where="ok = 1")
    with pytest.raises(ValueError, match="where"):
        config_of(where=" ")
