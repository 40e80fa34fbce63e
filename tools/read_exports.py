"""Reads each form of export with the package that it is for: `python -m tools.read_exports [--cache DIR] [FORM …]`.

Each package is in an environment of its own below the cache folder, on top of this one, so nothing of `.venv` changes.
Where a package cannot be installed, a reader that is rebuilt from the published form reads, and the result says so.
Writes `benchmarks/results/readers.json`, and the table of docs/exports.md.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import soundfile

from tests.readers.exports.found import decoded, pcm_of
from tests.support import export_readers
from tests.support.spoken import FORMS, digest_of, exported, spoken

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "tests/readers/exports"
RESULTS = ROOT / "benchmarks/results/readers.json"
PAGE = ROOT / "docs/exports.md"
_TABLE = re.compile(r"(?<=<!-- made by `make readers` -->\n\n).*?(?=\n\n)", re.DOTALL)
Found = Mapping[str, Any]


def environment(form: str, cache: Path) -> Path:
    """The Python interpreter of an environment with the package of a form, which is made if it is not there.

    Raises:
        subprocess.CalledProcessError: a package cannot be installed.
    """
    wanted = SCRIPTS / "requirements" / f"{form}.txt"
    folder = cache / f"{form}-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]}"
    python = folder / "bin/python"
    if (folder / "complete").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)  # noqa: S603 - fixed words
    (theirs,) = folder.glob("lib/python*/site-packages")
    (theirs / "ours.pth").write_text(sysconfig.get_path("purelib"))
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--requirement", wanted]
    subprocess.run([python, "-m", "pip", "install", *options], check=True)  # noqa: S603 - our own requirements
    (folder / "complete").touch()
    return python


def read_by_package(form: str, export: Path, cache: Path) -> Found:
    """The result of a form's package: its name, version and samples, or why it could not be installed."""
    try:
        python = environment(form, cache)
    except subprocess.CalledProcessError:
        return {"package": "", "version": "", "samples": _rebuilt(form, export)}
    variables = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(export.parent / "huggingface"), "CUDA_VISIBLE_DEVICES": ""}
    command = [python, SCRIPTS / f"read_{form}.py", export]
    done = subprocess.run(  # noqa: S603 - a script of this repository
        command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | variables
    )
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def _rebuilt(form: str, export: Path) -> dict[str, Any]:
    """The audio that the rebuilt reader of a form reads; it has no texts."""
    readers: dict[str, Any] = {
        "nemo": lambda: export_readers.nemo(export)[0],
        "lhotse": lambda: export_readers.shar(export / "train")[0],
        "energon": lambda: export_readers.energon(export, "train"),
        "dali": lambda: export_readers.dali(export, "train"),
        "croissant": lambda: _members_of_croissant(export),
    }
    return {key: [pcm_of(decoded(blob)), None] for key, blob in readers[form]()}


def _members_of_croissant(export: Path) -> list[tuple[str, bytes]]:
    files = json.loads((export / "croissant.json").read_text())["distribution"]
    tars = [export / file["contentUrl"] for file in files if "contentUrl" in file]
    members = [member for tar in tars for member in export_readers.members(tar)]
    return [(name.removesuffix(".flac"), blob) for name, blob in members if name.endswith(".flac")]


_WITHOUT_TEXT = "croissant"  # its table has the audio of tars alone


def row_of(form: str, found: Found, digest: str) -> dict[str, Any]:
    """The result of a form: what was read, compared with what was written."""
    samples, wanted = found["samples"], {one.key: one for one in spoken()}
    has_text = form != _WITHOUT_TEXT and found["package"]
    return {
        "form": form,
        "package": found["package"],
        "version": found["version"],
        "samples": len(samples),
        "equal_pcm": sum(pcm_of(wanted[key].pcm()) == pcm for key, (pcm, _) in samples.items() if key in wanted),
        "equal_text": sum(wanted[key].text == text for key, (_, text) in samples.items() if key in wanted)
        if has_text
        else None,
        "files": digest,
    }


def table_of(results: Mapping[str, Any]) -> str:
    """The results as a table in Markdown."""
    lines = ["| form | read by | samples | equal PCM | equal text |", "|---|---|---|---|---|"]
    for row in results["forms"]:
        reader = f"{row['package']} {row['version']}" if row["package"] else "a rebuilt reader"
        unread = "not in the form" if row["form"] == _WITHOUT_TEXT else "not read"
        text = unread if row["equal_text"] is None else row["equal_text"]
        lines.append(f"| `{row['form']}` | {reader} | {row['samples']} | {row['equal_pcm']} | {text} |")
    return "\n".join(lines)


def main() -> int:
    """Read the forms. Returns the exit code: 1 if a sample is missing or differs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace/readers"
    arguments.add_argument("--cache", type=Path, default=cache)
    arguments.add_argument("forms", nargs="*", metavar="FORM", default=[])
    given = arguments.parse_args()
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"forms": []}
    rows = {row["form"]: row for row in before["forms"]}
    with tempfile.TemporaryDirectory() as folder:
        for form in given.forms or FORMS:
            export = exported(form, Path(folder))
            digest = digest_of(export)  # before a reader writes beside it
            rows[form] = row_of(form, read_by_package(form, export, given.cache), digest)
            print(rows[form])
    results = {"libsndfile": soundfile.__libsndfile_version__, "forms": [rows[form] for form in FORMS if form in rows]}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(_TABLE.sub(lambda _: table_of(results), PAGE.read_text()))
    wanted = len(spoken())
    good = all(
        row["samples"] == row["equal_pcm"] == wanted and row["equal_text"] in {None, wanted} for row in rows.values()
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
