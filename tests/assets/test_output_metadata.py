"""Metadata of codes and vectors in Dagster."""

import re

import numpy as np
import pytest

from headrace.errors import SampleError
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace_dagster.assets.output_metadata import outputs_metadata
from tests.support.output_builds import Built, clips, expected, write_audio


@pytest.fixture
def built(tmp_path):
    write_audio(tmp_path)
    return Built(tmp_path).commit()


def first_index(built):
    return read_index(built.storage, read_table(built.storage, read_snapshot(built.storage).snapshot).names()[0])


def test_codes_in_use_are_counted_and_vectors_are_drawn(built):
    index = first_index(built)
    keys = index.keys()
    found = outputs_metadata(built.storage, index)
    assert found.keys() == {"codes_distinct", "codes_most_frequent_share", "embedding_picture"}
    codes = np.concatenate([expected(samples)[0][:, 0] for key, samples in clips().items() if key in keys])
    _, counts = np.unique(codes, return_counts=True)
    assert found["codes_distinct"] == len(counts) > 10
    assert found["codes_most_frequent_share"] == pytest.approx(counts.max() / counts.sum(), abs=1e-4)
    assert re.match(r"!\[vectors of samples\]\(data:image/png;base64,", found["embedding_picture"].value)


def test_a_shard_that_cannot_be_read_is_an_error_by_name(built):
    index = first_index(built)
    (built.storage.local_path(index.shard)).unlink()
    with pytest.raises(SampleError, match=index.shard):
        outputs_metadata(built.storage, index)
