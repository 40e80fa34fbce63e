"""Counts of a view are made from columns, partition by partition."""

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.views import Balance, ViewDefinition
from headrace.format.snapshots.snapshots import read_table
from headrace.stores.storage import LocalStorage
from headrace.views import making
from headrace.views.making import ViewData, ViewMaking
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Twelve samples for training in three shards, and two for testing; every fourth has speaker `b`."""
    folder = tmp_path_factory.mktemp("output")
    audio = write_dataset(folder, {"train": clips(12), "test": clips(2, first=90)})
    number = {"n": ("int", lambda key: int(key[4:]))}
    write_columns(folder, "metadata", {"speaker": ("string", lambda key: "b" if int(key[4:]) % 4 == 3 else "a")})
    write_columns(folder, "numbers", number)
    sets = {
        name: fitting_columns(LocalStorage(folder / "columns" / name), audio.snapshot)
        for name in ("metadata", "numbers")
    }
    return ViewData(audio, read_table(LocalStorage(folder / "audio"), audio.snapshot), sets)


def counts(making):
    return {part.partition: part.counts.tolist() for part in making.parts()}


@pytest.mark.parametrize("rows_at_once", [1 << 16, 3])
def test_a_condition_counts_each_sample_that_fulfils_it(data, monkeypatch, rows_at_once):
    monkeypatch.setattr(making, "_ROWS_AT_ONCE", rows_at_once)
    made = ViewMaking(ViewDefinition("n > 8 and speaker = 'a'"), data)
    assert counts(made) == {"test-0000": [1, 0], "train-0000": [0] * 9 + [1, 1, 0]}
    assert [column.set for column in made.columns] == ["metadata", "numbers"]


def test_balance_makes_groups_equal_over_all_partitions(data):
    made = ViewMaking(ViewDefinition("n < 90", Balance("speaker", 0.0)), data)
    found = np.array(counts(made)["train-0000"])
    is_b = np.arange(12) % 4 == 3
    assert counts(made)["test-0000"] == [0, 0]
    assert found[is_b].sum() == pytest.approx(found[~is_b].sum(), abs=1)
    assert (found > 0).all()


def test_columns_with_another_number_of_rows_are_an_error_that_names_set_and_shard(data, monkeypatch):
    numbers = data.sets["numbers"]
    files = [numbers.file_of(data.table.name(row)) for row in range(len(data.table))]
    monkeypatch.setattr(type(numbers), "file_of", lambda self, shard: files[0])
    with pytest.raises(FormatError, match=r"columns numbers: 2 rows for the 5 samples of train_0000_000000"):
        list(ViewMaking(ViewDefinition("n > 3"), data).parts())
