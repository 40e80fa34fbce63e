"""URIs in a data set's YAML resolve to folders."""

import io
import itertools
import tempfile

import polars as pl
import pytest

from headrace.assemble.dataset_stores import DatasetStores
from headrace.catalog.tables.metadata_files import in_memory
from headrace.config.dataset import DatasetConfig
from headrace.errors import ConfigError
from headrace.stores.storage import open_storage
from tests.support.s3 import new_bucket


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return DatasetStores(str(tmp_path / "root"))


def test_relative_paths_are_resolved_below_the_root_and_urls_are_unchanged(storage, tmp_path):
    assert storage.resolve("data/birds") == str(tmp_path / "root/data/birds")
    assert storage.resolve("/data/birds") == "/data/birds"
    assert storage.resolve("s3://bucket/~/birds") == "s3://bucket/~/birds"
    assert storage.resolve("./~") == str(tmp_path / "root/~")


def test_a_tilde_is_the_home_folder_in_source_metadata_and_output(storage, tmp_path):
    home = tmp_path / "home"
    (home / "birds").mkdir(parents=True)
    (home / "birds.csv").write_text("path,title\na.wav,A\n")
    source = {"uri": "~/birds", "metadata": "~/birds.csv"}
    config = DatasetConfig(name="birds", source=source, output={"uri": "~/out"})
    assert storage.output(config).uri == str(home / "out")
    assert sum(batch.height for batch in storage.metadata(config).batches()) == 1
    assert storage.table_stamps(config)["~/birds.csv"] is not None
    storage.source(config)
    assert not (tmp_path / "root").exists()


def test_file_urls_are_local_paths_and_what_they_name_is_not_a_recording(storage, tmp_path):
    """A `file://` URL may name the output and tables inside of a source that is named by a path, and the reverse."""
    folder = tmp_path / "my birds [1]"
    (folder / "out").mkdir(parents=True)
    (folder / "a.wav").write_bytes(b"x")
    (folder / "out/b.flac").write_bytes(b"x")
    (folder / "birds.csv").write_text("path,title\na.wav,A\n")
    url = f"file://{tmp_path}/my%20birds%20[1]"
    for source, other in ((str(folder), url), (url, str(folder)), (folder.as_uri(), url)):
        given = {"uri": source, "metadata": f"{other}/birds.csv"}
        config = DatasetConfig(name="birds", source=given, output={"uri": f"{other}/out"})
        assert [path for chunk in storage.source(config).list() for path in chunk.path] == ["a.wav"]
        assert sum(batch.height for batch in storage.metadata(config).batches()) == 1
        assert storage.output(config).uri == str(folder / "out")


def test_a_table_of_keys_is_resolved_like_the_metadata_and_is_not_a_recording(storage, tmp_path):
    folder = tmp_path / "root/birds"
    folder.mkdir(parents=True)
    (folder / "keys.csv").write_text("key\na\nb\n")
    (folder / "a.wav").write_bytes(b"x")
    config = DatasetConfig(name="birds", source={"uri": "birds"}, exclude="birds/keys.csv", output={"uri": "out"})
    assert storage.excluded(config) == {"a", "b"}
    assert [path for chunk in storage.source(config).list() for path in chunk.path] == ["a.wav"]
    before = storage.table_stamps(config)
    (folder / "keys.csv").write_text("key\na\n")
    assert storage.table_stamps(config) != before
    listed = config.model_copy(update={"exclude": ("c",)})
    assert (storage.excluded(listed), storage.table_stamps(listed)) == ({"c"}, {})


def test_every_table_of_the_yaml_is_read_as_its_section_says(storage, tmp_path):
    """`source.table` for the metadata, and the same keys beside `uri` for `exclude` and `columns`."""
    folder = tmp_path / "root"
    folder.mkdir()
    odd = '"Hello there\t1\nb\tso it is."\t2\nc\t"A" and "B"\t3\n'
    for name, column in (("m", "path"), ("k", "key"), ("c", "utt")):
        (folder / f"{name}.txt").write_text(f"{column}\ttext\tn\na\t{odd}")
    form = {"format": "tsv", "quotes": "none", "types": {"n": "text"}}
    config = DatasetConfig(
        name="odd",
        source={"uri": "birds", "metadata": "m.txt", "table": form},
        exclude={"uri": "k.txt", **form},
        columns=[{"name": "c", "table": {"uri": "c.txt", **form}, "key": "utt"}],
        output={"uri": "out"},
    )
    assert storage.excluded(config) == {"a", "b", "c"}
    for table in (storage.metadata(config), storage.column_table(config.columns[0])):
        (batch,) = table.batches()
        assert batch.rows() == [
            ("a", '"Hello there', "1"),
            ("b", 'so it is."', "2"),
            ("c", '"A" and "B"', "3"),
        ]
    assert set(storage.table_stamps(config)) == {"m.txt", "k.txt", "c.txt"}
    assert storage.has_table(config.columns[0])
    (folder / "c.txt").unlink()
    assert not storage.has_table(config.columns[0])


@pytest.mark.medium
def test_tables_in_a_bucket_are_read_and_errors_name_their_url(s3_server, monkeypatch, storage):
    bucket = new_bucket(s3_server, monkeypatch)
    source = {"uri": f"{bucket}/birds", "metadata": f"{bucket}/t/birds.csv"}
    config = DatasetConfig(name="birds", source=source, exclude=f"{bucket}/t/keys.jsonl", output={"uri": "out"})
    with pytest.raises(ConfigError, match=rf"table of keys {bucket}/t/keys\.jsonl: no such object"):
        storage.excluded(config)
    assert set(storage.table_stamps(config).values()) == {None}
    open_storage(f"{bucket}/t").write("keys.jsonl", b'{"key": "a"}\n')
    open_storage(f"{bucket}/t").write("birds.csv", b"title\nx\n")
    assert storage.excluded(config) == {"a"}
    with pytest.raises(ConfigError, match=rf"metadata table {bucket}/t/birds\.csv: has no column 'path'"):
        storage.metadata(config)
    assert None not in storage.table_stamps(config).values()


def test_the_error_about_the_home_folder_of_an_unknown_user_says_what_to_do(storage):
    with pytest.raises(ConfigError, match=r"no home folder of ~no-such-user; .* or \./~no-such-user/x"):
        storage.resolve("~no-such-user/x")


def test_a_parquet_table_in_a_bucket_is_copied_for_as_long_as_it_is_used(s3_server, monkeypatch, storage, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bucket = new_bucket(s3_server, monkeypatch)
    source = {"uri": f"{bucket}/birds", "metadata": f"{bucket}/t/birds.parquet"}
    config = DatasetConfig(name="birds", source=source, output={"uri": "out"})
    file = io.BytesIO()
    pl.DataFrame({"path": ["a.wav", "b.wav"]}).write_parquet(file)
    open_storage(f"{bucket}/t").write("birds.parquet", file.getvalue())
    table = storage.metadata(config)
    for _ in range(2):
        assert [batch["path"].to_list() for batch in table.batches()] == [["a.wav", "b.wav"]]
    assert len(list(tmp_path.glob("headrace-*"))) == 1
    del table
    assert not list(tmp_path.glob("headrace-*"))


def test_files_of_a_pattern_that_come_change_and_go_change_the_stamps(storage, tmp_path):
    """By these stamps the sensor sees that a scan is due; the files are no recordings."""
    folder = tmp_path / "root/birds"
    (folder / "m").mkdir(parents=True)
    (folder / "a.wav").write_bytes(b"x")
    source = {"uri": "birds", "metadata": ["m/*.csv", "birds/extra.csv"]}
    config = DatasetConfig(name="birds", source=source, output={"uri": "birds/out"})
    seen = []
    for name, text in [("m/b.csv", "path\n"), ("extra.csv", "path\n"), ("m/a.csv", "path\n"), ("m/b.csv", "path\na\n")]:
        (folder / name).write_text(text)
        seen.append(storage.table_stamps(config))
        assert [path for chunk in storage.source(config).list() for path in chunk.path] == ["a.wav"]
    (folder / "m/b.csv").unlink()
    seen.append(storage.table_stamps(config))
    assert all(one != other for one, other in itertools.pairwise(seen))
    assert list(seen[-1]) == ["birds/extra.csv", "m/a.csv"]


@pytest.mark.medium
def test_tables_of_one_name_in_several_folders_of_a_bucket_are_one_table(s3_server, monkeypatch, storage):
    bucket = new_bucket(s3_server, monkeypatch)
    for folder in "ab":
        open_storage(f"{bucket}/t").write(f"{folder}/m.csv", f"path,v\n{folder}.wav,{folder}\n".encode())
    source = {"uri": f"{bucket}/t", "metadata": "*/m.csv"}
    config = DatasetConfig(name="birds", source=source, output={"uri": f"{bucket}/out"})
    assert in_memory(storage.metadata(config)).rows() == [("a.wav", "a"), ("b.wav", "b")]
    assert [path for chunk in storage.source(config).list() for path in chunk.path] == []
