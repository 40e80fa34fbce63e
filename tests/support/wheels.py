"""Builds the wheel of the checkout."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
_PACKAGES = ("headrace", "headrace_dagster", "assets", "resources", "sensors")


def unpacked_wheel(folder: Path) -> Path:
    """Build the wheel below `folder`. Returns the folder with its content."""
    # From a copy, because setuptools writes files into the folder it builds from.
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in tracked.rstrip("\0").split("\0"):
        if "/" not in name or name.split("/")[0] in _PACKAGES:
            copy = folder / "source" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                copy.symlink_to((ROOT / name).readlink())
            else:
                copy.write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([*pip, *options, str(folder / "source")], check=True)
    (wheel,) = folder.glob("headrace-*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"
