"""Fixtures of the tests of the kinds of sources."""

import pytest

from tests.support.corpora import build, folder_and_table


@pytest.fixture(scope="session")
def plain_samples(tmp_path_factory):
    """Text → PCM of the corpus of `KindBuilds`, built from a folder and a table."""
    folder = tmp_path_factory.mktemp("plain")
    return build(folder, folder_and_table(folder)).by_text()
