"""Files below a folder are listed sorted, without hidden ones and what is no file."""

from headrace.stores.storage import LocalStorage


def test_broken_links_and_loops_of_links_are_not_files(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"a")
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    (tmp_path / "gone.wav").symlink_to("absent")
    assert [entry.path for entry in LocalStorage(tmp_path).list()] == ["a.wav"]
