"""Writes containers/requirements.txt: the packages of the image with the hashes of their wheels, as pip resolves them.

    python tools/make_hashes.py

The wheels are those for the Python and the machine that run it: CPython 3.11 on Linux, x86_64, as in the image.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = """\
# What the image installs, with the hashes of the wheels for CPython 3.11 on Linux, x86_64, by `make constraints`.
# torch, whose builds differ by index, and what constraints.txt does not name are not here.
"""


def main() -> None:
    """Resolve the extras of the container file by constraints.txt, and write what is found."""
    (extras,) = re.findall(r'"(\.\[[\w,]+\])"', (ROOT / "containers/Containerfile").read_text())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    options = ["--only-binary", ":all:", "--constraint", "constraints.txt", extras]
    command = subprocess.run([*pip, *options], cwd=ROOT, check=True, stdout=subprocess.PIPE)  # noqa: S603 - pip
    report = json.loads(command.stdout)
    pinned = set((ROOT / "constraints.txt").read_text().splitlines())
    names = {re.sub(r"[-_.]+", "-", line).lower(): line for line in pinned if not line.startswith("torch==")}
    lines = []
    for found in report["install"]:
        name = f"{found['metadata']['name']}=={found['metadata']['version']}"
        if line := names.get(re.sub(r"[-_.]+", "-", name).lower()):
            lines.append(f"{line} --hash=sha256:{found['download_info']['archive_info']['hashes']['sha256']}\n")
    (ROOT / "containers/requirements.txt").write_text(HEADER + "".join(sorted(lines, key=str.lower)))


if __name__ == "__main__":
    main()
