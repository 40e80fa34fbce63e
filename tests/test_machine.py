"""Cores within a container's quota, anonymous files, and reserved disk space."""

import errno
import os

import pytest

from headrace.machine import anonymous_file, num_cores, reserve

V1 = {"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        (V1, 2),
        (V1 | {"cpu/cpu.cfs_quota_us": "-1\n"}, 8),
    ],
)
def test_a_containers_quota_limits_the_cores(tmp_path, monkeypatch, files, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert num_cores(tmp_path) == expected


def test_a_system_without_affinity_masks_counts_its_cores(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert num_cores(tmp_path) == 6


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_an_anonymous_file_contains_what_was_written(monkeypatch, has_memory_files):
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
    descriptor = anonymous_file("headrace-test")
    try:
        os.ftruncate(descriptor, 4)
        os.pwrite(descriptor, b"abcd", 0)
        assert os.pread(descriptor, 10, 0) == b"abcd"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("num_bytes", [0, 1, 5000])
@pytest.mark.parametrize("way", ["reserved", "refused by the file system", "unknown to the system"])
def test_a_file_gets_its_size(tmp_path, monkeypatch, num_bytes, way):
    def refused(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    if way == "refused by the file system":
        monkeypatch.setattr(os, "posix_fallocate", refused)
    elif way == "unknown to the system":
        monkeypatch.delattr(os, "posix_fallocate")
    with (tmp_path / "file").open("wb") as file:
        reserve(file.fileno(), num_bytes)
    assert (tmp_path / "file").stat().st_size == num_bytes
