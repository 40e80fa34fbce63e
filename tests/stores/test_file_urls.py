"""`file:` URLs name local paths."""

import pytest

from headrace.errors import ConfigError
from headrace.stores.file_urls import is_file_url, path_of_file_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///data/a", "/data/a"),
        ("FILE:///data/a", "/data/a"),
        ("file://localhost/data/a", "/data/a"),
        ("file:/data/a", "/data/a"),
        ("file:///data/my%20birds", "/data/my birds"),
        ("file:///data/50%25", "/data/50%"),
        ("file:///data/why?#2[1]", "/data/why?#2[1]"),
        ("file:///data/a/", "/data/a/"),
    ],
)
def test_a_url_names_its_path(url, path):
    assert is_file_url(url)
    assert path_of_file_url(url) == path


@pytest.mark.parametrize("name", ["/data/a", "s3://file:/a", "files:/a", "file", ""])
def test_other_names_are_not_file_urls(name):
    assert not is_file_url(name)


def test_another_host_and_a_nul_character_are_errors_that_say_what_to_do():
    with pytest.raises(ConfigError, match="three slashes before an absolute path: file:///data/birds"):
        path_of_file_url("file://data/birds")
    with pytest.raises(ConfigError, match="%00 is the NUL character"):
        path_of_file_url("file:///data/bi%00rds")
