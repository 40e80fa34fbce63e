"""Of long audio in a store, all parts of a batch are fetched before they are decoded, and no more than these."""

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.format.indexes import seeking
from headrace.streaming.samples import stored_sample, stream_reader
from headrace.streaming.shards.access import ShardAccess
from headrace.upkeep.tar_indexes import index_tars
from tests.audio.test_partial import encoded
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of

pytestmark = pytest.mark.medium

KINDS = {
    "flac": ("FLAC", "PCM_16", 44_100),
    "mp3": ("MP3", "MPEG_LAYER_III", 44_100),
    "ogg": ("OGG", "VORBIS", 44_100),
    "opus": ("OGG", "OPUS", 48_000),
}
CUTS = {
    "crop": {"crop_seconds": 1.0},
    "resampled": {"crop_seconds": 1.0, "sample_rate": 8000},
    "transformed": {"crop_frames": 30_000, "transform": lambda sample: sample},
    "windows": {"window_seconds": 1.0, "window_hop_seconds": 7.0},
}


@pytest.fixture(scope="module")
def tars(tmp_path_factory):
    """A tar of four long recordings of each kind."""
    folder = tmp_path_factory.mktemp("tars")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeking, "LONG_BYTES", 20_000)
        for kind, form in KINDS.items():
            (folder / kind).mkdir()
            files = {f"k{number}.{kind}": encoded(*form, 1, number, seconds=12) for number in range(4)}
            (folder / kind / "a.tar").write_bytes(tar_of(files))
            index_tars(str(folder / kind), num_threads=1)
    return folder


@pytest.fixture
def store(tars, monkeypatch):
    """A store with these tars."""
    for module in (stored_sample, stream_reader):
        monkeypatch.setattr(module, "LONG_BYTES", 20_000)
    monkeypatch.setattr("headrace.streaming.shards.view_shards._REQUEST_BYTES", 100)
    with fault_server(tars) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def batches(remote, local, **options):
    made = StreamingDataset(remote=remote, local=str(local), shuffle=True, batch_size=2, output="numpy", **options)
    return [batch["audio"].tobytes() for batch in StreamingDataLoader(made)]


@pytest.mark.parametrize("cut", CUTS)
def test_decoding_waits_for_almost_nothing(store, tmp_path, monkeypatch, cut):
    alone, num_asked = [], 0
    part = ShardAccess._part
    monkeypatch.setattr(ShardAccess, "_part", lambda *given: alone.append(given) or part(*given))
    for kind in KINDS:
        expected = batches(str(store.folder / kind), tmp_path / "local", **CUTS[cut])
        before = len(store.requests)
        assert batches(f"{store.uri}/{kind}", tmp_path / "cache", **CUTS[cut]) == expected
        asked = [request for request in store.requests[before:] if "a.tar" in request.path]
        assert len(asked) <= 2 * 2 * len(expected)  # two rows, each at most two
        num_asked += len(asked)
    assert len(alone) <= 0.1 * num_asked  # a frame of MP3 may be larger than those beside it


def test_quiet_crops_are_drawn_again_when_they_are_decoded(store, tmp_path):
    options = {"crop_seconds": 1.0, "crop_min_dbfs": -1.0, "crop_draws": 3}
    expected = batches(str(store.folder / "mp3"), tmp_path / "local", **options)
    assert batches(f"{store.uri}/mp3", tmp_path / "cache", **options) == expected
