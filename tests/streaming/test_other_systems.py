"""A system without what Linux alone has, as macOS is: slower here and there, and the same data."""

import os
import sys

import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset
from headrace.streaming.batches.worker_batches import start_context
from tests.support.streaming.drills import check, keep_all, make

LINUX_ALONE = ["copy_file_range", "memfd_create", "posix_fadvise", "posix_fallocate", "sched_getaffinity"]


@pytest.fixture(autouse=True)
def no_linux(monkeypatch):
    for name in LINUX_ALONE:
        monkeypatch.delattr(os, name, raising=False)


@pytest.mark.medium
def test_a_store_is_read_and_cached(server, corpus, tmp_path):
    keep_all(check(make(f"{server.uri}/audio", tmp_path), corpus).dataset)
    assert check(make(f"{server.uri}/audio", tmp_path), corpus).stats.cache_misses == 0


@pytest.mark.medium
def test_workers_hand_over_their_batches(dataset_folder, corpus):
    check(make(f"{dataset_folder}/audio"), corpus, num_workers=2, multiprocessing_context="fork")


def test_latents_are_the_same(dataset_folder, monkeypatch):
    def latents():
        dataset = StreamingDataset(remote=f"{dataset_folder}/latents/crepe", batch_size=8)
        return [batch["encoder_hidden"] for batch in StreamingDataLoader(dataset)]

    elsewhere = latents()
    monkeypatch.undo()
    assert all(map(torch.equal, elsewhere, latents()))


@pytest.mark.parametrize(
    ("system", "is_local", "name"),
    [("linux", True, "fork"), ("linux", False, "forkserver"), ("darwin", True, "forkserver")],
)
def test_workers_are_forked_where_a_fork_is_sound(monkeypatch, system, is_local, name):
    monkeypatch.setattr(sys, "platform", system)
    assert start_context(None, is_local=is_local).get_start_method() == name
