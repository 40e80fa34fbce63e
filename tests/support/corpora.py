"""Corpora of each kind of source, built from their YAML by the library's own steps, and read back as samples."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import soundfile

from headrace import StreamingDataset
from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.shard_settings import ShardSettings
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import parse_config
from headrace.config.partitioning import ShardSize
from headrace.sources.source_changes import GradualListing
from headrace.sources.sources import open_corpus
from headrace_dagster.resources.storage import StorageResource

RATE_HZ = 8000


def write_sound(path, seed, *, frames=400, channels=1, **form):
    """Write noise, which depends on the seed. Returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-9000, 9000, (frames, channels), np.int16)
    soundfile.write(path, noise, RATE_HZ, subtype="PCM_16", **form)
    return path


@dataclass
class Built:
    """The result of a build: key → sample; rejects; shards that were written."""

    remote: str
    rejects: dict  # path → code
    reasons: list
    written: list
    scan: object

    @cached_property
    def samples(self):
        """Key → sample. To be read before the next build."""
        return {sample["__key__"]: sample for sample in StreamingDataset(remote=self.remote, batch_size=1)}

    def by_text(self, column="text"):
        """Text → the PCM of its samples, as lists."""
        return {sample["metadata"][column]: sample["audio"].tolist() for sample in self.samples.values()}


def build(folder: Path, source: dict, **sections) -> Built:
    """Build the data set whose YAML has this section `source` into `folder`/output, ready to be read."""
    content = {
        "source": {"settle_seconds": 0, **source},
        "splits": {"train": 1.0},
        "shards": {"samples_per_shard": 2, "partitions": {"train": 2}},
        "output": {"uri": str(folder / "output")},
        **sections,
    }
    config = parse_config(content, "mine", folder / "mine.yaml")
    storage = StorageResource(root=str(folder))
    output, corpus = storage.output(config), storage.source(config)
    scan, catalog = update_catalog(config, corpus, storage.metadata(config), output)
    settings = ShardSettings(config.audio.format(), ShardSize(2), 0)
    written = []
    for partition in config.partitioning().partition_keys():
        rows = partition_recordings(output, config, partition)
        made = build_partition(partition, rows, settings, corpus, storage.audio(config), num_threads=1)
        written += made.written
    wanted = {name: settings.wanted(digest) for name, digest in catalog.fingerprints.items()}
    commit_partitions(storage.audio(config), wanted, catalog.digest)
    rejected = scan.rejected
    return Built(
        str(folder / "output"),
        dict(zip(rejected["path"], rejected["code"], strict=True)),
        rejected["reason"].to_list(),
        written,
        scan,
    )


NUM_UTTERANCES = 6


class KindBuilds:
    """End-to-end tests of a kind. A subclass writes a corpus of the sounds of `sound`, with the texts of `text`."""

    kind = ""
    options: ClassVar[dict] = {}
    can_spoil = True

    def write(self, folder):
        """Write the corpus: for each utterance its sound, id `utt-<number>` and text."""
        raise NotImplementedError

    def uri(self, folder):
        return str(folder / "corpus")

    def change(self, folder):
        """Change the sound of utterance 1 to that of seed 100. Returns the `Change` for the contract."""
        raise NotImplementedError

    def spoil(self, folder):
        """Make the sound of utterance 1 unusable."""
        raise NotImplementedError

    def retext(self, folder):
        """Change the text of utterance 2 to `other`."""
        raise NotImplementedError

    def opened(self, folder):
        return open_corpus(self.kind, self.uri(folder), self.options)

    def source(self, folder):
        return {"kind": self.kind, "uri": self.uri(folder), "options": self.options}

    @pytest.mark.medium
    def test_a_corpus_is_built_like_a_folder_and_a_table_and_follows_each_change(self, tmp_path, plain_samples):
        """One build after another: nothing changed, a sound, a text, a sound that is damaged."""
        self.write(tmp_path)
        source = self.source(tmp_path)
        first = build(tmp_path, source).by_text()
        assert first == plain_samples
        again = build(tmp_path, source)
        assert (again.written, again.scan.num_opened, again.rejects) == ([], 0, {})
        seen = self._seen(tmp_path)
        assert self._seen(tmp_path) == seen

        self.change(tmp_path)
        assert self._seen(tmp_path) != seen
        changed = build(tmp_path, source)
        assert len(changed.written) == 1
        assert {text for text, pcm in changed.by_text().items() if first[text] != pcm} == {"text 1"}

        seen = self._seen(tmp_path)
        self.retext(tmp_path)
        assert self._seen(tmp_path) != seen
        told = build(tmp_path, source)
        assert len(told.written) == 1
        assert told.by_text()["other"] == first["text 2"]

        if not self.can_spoil:
            return
        self.spoil(tmp_path)
        spoilt = build(tmp_path, source)
        assert set(spoilt.by_text()) == set(told.by_text()) - {"text 1"}
        assert (spoilt.scan.rejected["origin"] == "file").sum() == 1
        assert all(spoilt.reasons)

    def _seen(self, folder):
        """Facts that a sensor compares: the stamps of the listing, and those of the tables."""
        stamps = GradualListing(self.opened(folder)).go_on(60)
        return stamps.digest, self.opened(folder).rows().stamps()


def folder_and_table(folder):
    """The corpus of `KindBuilds` as a folder of files, and a table. Returns the section `source`."""
    rows = ["path,id,text"]
    for number in range(NUM_UTTERANCES):
        path = sound(folder / "plain", number)
        rows.append(f"{path.name},utt-{number},{text(number)}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    tables = {"metadata": str(folder / "table.csv"), "columns": {"key": "id"}}
    return {"uri": str(folder / "plain"), "samples": "rows", **tables}


def sound(folder, number, *, seed=None, extension="wav"):
    """Write the sound of an utterance. Returns its path."""
    return write_sound(folder / f"utt-{number}.{extension}", number if seed is None else seed, frames=400 + 10 * number)


def text(number):
    return f"text {number}"
