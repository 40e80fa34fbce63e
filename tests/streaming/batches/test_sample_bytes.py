"""Bytes that are read of a sample."""

import io

from headrace import StreamingDataset
from headrace.streaming.batches import sample_bytes
from tests.support.streaming.corpus import clips
from tests.support.tars import tar_of


def test_what_is_between_wanted_fields_is_not_read(tmp_path, monkeypatch):
    parts = []
    own = sample_bytes.StoredSample.opened

    def opened(sample):
        file = own(sample)

        class Noting:
            is_compared = file.is_compared

            def read_into(self, start, out):
                parts.append(len(out))
                file.read_into(start, out)

        return Noting()

    members = {"a.flac": clips(1)[0].flac(), "a.blob": bytes(5000), "a.txt": b"text", "a.json": b"{}"}
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    dataset = StreamingDataset(remote=tmp_path, fields=["audio", "txt"])
    monkeypatch.setattr(sample_bytes.StoredSample, "opened", opened)
    assert io.BytesIO(dataset[0]["txt"]).read() == b"text"
    assert parts == [len(members["a.flac"]), 4]
