"""What docs/migrating.md shows runs, and names nothing that is not there."""

import inspect
import re
from pathlib import Path

import headrace
from headrace import Stream, StreamingDataLoader, StreamingDataset
from tests.streaming.corpus import clips
from tests.tars import tar_of

DOCUMENT = Path("docs/migrating.md").read_text()
WEBDATASET, MOSAIC = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_code_for_users_of_webdataset(tmp_path, monkeypatch):
    (tmp_path / "shards").mkdir()
    for number in range(2):
        members = {}
        for clip in clips(4, first=4 * number):
            members |= {f"{clip.key}.flac": clip.flac(), f"{clip.key}.json": clip.json(), f"{clip.key}.cls": b"17"}
        (tmp_path / f"shards/train-{number:03d}.tar").write_bytes(tar_of(members))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(WEBDATASET, names)
    assert names["batch"]["label"] == [17, 17, 17, 17]
    assert "cls" not in names["batch"]


def test_the_code_for_users_of_mosaic(dataset_folder, tmp_path, monkeypatch):
    for name in ("speech", "music"):
        (tmp_path / name).symlink_to(dataset_folder)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(MOSAIC, names)
    assert names["loader"].state_dict()["sample_in_epoch"] == 4
    assert len(names["loader"]) == 1000 // 4 - 1


def test_every_argument_that_it_names_is_one():
    known = set()
    for face in (StreamingDataset, Stream, StreamingDataLoader, headrace.webdataset_loader):
        known |= set(inspect.signature(face).parameters)
    ours = {
        name
        for row in re.findall(r"^\| .* \| (.*) \|$", DOCUMENT, re.MULTILINE)
        for name in re.findall(r"`(\w+)=", row)
    }
    assert ours
    assert ours <= known


def test_the_readme_leads_there():
    assert "(docs/migrating.md)" in Path("README.md").read_text()
