"""Labels of recordings as numbers: `source.labels` numbers the values of a column of text, and the numbers stay."""

import numpy as np
import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset
from headrace.assemble.column_sets import bring_columns_up_to_date, build_columns
from headrace.errors import ConfigError, SampleError
from headrace.format.beside.labels import labels_in
from headrace.format.snapshots.snapshots import read_snapshot
from tests.support.builds import Project

pytestmark = pytest.mark.medium

BIRDS = ("wren", "crow", "owl")


def project_of(folder, *birds, per_bird=4, **asked):
    """Recordings in a folder for each bird."""
    made = Project(folder, asked={"path_columns": "{bird}/{_}.wav", "labels": ["bird"], **asked})
    for bird in birds:
        for number in range(per_bird):
            made.put(f"{bird}/{number}.wav")
    return made


def built(project):
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    return project


def labels_of(project):
    return labels_in(read_snapshot(project.output.at("columns/metadata")).snapshot)


def dataset_of(project, **arguments):
    return StreamingDataset(remote=project.output.uri, **{"batch_size": 3, "tensors": ["bird"], **arguments})


def numbers_of(project, **arguments):
    """Key → number, and the labels."""
    made = dataset_of(project, **arguments)
    found = {}
    for batch in StreamingDataLoader(made):
        assert str(batch["bird"].dtype) == "torch.int64"
        found |= {key: number for key, number in zip(batch["keys"], batch["bird"].tolist(), strict=True) if key}
    return found, made.labels


def test_folders_are_numbers_that_stay_when_others_come_and_go(tmp_path):
    project = built(project_of(tmp_path, "wren", "crow"))
    found, labels = numbers_of(project)
    assert labels == {"bird": ("crow", "wren")}
    assert {key.rpartition("_")[0]: number for key, number in found.items()} == {"crow": 0, "wren": 1}
    for name in ("albatross/0.wav", "albatross/1.wav", "zebra_finch/0.wav"):
        project.put(name)
    for number in range(4):
        project.remove(f"crow/{number}.wav")
    after, labels = numbers_of(built(project))
    assert labels == {"bird": ("crow", "wren", "albatross", "zebra_finch")}
    assert {key.rpartition("_")[0]: number for key, number in after.items()} == {
        "wren": 1,
        "albatross": 2,
        "zebra_finch": 3,
    }


def test_a_second_build_makes_nothing_and_other_labels_write_no_file_of_columns(tmp_path):
    project = built(project_of(tmp_path, *BIRDS))
    number = read_snapshot(project.output.at("columns/metadata")).number
    files = {entry.path for entry in project.output.list("columns/metadata/") if entry.path.endswith(".columns")}
    built(project)
    assert read_snapshot(project.output.at("columns/metadata")).number == number
    project.asked["labels"] = []
    built(project)
    project.asked["labels"] = ["bird"]
    built(project)
    assert labels_of(project) == {"bird": sorted(BIRDS)}
    assert files == {entry.path for entry in project.output.list("columns/metadata/") if entry.path.endswith("columns")}


def test_partitions_that_are_built_one_by_one_give_one_list(tmp_path):
    project = project_of(tmp_path, *BIRDS, per_bird=8)
    project.build()
    config = project.config()
    assert labels_of(built(project)) == {"bird": sorted(BIRDS)}
    for partition in config.partitioning().partition_keys():
        manifest = build_columns(project.output, config, "metadata", partition).manifest.manifest
        assert set(manifest.labels["bird"]) <= set(BIRDS)
        assert manifest.from_json(manifest.to_json(), "m") == manifest


def test_a_list_of_labels_needs_no_build_with_labels(tmp_path):
    project = built(project_of(tmp_path, *BIRDS, labels=[]))
    found, labels = numbers_of(project, tensors={"bird": BIRDS})
    assert labels == {"bird": BIRDS}
    assert {key.rpartition("_")[0]: number for key, number in found.items()} == {"wren": 0, "crow": 1, "owl": 2}
    (sample,) = {tuple(dataset_of(project, tensors={"bird": BIRDS}).get_item(0)[name].shape for name in ("bird",))}
    assert sample == ((),)


def test_text_without_numbers_and_unknown_labels_say_what_to_do(tmp_path):
    project = built(project_of(tmp_path, *BIRDS, labels=[]))
    with pytest.raises(ConfigError, match=r"source\.labels: \[bird\]"):
        dataset_of(project)
    with pytest.raises(SampleError, match="'owl' is not one of its labels"):
        list(StreamingDataLoader(dataset_of(project, tensors={"bird": ["wren", "crow"]})))
    with pytest.raises(ConfigError, match="labels are for text, and the column is int"):
        dataset_of(project, tensors={"sample_rate_hz": ["8000"]})


@pytest.mark.parametrize(
    ("labels", "said"),
    [([], "expected a number"), (["a", "a"], "twice"), ([1], "expected a string"), ("crow", "expected a number")],
)
def test_lists_of_labels_are_checked(labels, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        StreamingDataset(remote=str(tmp_path), tensors={"bird": labels})


def test_a_label_that_is_no_column_of_text_is_an_error(tmp_path):
    project = project_of(tmp_path, *BIRDS, labels=["species"])
    project.build()
    with pytest.raises(ConfigError, match=r"source\.labels: 'species' is no column of text of the metadata; .* bird"):
        bring_columns_up_to_date(project.output, project.config())


def test_samples_without_a_label_are_minus_one(tmp_path):
    project = project_of(tmp_path, "wren", "crow")
    project.put("loose.wav")
    found, _ = numbers_of(built(project))
    assert next(number for key, number in found.items() if key.startswith("loose")) == -1


def test_streams_with_other_numbers_are_an_error(tmp_path):
    made = [built(project_of(tmp_path / str(number), *birds)) for number, birds in enumerate([BIRDS, BIRDS[:2]])]
    streams = [Stream(remote=one.output.uri) for one in made]
    with pytest.raises(ConfigError, match="number labels differently"):
        StreamingDataset(streams=streams, batch_size=2, tensors=["bird"])
    (batch, *_) = StreamingDataLoader(StreamingDataset(streams=streams, batch_size=2, tensors={"bird": BIRDS}))
    assert np.isin(batch["bird"].numpy(), range(3)).all()
