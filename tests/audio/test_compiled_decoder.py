"""`make decoder` keeps the faster decoder, and a compiled one decodes as the wheel's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU_FACTS = Path("/proc/cpuinfo")


FAKE_PYTHON = """#!/usr/bin/env bash
set -eu
case "$*" in
  -c*) echo 1.0 ;;
  *\\ download\\ *) mkdir -p "${@: -2:1}"; touch "${@: -2:1}/miniaudio.whl" ;;
  *\\ wheel\\ *) mkdir -p "${@: -2:1}"; touch "${@: -2:1}/miniaudio.whl" ;;
  *\\ --force-reinstall\\ *) echo "installed $*" ;;
  *time_decoder.py) case "$PYTHONPATH" in */wheel/*) echo "$WHEEL_MS" ;; *) echo "$COMPILED_MS" ;; esac ;;
esac
"""
"""Does as pip does, without a network, and says how long the decoders take."""


@pytest.mark.skipif(not CPU_FACTS.exists() or "avx2" not in CPU_FACTS.read_text(), reason="a processor without AVX2")
@pytest.mark.parametrize(
    ("wheel", "compiled", "kept"), [("49.3", "36.1", "compiled"), ("36.1", "41.2", "wheel"), ("9.9", "10.1", "wheel")]
)
def test_the_faster_decoder_is_installed(tmp_path, wheel, compiled, kept):
    for name, text in (("python", FAKE_PYTHON), ("cc", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "WHEEL_MS": wheel, "COMPILED_MS": compiled}
    done = subprocess.run(
        [ROOT / "tools/compile-decoder", tmp_path / "python", "--user"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"the wheel's decoder {wheel} ms, the compiled one {compiled} ms. Installing: {kept}" in done.stdout
    assert f"--no-deps --user {done.stdout.split()[-1].rpartition(f'/{kept}/')[0]}/{kept}/miniaudio.whl" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not CPU_FACTS.exists() or "avx2" not in CPU_FACTS.read_text(), reason="a processor without AVX2")
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_it_passes_what_the_wheels_passes(tmp_path):
    command = [ROOT / "tools/compile-decoder", sys.executable, "--target", tmp_path]
    subprocess.run(command, env=os.environ | {"KEEP": "compiled"}, check=True)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )

    assert Path(run("-c", "print(__import__('_miniaudio').__file__)").stdout).is_relative_to(tmp_path)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/audio/test_flac.py")
    assert done.returncode == 0, done.stdout[-4000:]
