"""Tests of `headrace.catalog.tables.json_lines`."""

from unittest import mock

import pytest

from headrace.catalog.tables import json_lines
from headrace.catalog.tables.metadata_files import open_metadata
from headrace.errors import StorageError


def test_a_full_temporary_folder_is_said_for_a_file_of_lines(tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_text('{"path": "a.wav", "n": NaN}\n')
    with (
        mock.patch.object(json_lines.tempfile, "NamedTemporaryFile", side_effect=OSError(28, "No space left")),
        pytest.raises(StorageError, match=r"^temporary folder .*No space left.*TMPDIR"),
    ):
        open_metadata(file)
