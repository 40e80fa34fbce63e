"""The results of `make readers` are those of the exports as they are now, and of the page that shows them."""

import json

import pytest
import soundfile

from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.spoken import FORMS, digest_of, exported, spoken
from tools import read_exports

RESULTS = json.loads(read_exports.RESULTS.read_text())
BY_FORM = {row["form"]: row for row in RESULTS["forms"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exports")


def test_every_form_was_read_whole_with_equal_audio_and_text():
    assert tuple(BY_FORM) == FORMS
    for row in RESULTS["forms"]:
        assert row["samples"] == row["equal_pcm"] == len(spoken())
        assert row["equal_text"] == (None if row["form"] == "croissant" else len(spoken()))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parquet"])  # its bytes are those of pyarrow
def test_the_files_of_an_export_are_those_that_were_read(form, folder):
    if soundfile.__libsndfile_version__ != RESULTS["libsndfile"]:
        pytest.skip("FLAC of another version of libsndfile")
    assert digest_of(exported(form, folder)) == BY_FORM[form]["files"], "run `make readers`"


def test_the_page_shows_the_results():
    page = (REPOSITORY_ROOT / "docs/exports.md").read_text()
    assert f"<!-- made by `make readers` -->\n\n{read_exports.table_of(RESULTS)}\n\n" in page


def test_a_wrong_sample_a_missing_one_and_a_wrong_text_are_counted():
    right = {one.key: [read_exports.pcm_of(one.pcm()), one.text] for one in spoken()}
    first, second, third = list(right)[:3]
    wrong = right | {first: ["0" * 64, right[first][1]], second: [right[second][0], "other"]}
    del wrong[third]
    row = read_exports.row_of("nemo", {"package": "p", "version": "1", "samples": wrong}, "")
    assert (row["samples"], row["equal_pcm"], row["equal_text"]) == (19, 18, 18)


def test_texts_that_a_package_lost_are_counted_as_different():
    lost = {one.key: [read_exports.pcm_of(one.pcm()), None] for one in spoken()}
    row = read_exports.row_of("nemo", {"package": "p", "version": "1", "samples": lost}, "")
    assert row["equal_text"] == 0


@pytest.mark.parametrize("form", ["nemo", "lhotse", "energon", "dali", "croissant"])
def test_where_a_package_cannot_be_installed_a_rebuilt_reader_reads_and_the_result_says_so(form, folder, monkeypatch):
    def fails(*_):
        raise read_exports.subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(read_exports, "environment", fails)
    row = read_exports.row_of(form, read_exports.read_by_package(form, exported(form, folder), folder), "")
    assert (row["package"], row["equal_pcm"]) == ("", len(spoken()))
    said = "not in the form" if form == "croissant" else "not read"
    assert f"a rebuilt reader | {len(spoken())} | {len(spoken())} | {said} |" in read_exports.table_of({"forms": [row]})
