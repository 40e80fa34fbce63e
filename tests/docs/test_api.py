"""The API pages are written from the docstrings without a warning."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_pages_are_written_without_a_warning(tmp_path):
    command = [sys.executable, "tools/make_docs.py", str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "StreamingDataset" in (tmp_path / "headrace.html").read_text()
    assert (tmp_path / "headrace_dagster.html").exists()
