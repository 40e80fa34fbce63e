"""Twelve layouts of forty recordings: `headrace adopt`, `headrace build`, and a batch, without a line in between.

The bar of 60 seconds is of the processor time of the three, not of the clock: the tests beside take the clock's. One
layout has a process for each command, as a user's shell has; the others save the imports.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.cli import main
from tests.support import forty, layouts
from tests.support.instances import memory_instance
from tests.support.projects import written_long_ago

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 60
FEW_TO_A_SHARD = "shards: {samples_per_shard: 4, partitions: {train: 5}}\nloader: {num_workers: 0}\n"


def in_process(folder, *arguments):
    """Run a command in this process."""
    with contextlib.chdir(folder):
        assert main(list(map(str, arguments))) == 0


def headrace(folder, *arguments):
    """Run a command as a user does, in a process of its own."""
    command = [sys.executable, "-c", "from headrace.cli import main; main()", *map(str, arguments)]
    variables = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    done = subprocess.run(
        command, cwd=folder, env={**variables, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def cpu_seconds():
    """CPU seconds of this process and its children, which an idle machine passes about as fast."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pcm_by_text(remote, column):
    """Text → sample rate and PCM of its sample; without a column of texts, the text of the recording of this name."""
    found = {}
    for sample in StreamingDataset(remote=str(remote), batch_size=1):
        about = sample["metadata"]
        number = int(Path(about["headrace"]["source"]).stem.partition("-")[2])
        text = about[column] if column else forty.text(number)
        if column is None:
            assert about["speaker"] == f"id1000{number % 2}"
        found[text] = int(sample["sample_rate"]), np.rint(np.asarray(sample["audio"])[0] * 32768).astype(np.int16)
    return found


def shards_of(output):
    return set(json.loads((output / "audio/sizes.json").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(("write", "column"), forty.TEXT_COLUMNS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_a_corpus_is_adopted_built_and_read_within_a_minute_and_a_change_rewrites_one_shard(
    write, column, tmp_path, monkeypatch, undrawn
):
    write(tmp_path / "corpus", forty.FORTY)
    written_long_ago(tmp_path / "corpus")
    output, instance = tmp_path / "shards/corpus", memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    run = headrace if write is layouts.lhotse else in_process

    used = cpu_seconds()
    run(tmp_path, "adopt", "corpus")
    with (tmp_path / "corpus.yaml").open("a") as yaml:
        yaml.write(FEW_TO_A_SHARD)  # so that there are many; nothing about the corpus
    run(tmp_path, "build", "corpus.yaml")
    batch = next(iter(StreamingDataLoader(StreamingDataset(remote=str(output), batch_size=40))))
    assert cpu_seconds() - used < MOST_SECONDS
    assert len(batch["keys"]) == 40

    first = pcm_by_text(output, column)
    assert first.keys() == {forty.text(number) for number in forty.FORTY.numbers}
    for number in forty.FORTY.numbers:
        rate_hz, pcm = first[forty.text(number)]
        assert rate_hz == forty.rate_hz(number)
        assert np.array_equal(pcm, forty.samples(number))

    before = shards_of(output)
    write(tmp_path / "corpus", forty.changed())
    written_long_ago(tmp_path / "corpus")
    in_process(tmp_path, "build", "corpus.yaml")
    after = shards_of(output)
    assert len(before) >= 10
    assert (len(before - after), len(after - before)) == (1, 1)
    second = pcm_by_text(output, column)
    assert {text for text in first if not np.array_equal(second[text][1], first[text][1])} == {
        forty.text(forty.CHANGED)
    }
