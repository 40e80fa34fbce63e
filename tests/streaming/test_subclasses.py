"""Subclasses of `StreamingDataset`: what they may add, and what would silently have no effect."""

import pytest
from torch.utils.data import DataLoader

from headrace import StreamingDataLoader, StreamingDataset, collate
from headrace.errors import ConfigError


def test_a_subclass_may_add_arguments_and_methods(dataset_folder):
    class Speech(StreamingDataset):
        def __init__(self, folder, **more):
            super().__init__(remote=f"{folder}/audio", split="train", transform=self.shorten, **more)

        def shorten(self, sample):
            return {"__key__": sample["__key__"], "audio": sample["audio"][:, :100], "metadata": {}}

    dataset = Speech(dataset_folder, batch_size=4)
    batch = next(iter(StreamingDataLoader(dataset)))
    assert batch["audio"].shape[-1] == 100
    assert dataset[0]["audio"].shape[-1] == 100


@pytest.mark.parametrize("name", ["__getitem__", "get_item"])
def test_reading_single_samples_otherwise_is_rejected_because_batches_would_not_show_it(name):
    with pytest.raises(ConfigError, match=rf"Mine\.{name} would not be called.*transform="):
        type("Mine", (StreamingDataset,), {name: lambda self, sample_id: {}})


def test_iterating_otherwise_works_under_torchs_loader_and_is_rejected_by_ours(dataset_folder):
    class Named(StreamingDataset):
        def __iter__(self):
            for number, sample in enumerate(super().__iter__()):
                yield sample | {"number": number}

    dataset = Named(remote=f"{dataset_folder}/audio", split="train", batch_size=4)
    assert next(iter(DataLoader(dataset, batch_size=4, collate_fn=collate)))["number"].tolist() == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match=r"Named\.__iter__ would not be called.*transform="):
        StreamingDataLoader(dataset)
