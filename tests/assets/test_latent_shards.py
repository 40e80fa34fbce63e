"""Metadata of latent shards in Dagster; the memory of the encoder is freed after each run."""

import base64
import io

import dagster as dg
import pytest
from PIL import Image

from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import newest_manifest
from headrace_dagster.assets.dataset_report import has_report
from headrace_dagster.assets.records import AssetRecords
from headrace_dagster.resources.encoders import EncoderLoader
from headrace_dagster.resources.storage import StorageResource
from tests.support.built import BuiltGraph
from tests.support.damage import flip_audio
from tests.support.projects import Graph, Project

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("metadata"))
    for i in range(3):
        project.write_tone(f"tone{i}", hz=300 + 100 * i, seconds=0.2 + 0.4 * i)
    project.write_yaml(
        splits={"train": 1.0},
        shards={"samples_per_shard": 4, "partitions": {"train": 1}},
        latents=[{"name": "mel", "encoder": {"kind": "log_mel"}, "dtype": "bfloat16"}],
    )
    graph = Graph(project)
    graph.build()
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def encode(graph: Graph) -> dict:
    """Materialize the latents. Returns their metadata."""
    return materialize(graph, graph.keys.latent_shards("mel"))


def materialize(graph: Graph, key: dg.AssetKey, partition: str | None = "train-0000") -> dict:
    """Materialize an asset. Returns its metadata."""
    assert graph.run(key, partition).success
    return graph.instance.get_latest_materialization_event(key).asset_materialization.metadata


def test_latents_show_speed_padding_device_dtype_and_bytes(graph):
    found = {name: entry.value for name, entry in encode(graph).items()}
    assert found["times_real_time"] > 0
    assert found["samples_kept"] == 0
    assert 0 <= found["padding_share"] < 1
    assert 0 < found["device_busy_share"] <= 1
    assert found["dtype"] == "bfloat16"
    assert found["shard_bytes"] > 0
    assert found["dagster/row_count"] == 3
    assert "encoded alone, a frame differs by" in found["independent_of_batch"]
    assert "cpu" in found["devices"] or "cuda" in found["devices"]
    assert ("gpu_memory_peak_bytes" in found) == ("cuda" in found["devices"])


def test_latents_are_shown_below_their_spectrogram(graph):
    """A small PNG of the longest sample, also when nothing had to be encoded."""
    for _ in range(2):
        text = encode(graph)["latents_picture"].value
        assert text.startswith("![latents below their spectrogram](data:image/png;base64,")
        assert len(text) < 60_000
        picture = Image.open(io.BytesIO(base64.b64decode(text.partition("base64,")[2].removesuffix(")"))))
        assert picture.width > picture.height > 100
        assert len(picture.convert("RGB").getcolors()) > 10


def test_a_damaged_sample_loses_its_pictures_and_fails_no_asset(graph):
    """Of every asset that shows it, until the shard is built again."""
    encode(graph)
    assert graph.run(graph.keys.latents_index("mel")).success
    index = read_index(graph.audio, newest_manifest(graph.audio, "train-0000").manifest.shards[0].name)
    whole = graph.audio.read(index.shard)
    i = int(index.num_frames.argmax())
    flip_audio(graph.audio, index, i)
    shards, latents = materialize(graph, graph.keys.audio_shards), encode(graph)
    report = materialize(graph, graph.keys.dataset_report, None)
    for found in (shards, latents, report):
        assert f"{index.shard}: sample {index.key(i)} cannot be read: " in found["pictures_missing"].value
    assert "waveforms_picture" not in shards
    assert shards["durations_picture"].value.startswith("![histogram")
    assert "latents_picture" not in latents
    assert latents["dtype"].value == "bfloat16"
    records = AssetRecords(graph.instance, graph.definitions.resolve_asset_graph().asset_check_keys)
    assert not has_report(graph.project.dataset(), StorageResource(), records)
    graph.audio.write(index.shard, whole)
    assert "pictures_missing" not in materialize(graph, graph.keys.dataset_report, None)
    assert has_report(graph.project.dataset(), StorageResource(), records)


def test_the_encoder_is_released_after_the_run_even_when_it_fails(graph, monkeypatch):
    released = []
    release = EncoderLoader.release
    monkeypatch.setattr(EncoderLoader, "release", lambda self: (release(self), released.append(self._loaded)))
    encode(graph)
    assert released == [[]]
    shard = next((graph.project.output / "audio").glob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:-1])
    for path in (graph.project.output / "latents").rglob("*.*"):
        if path.is_file():
            path.unlink()
    assert not graph.run(graph.keys.latent_shards("mel"), "train-0000").success
    assert released == [[], []]
