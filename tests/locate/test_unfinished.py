"""A folder that a first build has not finished is never read as a whole data set, by any name of it."""

import shutil

import pytest

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import NotFoundError
from headrace.source_kinds import source_kind
from headrace.sources.kinds.webdataset import WebdatasetOptions
from tests.support.streaming.corpus import clips, write_dataset

UNFINISHED = "has no snapshot yet|no snapshot there yet, since no build of it has finished: build the data set again"
DOORS = {
    "remote": lambda out: StreamingDataset(remote=f"{out}/audio"),
    "remote of latents": lambda out: StreamingDataset(remote=f"{out}/latents/tx"),
    "snapshot": lambda out: StreamingDataset(remote=f"{out}/audio", snapshot=1),
    "where": lambda out: StreamingDataset(remote=f"{out}/audio", where="duration_seconds > 1"),
    "joined to it": lambda out: StreamingDataset(remote=f"{out}/audio", latents=["tx"]),
    "latents": lambda out: StreamingDataset(remote=out / "good", latents=[f"{out}/latents/tx"]),
    "source": lambda out: source_kind("webdataset").open(f"{out}/audio", WebdatasetOptions(), ()),
    "webdataset_loader": lambda out: webdataset_loader(f"{out}/audio"),
}


@pytest.fixture(scope="module", params=["tars", "manifests"])
def out(request, tmp_path_factory):
    """Audio and latents without snapshots, with their tars or without; `good` has audio, and sets without snapshots."""
    folder = tmp_path_factory.mktemp("out")
    write_dataset(folder, {"train": clips(7)}, latents=True)
    shutil.copytree(folder, folder / "good")
    (folder / "latents/crepe").rename(folder / "latents/tx")
    for part in (folder / "audio", folder / "latents/tx"):
        shutil.rmtree(part / "snapshots")
        for tar in part.glob("*.tar") if request.param == "manifests" else []:
            tar.unlink()
    for family in ("latents", "columns"):
        shutil.copytree(folder / "latents/tx", folder / f"good/{family}/tx")
    return folder


@pytest.mark.parametrize("door", DOORS)
def test_the_error_says_that_no_build_has_finished(out, door):
    with pytest.raises(NotFoundError, match=UNFINISHED):
        DOORS[door](out)


@pytest.mark.parametrize(
    ("asked", "others"), [({"latents": ["tx"]}, "; there are crepe$"), ({"columns": ["tx"]}, "reports$")]
)
def test_the_error_lists_the_other_sets(out, asked, others):
    for named in (asked, {name: [f"{out}/good/{name}/tx"] for name in asked}):
        with pytest.raises(NotFoundError, match=f"no build of it has finished: .*{others}"):
            StreamingDataset(remote=out / "good", **named)


def test_its_tars_can_be_read_by_a_pattern(out):
    if tars := sorted(map(str, (out / "audio").glob("*.tar"))):
        assert StreamingDataset(remote=f"{out}/audio/*.tar").size == StreamingDataset(remote=tars).size == 7
