"""Fixtures of the tests in this folder."""

import pytest
from dagster.components.testing.utils import create_defs_folder_sandbox

from headrace.testing import write_corpus


@pytest.fixture
def sandbox():
    with create_defs_folder_sandbox() as sandbox:
        write_corpus(sandbox.project_root / "corpus")
        yield sandbox
