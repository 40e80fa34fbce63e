"""The tests of GPUs do not fail by themselves: they pass with CUDA replaced by fakes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_tests_of_gpus_pass_on_fakes() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "300", "tests/gpu"]
    environment = {**os.environ, "HEADRACE_FAKE_CUDA": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "17 passed" in done.stdout
