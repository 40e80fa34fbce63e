"""Metadata of assets and checks: one style of names, all of them in docs/operations.md."""

import ast
import re
from pathlib import Path

import dagster as dg
import pytest

from tests.support.daemons import Daemon
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

DOCUMENT = Path("docs/operations.md").read_text()
SECTION = DOCUMENT.partition("## What the pages of assets and checks show\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (`[^|]*) \|", SECTION, re.MULTILINE)
DOCUMENTED = {name for row in ROWS for name in re.findall(r"`([^`]*)`", row)}
STYLE = re.compile(r"(dagster/)?[a-z][a-z0-9]*(_[a-z0-9]+)*")
UNITS = {"seconds", "bytes", "hours", "hz", "share", "table", "picture"}
SOMETIMES = {
    "columns_read": "of a view",
    "left_behind": "where the YAML has lost a set",
    "definition": "of a view",
    "kept_share": "of a view",
    "kept_picture": "of a view",
    "samples_chosen": "of a view",
    "gpu_memory_peak_bytes": "on a GPU",
    "not_tested": "of latents that failed",
    "pictures_missing": "of damaged shards",
    "<output>_distinct": "of codes",
    "<output>_most_frequent_share": "of codes",
    "<output>_picture": "of vectors",
    "page_link": "with HEADRACE_REPORT_URL",
    "removed_bytes": "of a job",
    "runs_removed": "of a job",
    "samples_flac": "with codec: copy",
    "samples_mp3": "with codec: copy",
    "samples_ogg": "with codec: copy",
    "samples_opus": "with codec: copy",
    "samples_wav": "with codec: copy",
    "verified": "of a job",
    "waits_for": "while an optional table is absent",
}


@pytest.fixture(scope="module")
@nothing_drawn()
def shown(tmp_path_factory):
    """Every name that a data set with all kinds of findings shows, and values of one name by kind."""
    project = Project(tmp_path_factory.mktemp("names"))
    project.write_titled_tones(6)
    (project.recordings / "bad.wav").write_bytes(b"RIFF not audio")
    table = project.folder / "metadata.csv"
    rows = [f'tone{i:03d}.wav,"[1]"' for i in range(6)]
    table.write_text("\n".join(["path,chords", *rows]))
    mel = {"name": "mel", "encoder": {"kind": "log_mel"}, "frame_aligned": ["chords"]}
    (project.folder / "captions.csv").write_text("path,caption\ntone000.wav,a\nnowhere.wav,b\n")
    columns = [{"name": "captions", "table": str(project.folder / "captions.csv")}]
    shards = {"samples_per_shard": 4, "partitions": {}}
    project.write_yaml(latents=[{**mel, "frame_aligned": []}], shards=shards, columns=columns)
    (project.output / "latents/old").mkdir(parents=True)
    (project.output / "latents/old/left.tar").write_bytes(b"left")
    daemon = Daemon(project)
    assert all(run.success for run in daemon.settle())
    project.write_yaml(latents=[mel])
    daemon.reload()
    daemon.settle()  # the check of the labels fails, and says where
    return list(_entries(daemon.instance))


def _entries(instance):
    for run in instance.get_runs():
        kinds = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION}
        for log in instance.all_logs(run.run_id, of_type=kinds):
            event = log.get_dagster_event()
            about = event.event_specific_data
            found = about.materialization if event.is_step_materialization else about
            for name, value in found.metadata.items():
                yield re.sub(r"^(audio|latents_mel)_(?!hours)", "<part>_", name), type(value)


def twice(text):
    """Pairs of names that a dict of a module gives one value, as in `{"rows": n, "samples": n}`."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            names = {}
            for name, value in zip(node.keys, node.values, strict=True):
                if name is not None and not isinstance(value, ast.Constant):
                    names.setdefault(ast.unparse(value), []).append(ast.unparse(name))
            found += [pair for pair in names.values() if len(pair) > 1]
    return found


@pytest.mark.parametrize("module", sorted(Path("assets").glob("*.py")), ids=str)
def test_no_value_has_two_names(module):
    assert twice(module.read_text()) == []


def test_a_value_with_two_names_is_found():
    assert twice("x = {'a': n.m, **y, 'b': n.m, 'c': 0, 'd': 0}") == [["'a'", "'b'"]]


@pytest.mark.medium
def test_every_name_is_in_the_document_and_every_name_there_is_shown(shown):
    found = {name for name, _ in shown}
    assert found - DOCUMENTED == set()
    assert DOCUMENTED - found == set(SOMETIMES)


def test_names_have_one_style_and_units_come_last():
    for name in DOCUMENTED:
        plain = name.replace("<part>", "audio").replace("<output>", "codes")
        assert STYLE.fullmatch(plain), name
        assert UNITS.isdisjoint(plain.split("_")[:-1]), name
        assert plain.split("_")[0] not in UNITS, name


def test_a_name_has_one_kind_of_value_everywhere(shown):
    kinds = {}
    for name, kind in shown:
        kinds.setdefault(name, set()).add(kind)
    numbers = {dg.IntMetadataValue, dg.FloatMetadataValue}
    assert {name for name, found in kinds.items() if len(found) > 1 and not found <= numbers} == set()
