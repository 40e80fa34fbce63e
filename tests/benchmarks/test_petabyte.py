"""The estimate of a petabyte in docs/scaling.md is what `benchmarks/petabyte.py` computes from the raw results."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def petabyte():
    spec = importlib.util.spec_from_file_location("petabyte", ROOT / "benchmarks/petabyte.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_in_the_docs_is_computed_from_the_raw_results(petabyte):
    text = (ROOT / "docs/scaling.md").read_text()
    shown = text.partition("<!-- petabyte: begin -->")[2].partition("<!-- petabyte: end -->")[0]
    assert shown.strip() == petabyte.table()


def test_large_recordings_are_read_in_pieces_and_small_ones_by_two_requests(petabyte):
    unit = petabyte.UnitCosts(0.0, 0.0, 1e-3, 1e4, 100, 1e-3, 1e-2)
    growth = petabyte.Growth(*([1e-9] * 9))
    clips = petabyte.estimate(unit, growth, 10.0)
    assert clips["GETs; PUTs; LISTs of a first build"] == "4 billion; 4 million; 2 million"
    large = petabyte.estimate(replace(unit, audio_bytes=float(1 << 20)), growth, 160.0)  # 160 MiB: ten pieces, twice
    assert large["GETs; PUTs; LISTs of a first build"].startswith("2.5 billion;")
    assert clips["CPU of all audio shards"] == f"{2e10 * 1e-3 / 3600:,.0f} h"
