"""A decoder that was compiled for the processor's own instructions decodes as the wheel's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU_FACTS = Path("/proc/cpuinfo")


@pytest.mark.slow
@pytest.mark.skipif(not CPU_FACTS.exists() or "avx2" not in CPU_FACTS.read_text(), reason="a processor without AVX2")
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_it_passes_what_the_wheels_passes(tmp_path):
    subprocess.run([ROOT / "tools/compile-decoder", sys.executable, "--target", tmp_path], check=True)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )

    assert Path(run("-c", "print(__import__('_miniaudio').__file__)").stdout).is_relative_to(tmp_path)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/audio/test_flac.py")
    assert done.returncode == 0, done.stdout[-4000:]
