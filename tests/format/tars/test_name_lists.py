"""A list of tars is one name: their folder, and their paths below it."""

import pytest

from headrace.errors import ConfigError
from headrace.format.tars.name_lists import absolute, name_of_tars


def test_a_list_is_its_common_folder_and_paths_below_it(tmp_path):
    names = [tmp_path / "a/1.tar", tmp_path / "b/2.tar", tmp_path / "a/1.tar"]
    assert name_of_tars("remote", names).splitlines() == [str(tmp_path), "a/1.tar", "b/2.tar"]
    assert name_of_tars("remote", ["s3://bucket/x.tar"]) == "s3://bucket/x.tar"
    assert name_of_tars("remote", "anything") == "anything"


def test_names_become_absolute_and_urls_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("a/b.tar") == str(tmp_path / "a/b.tar")
    assert absolute("s3://bucket/a.tar") == "s3://bucket/a.tar"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "name at least one tar"),
        (["a.tar", "folder"], "in a list: expected the path or URL of a tar"),
        (["https://host/a.tar?X-Amz-Signature=0ld1"], "in a list"),
        (["s3://one/a.tar", "s3://two/a.tar"], "several stores"),
    ],
)
def test_other_lists_are_errors_without_signatures(names, words):
    with pytest.raises(ConfigError, match=words) as caught:
        name_of_tars("remote", names)
    assert "0ld1" not in str(caught.value)
