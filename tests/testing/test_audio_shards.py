"""The audio shards of contract suites are those that a loader reads."""

import numpy as np

from headrace import StreamingDataset
from headrace.stores.storage import LocalStorage
from headrace.testing.audio_shards import commit, write_partition


def test_clips_are_read_as_they_were_written_mono_and_stereo_with_their_metadata(tmp_path):
    audio = LocalStorage(tmp_path / "audio")
    clips = {"mono": np.full(400, 0.25), "stereo": np.full((300, 2), [0.5, -0.5])}
    metadata = {"mono": {"title": "one"}}
    commit(audio, write_partition(audio, [clips], sample_rate_hz=8000, metadata=metadata))
    found = {sample["__key__"]: sample for sample in StreamingDataset(remote=str(tmp_path), batch_size=1)}
    assert np.array_equal(found["mono"]["audio"], np.full((1, 400), 0.25))
    assert np.array_equal(found["stereo"]["audio"], np.full((300, 2), [0.5, -0.5]).T)
    assert found["mono"]["metadata"]["title"] == "one"
