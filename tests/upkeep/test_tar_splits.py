"""Splits of tars of others: by their names, and where they were before."""

from headrace.format.snapshots.tar_lists import TarList
from headrace.format.tars.member_names import KeyAt
from headrace.stores.storage import open_storage
from headrace.upkeep.tar_splits import placed, splits_of

LIST = TarList("", KeyAt.FIRST_DOT, {"train": ("train-0.tar", "gone.tar")})


def test_a_tar_stays_in_its_split_and_a_new_one_has_that_of_its_name():
    assert splits_of(LIST, ["train-0.tar", "dev-1.tar"]) == {"train-0.tar": "train", "dev-1.tar": "dev"}


def test_names_of_too_many_kinds_are_no_splits():
    names = [f"{'x' * number}-0.tar" for number in range(1, 40)]
    assert set(splits_of(TarList("", KeyAt.FIRST_DOT, {}), names).values()) == {"all"}


def test_new_tars_are_placed_last_and_gone_ones_keep_their_place():
    storage = open_storage("memory://")
    storage.write("train-0.tar", b"")
    splits = {"train-0.tar": "train", "train-1.tar": "train", "dev-1.tar": "dev"}
    assert placed(LIST, storage, splits).paths == {"dev": ("dev-1.tar",), "train": ("train-0.tar", "", "train-1.tar")}
