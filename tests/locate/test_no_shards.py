"""A name that leads to no shards is an error that says what is there instead, and what to do."""

import pytest

from headrace.locate.no_shards import no_audio, no_samples, no_shards, no_snapshots, parts_beside
from headrace.stores.storage import LocalStorage


def test_a_missing_folder_a_file_and_an_empty_folder_have_messages_of_their_own(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "words.txt").write_text("words")
    for name, words in (
        ("nowhere", "the folder .*nowhere is not there"),
        ("words.txt", "it is a file, and neither a tar nor a sizes.json"),
        ("empty", "no snapshot and no shards .* there; it is empty: build the data set, or check the path"),
    ):
        with pytest.raises(FileNotFoundError, match=words):
            raise no_shards(name, LocalStorage(tmp_path / name))


def test_another_librarys_data_set_is_called_what_it_is(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.parquet").write_bytes(b"")
    assert "it is a data set of Parquet files (data/a.parquet)" in str(no_shards("x", LocalStorage(tmp_path)))


def test_an_output_that_is_not_built_names_its_folder_of_shards(tmp_path):
    (tmp_path / "audio").mkdir()
    assert f"name its folder of shards: {tmp_path}/audio" in str(no_shards("x", LocalStorage(tmp_path)))
    assert f"did you mean {tmp_path}/audio, with split=…?" in str(no_shards("x", LocalStorage(tmp_path / "train")))


def test_a_folder_of_other_files_shows_some_of_them(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.md").write_text("")
    assert "it holds 0.md, 1.md, 2.md, 3.md, 4.md and 2 more" in str(no_shards("x", LocalStorage(tmp_path)))


def test_a_pattern_that_matches_nothing_is_told_from_a_folder(tmp_path):
    (tmp_path / "a.md").write_text("")
    assert "x/*.tar: no tars match; " in str(no_shards("x/*.tar", LocalStorage(tmp_path)))


def test_the_parts_beside_one_that_is_not_there_are_listed(tmp_path):
    for name in ("mel", "crepe"):
        (tmp_path / "latents" / name).mkdir(parents=True)
        (tmp_path / "latents" / name / "sizes.json").write_text("{}")
    assert parts_beside(f"{tmp_path}/latents/cripe/", None) == "; there are crepe, mel"
    assert parts_beside(f"{tmp_path}/views/loud", None) == f"; {tmp_path}/views is empty: build it first"


def test_the_other_errors_name_what_was_asked_for(tmp_path):
    storage = LocalStorage(tmp_path)
    assert f"x: snapshot=3 needs a folder with snapshots: name {tmp_path} itself" in str(
        no_snapshots("x", "snapshot=3", storage)
    )
    assert "x: snapshot=3 needs snapshots, and this is a plain WebDataset" in str(no_snapshots("x", "snapshot=3"))
    assert f"x: an output without audio: name one of its folders of latents ({tmp_path})" in str(
        no_audio("x", [storage])
    )
    assert "a.tar: no sample in this shard" in str(no_samples("a.tar", 1))
    assert "a.tar: no sample in any of 3 shards" in str(no_samples("a.tar", 3))
