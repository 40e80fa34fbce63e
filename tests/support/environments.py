"""Environments for packages that tests run and that the library does not need."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def make_environment(folder: Path, *words: str, beside_ours: bool = False) -> Path:
    """Make an environment in `folder` and install what these words of pip name. Returns the folder of its programs.

    Modules are compiled when they are imported, as few of them are. With `beside_ours` it also has all packages of this
    environment.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    if beside_ours:
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "ours.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python")]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", "--only-binary", ":all:", *words], check=True)
    return folder / "bin"
