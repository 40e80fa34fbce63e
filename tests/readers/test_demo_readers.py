"""The demo's shards, built as a user builds them, in the standard readers."""

import io
import json
import os
import subprocess
import sys

import pytest
import soundfile as sf
import torch
import yaml

from headrace import StreamingDataLoader, StreamingDataset, World
from headrace.format.beside.view_files import read_view
from headrace.stores.storage import open_storage
from headrace_dagster.build_command.repository import REPOSITORY_ROOT


@pytest.mark.slow
@pytest.mark.usefixtures("closed_by_webdataset")
def test_standard_readers_read_the_demo_unchanged_and_ours_reads_its_latents(tmp_path):
    import wids
    from webdataset import WebDataset

    from datasets import Value, load_dataset

    content = yaml.safe_load((REPOSITORY_ROOT / "datasets/demo.yaml").read_text())
    content["output"] = {"uri": str(tmp_path / "output")}
    content["source"]["settle_seconds"] = 0
    (tmp_path / "demo.yaml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "build.py", "demo", "--datasets", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY_ROOT, env=os.environ | {"DAGSTER_HOME": str(tmp_path / "home")}, check=True)
    folder = tmp_path / "output/audio"
    sizes = json.loads((folder / "sizes.json").read_text())
    tars = [str(folder / name) for name in sizes]

    plain = [
        (sf.read(io.BytesIO(sample["flac"])), json.loads(sample["json"]))
        for sample in WebDataset(tars, shardshuffle=False)
    ]
    listed = wids.ShardListDataset([{"url": tar, "nsamples": n} for tar, n in zip(tars, sizes.values(), strict=True)])
    raw = {"bytes": Value("binary"), "path": Value("string")}  # `datasets` itself needs torchcodec to decode
    hugging = load_dataset("webdataset", data_files=tars, split="train", streaming=True).cast_column("flac", raw)
    assert len(plain) == len(listed) == sum(sizes.values()) == 141
    assert sum(1 for sample in hugging if sf.read(io.BytesIO(sample["flac"]["bytes"]))[0].size) == 141

    encoded = list(StreamingDataset(remote=str(folder), latents=[str(tmp_path / "output/latents/crepe")]))
    assert len(encoded) == 141
    for sample in encoded:
        hidden = sample["encoder_hidden"]
        assert len(hidden) == sample["encoder_length"] > 0
        assert hidden.isfinite().all()
        assert hidden.std() > 0  # the latents are not constant
    check_codes_vectors_and_view(folder)


def check_codes_vectors_and_view(folder):
    """The view by features, read by two ranks with the codes, the vectors and the features of its samples."""
    batches = [
        batch
        for rank in range(2)
        for batch in StreamingDataLoader(
            StreamingDataset(
                remote=str(folder), latents=["units", "timbre"], columns=["levels"], view="clean", batch_size=4,
                shuffle=True, world=World(rank, 2),
            )
        )
    ]  # fmt: skip
    rows = [(batch, row) for batch in batches for row in range(4) if not batch["is_padding"][row]]
    samples = {batch["keys"][row]: batch["metadata"][row] for batch, row in rows}
    chosen = [metadata for metadata in samples.values() if metadata["clipped_share"] < 0.001]
    view = read_view(open_storage(folder.parent / "views/clean")).snapshot
    assert len(rows) == len(samples) == len(chosen) == view.num_chosen
    codes = torch.cat([batch["codes"][row, : batch["codes_length"][row], 0] for batch, row in rows])
    vectors = torch.stack([batch["embedding"][row] for batch, row in rows])
    assert codes.unique().tolist() == list(range(64))  # all of them are in use
    assert torch.bincount(codes).max() < len(codes) / 8
    assert vectors.shape == (len(rows), 256)
    assert len(vectors.unique(dim=0)) == len(rows)
