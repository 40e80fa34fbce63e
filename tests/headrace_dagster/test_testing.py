"""`headrace.testing` and `headrace_dagster.testing`, used as docs/dagster.md shows it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.testing import tiny_config, write_corpus
from headrace_dagster.testing import materialized_dataset

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/dagster.md"


@pytest.fixture
def config(tmp_path, undrawn):
    write_corpus(tmp_path)
    return tiny_config(tmp_path)


def test_a_tiny_data_set_is_materialized_in_about_a_second(config):
    began = time.process_time()
    with materialized_dataset(config) as made:
        assert made.failures() == []
        assert made.dataset.keys.sizes_index in made.instance.all_asset_keys()
        assert made.dataset.keys.dataset_report not in made.instance.all_asset_keys()
        assert made.tick("source_changes") == []
    assert time.process_time() - began < 5  # about 1 on an idle machine


def test_an_invalid_section_is_reported_as_in_a_file(tmp_path):
    with pytest.raises(ConfigError, match=r"(?s)tiny\.yaml: invalid settings:.* latents\[0\] \(a\)\.encoder: missing"):
        tiny_config(tmp_path, latents=[{"name": "a"}])


def test_the_corpus_has_the_same_bytes_each_time(tmp_path):
    one, two = (write_corpus(tmp_path / name, 2, num_channels=2) for name in ("one", "two"))
    assert sorted(path.name for path in one.iterdir()) == ["rec000.wav", "rec001.wav"]
    assert [path.read_bytes() for path in sorted(one.iterdir())] == [p.read_bytes() for p in sorted(two.iterdir())]


def test_smoke_test_and_report_are_made_when_asked_for(config):
    with materialized_dataset(config, smoke_test=True) as made:
        assert made.failures() == []
        assert made.dataset.keys.dataset_report in made.instance.all_asset_keys()


def test_units_are_made_after_their_centroids(tmp_path, undrawn):
    write_corpus(tmp_path)
    units = {"kind": "kmeans", "encoder": {"kind": "log_mel"}, "num_codes": 2}
    with materialized_dataset(tiny_config(tmp_path, latents=[{"name": "units", "encoder": units}])) as made:
        assert made.failures() == []
        assert made.dataset.keys.latents_index("units") in made.instance.all_asset_keys()


def test_a_sensor_requests_what_a_change_needs(config):
    with materialized_dataset(config) as made:
        next(Path(config.source.uri).iterdir()).unlink()
        (request,) = made.tick("source_changes")
        assert request.asset_selection == [made.dataset.keys.catalog]


def test_what_fails_is_listed(config):
    for path in Path(config.source.uri).iterdir():
        path.write_bytes(b"RIFF, but no sound")
    with materialized_dataset(config) as made:
        failures = made.failures()
    assert any(failure.startswith("tiny/catalog: has_recordings: ") for failure in failures)
    assert any(failure.startswith("tiny__audio_shards: tiny/catalog: checks failed") for failure in failures)


def test_an_unknown_resource_is_refused(config):
    with (
        pytest.raises(ConfigError, match="unknown key 'encoders'"),
        materialized_dataset(config, resources={"encoders": object()}),
    ):
        pass


@pytest.mark.slow  # a session of pytest of its own; the tests above make the same calls
def test_the_tests_of_the_document_pass(tmp_path):
    package = tmp_path / "corpora"
    for path, text in re.findall(r"```python\n# (\S+\.py)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        file = tmp_path / path.removeprefix("src/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (package / "__init__.py").touch()
    (package / "defs/__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_a_run_of_a_range_makes_each_partition_with_its_checks(config):
    """Without `partitions_per_run`, as docs/dagster.md says."""
    with materialized_dataset(config) as made:
        first, *_, last = partitions = made.dataset.partitions.get_partition_keys()
        result = made.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=made.instance,
            asset_selection=[made.dataset.keys.audio_shards],
            tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
        )
        events = result.get_asset_materialization_events()
        assert [event.partition for event in events] == partitions
        checked = [(check.partition, check.passed) for check in result.get_asset_check_evaluations()]
        assert sorted(checked) == [(partition, True) for partition in partitions for _ in range(2)]
