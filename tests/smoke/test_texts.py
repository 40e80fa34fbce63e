"""The smoke test of latents of texts that come from a set of columns."""

import json

import pytest

from headrace import encoders
from headrace.config.operation import LoaderConfig
from headrace.smoke.run import SmokePart, smoke_test
from headrace.stores.storage import LocalStorage
from tests.support.drills.subjects import yaml_of
from tests.support.drills.works import build
from tests.support.projects import Project
from tests.support.tiny_texts import save_text

CAPTIONS = ("a dog barks", "the cat", "music and rain", "a bird sings", "no music", "the wind")
PART = "latents captions"


@pytest.fixture
def project(tmp_path):
    """Latents of captions of a table that is joined to the samples."""
    project, table = Project(tmp_path), tmp_path / "captions.jsonl"
    project.write_tones(len(CAPTIONS))
    rows = [{"path": f"tone{number:03d}.wav", "caption": text} for number, text in enumerate(CAPTIONS)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    encoder = {"kind": "text", "model": str(save_text("static", tmp_path / "static"))}
    project.write_yaml(
        shards={"samples_per_shard": 3, "partitions": {"train": 2, "test": 1}},
        columns=[{"name": "tags", "table": str(table)}],
        latents=[{"name": "captions", "encoder": encoder, "column": "tags.caption", "dtype": "float32"}],
    )
    build(yaml_of(project))
    return project


class Other:
    """The encoder, with other vectors under the same fingerprint."""

    def __init__(self, encoder):
        self.encoder = encoder

    def __getattr__(self, name):
        return getattr(self.encoder, name)

    def encode(self, batch, lengths):
        return {name: value + 1 for name, value in self.encoder.encode(batch, lengths).items()}


def smoke(project, texts, of=lambda encoder: encoder):
    latents = project.config().latents[0]
    parts = {
        "audio": SmokePart.newest(LocalStorage(project.output / "audio")),
        PART: SmokePart.newest(LocalStorage(project.output / "latents/captions"), texts),
    }

    def load():
        return [of(encoders.load(latents.encoder.kind, latents.encoder.settings))]

    return smoke_test(parts, LoaderConfig(num_workers=0, batch_size=2), encoders={PART: load})


@pytest.mark.medium
def test_texts_of_a_set_of_columns_are_encoded_again_and_other_vectors_are_found(project):
    texts = LocalStorage(project.output / "columns/tags")
    results = smoke(project, texts)
    assert not [fault for result in results.values() for faults in result.faults.values() for fault in faults]
    assert len(results[PART].encoded) == 3  # one of each partition
    assert len(smoke(project, texts, Other)[PART].faults["latents_match_audio"]) == 3
