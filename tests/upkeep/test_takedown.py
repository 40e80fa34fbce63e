"""A takedown as a user does it: `find`, `exclude`, a build, `gc --now`, `find` again; and JSON of all commands."""

import json
import shutil

import polars as pl
import pytest

from headrace.assemble.column_tables import import_table
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.tables.metadata_files import TableInMemory
from headrace.config.content import ColumnSetConfig
from headrace.format.indexes.index_files import read_index
from headrace.format.shards.condemned import condemned
from headrace.format.shards.journal import note_shard
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.stores.storage import LocalStorage
from headrace.upkeep.takedown import SampleSearch, find_samples, is_condition
from headrace_dagster.runs_in_progress import runs_in_progress
from tests.support.builds import Project
from tests.support.column_fixtures import write_columns
from tests.support.commands import runner
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return runner(capsys, monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An output with audio, latents, two sets of columns and a view; the first sample has the path `a/first.wav`."""
    folder = tmp_path_factory.mktemp("made")
    corpus = clips(12)
    write_dataset(folder, {"train": corpus}, latents=True)
    first = corpus[0].key
    paths = {"path": ("string", lambda key: "a/first.wav" if key == first else f"b/{key}.wav")}
    write_columns(folder, "metadata", {"speaker": ("string", lambda key: key[-1])}, facts=paths)
    captions = {
        "text": ("string", lambda key: f"text of {key}"),
        "is last": ("bool", lambda key: key == corpus[-1].key),
    }
    write_columns(folder, "captions", captions)
    write_view(folder, "some", lambda key: int(key == first))
    return folder, [clip.key for clip in corpus]


def found_parts(run, what, output):
    code, out, _ = run("find", what, output, "--json")
    found = json.loads(out)
    assert code == (0 if found["found"] else 1)
    return found["keys"], {one["part"] for one in found["found"]}


EVERYWHERE = {"audio", "latents/crepe", "columns/metadata", "columns/captions", "views/some"}


@pytest.mark.medium
def test_find_lists_every_part_that_holds_a_sample_by_key_and_by_path(run, made):
    folder, (first, second, *_) = made
    assert found_parts(run, first, folder) == ([first], EVERYWHERE)
    assert found_parts(run, "a/first.wav", folder) == ([first], EVERYWHERE)
    assert found_parts(run, second, folder) == ([second], EVERYWHERE - {"views/some"})
    assert found_parts(run, "first.wav", folder) == ([], set())  # a part of a path


@pytest.mark.parametrize("column", ["provenance", "own_provenance", "own_own_provenance"])
@pytest.mark.parametrize("of_fields", [False, True])
def test_find_takes_the_path_of_a_recording_in_the_source_of_an_earlier_output(run, tmp_path, column, of_fields):
    write_dataset(tmp_path, {"train": (corpus := clips(6))})

    def provenance(key):
        fields = {"fields": {"mix": {"source": f"{key}.wav"}, "bass": {"source": f"{key}-bass.wav"}}}
        return {"source": f"{key}.wav", **(fields if of_fields else {})}

    others = {"other": ("json", lambda key: {"source": corpus[0].key}), "own_text": ("string", lambda key: key)}
    write_columns(tmp_path, "metadata", {column: ("json", provenance), **others})
    wanted = corpus[2].key
    held = ([wanted], {"audio", "columns/metadata"})
    assert found_parts(run, f"{wanted}.wav", tmp_path) == held
    assert found_parts(run, f"{wanted}-bass.wav", tmp_path) == (held if of_fields else ([], set()))


def test_a_column_of_the_user_with_the_name_provenance_is_no_path(run, tmp_path):
    write_dataset(tmp_path, {"train": clips(2)})
    write_columns(tmp_path, "metadata", {"provenance": ("string", lambda key: "a.wav")})
    write_columns(tmp_path, "more", {"provenance": ("json", lambda key: ["a.wav", {"source": "a.wav"}])})
    assert found_parts(run, "a.wav", tmp_path) == ([], set())


def test_find_takes_a_condition_on_columns(run, made):
    folder, keys = made
    wanted = sorted(key for key in keys if key[-1] == keys[3][-1])
    assert found_parts(run, f"speaker = '{keys[3][-1]}'", folder)[0] == wanted


@pytest.mark.parametrize(
    "condition", ["{} IN ('{}')", "{} LIKE '{}'", "{} ILIKE '{}'", "{} ilike '{}'", "{}\nIs\tNot Null",
                  "{} BETWEEN '{}' AND '{}'", "NOT {} <> '{}'", "{} Not In ('')"],
)  # fmt: skip
def test_find_takes_a_condition_in_any_spelling(run, made, condition):
    folder, keys = made
    last = keys[3][-1]
    wanted = sorted(keys if "Not" in condition else (key for key in keys if key[-1] == last))
    assert found_parts(run, condition.format("speaker", last, last), folder)[0] == wanted


@pytest.mark.parametrize("name", ['"is last"', 'captions."is last"', "captions.text", "text"])
def test_a_column_of_true_and_false_is_a_condition_and_other_names_are_keys(run, made, name):
    folder, keys = made
    assert found_parts(run, name, folder)[0] == ([keys[-1]] if "last" in name else [])


def test_find_names_files_and_snapshots(run, made):
    folder, (first, *_) = made
    code, out, _ = run("find", first, folder)
    assert code == 0
    audio = LocalStorage(folder / "audio")
    (shard,) = [
        n
        for n in read_table(audio, read_snapshot(audio).snapshot).names()
        if read_index(audio, n).find(first) is not None
    ]
    assert shard in out
    assert "views/some" in out


@pytest.mark.parametrize("what", ["no-such-key", "a/[other].wav", "speaker = 'nobody'"])
def test_what_is_nowhere_is_exit_code_1(run, made, what):
    code, out, err = run("find", what, made[0])
    assert code == 1
    assert (f"{what}: in no file of" in out, err) == (True, "")
    assert ("about the newest snapshot" in out) == ("=" in what)
    assert json.loads(run("find", what, made[0], "--json")[1])["found"] == []


def test_an_empty_key_is_an_error_and_not_every_sample(run, made):
    code, out, err = run("find", "", made[0])
    assert (code, out, "KEY is empty" in err) == (1, "", True)


def test_find_takes_only_an_output(run, made):
    code, _, err = run("find", "x", made[0] / "audio")
    assert (code, "name the output itself" in err) == (1, True)


def test_find_lists_shards_that_no_snapshot_names(tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    key = clips(4)[0].key
    for path in (tmp_path / "audio/snapshots").glob("*"):
        path.unlink()
    _, found = find_samples(LocalStorage(tmp_path), key, lambda: None)
    assert [(one.part, one.snapshots) for one in found] == [("audio", ())]


LOST = {"all shards": (), "one shard lost": (1,), "every shard lost": (0, 1, 2)}


@pytest.mark.parametrize("times", [None, "1", "300"])
@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_find_names_exactly_the_samples_that_a_view_takes(tmp_path, times, lost):
    """Counts of one and of two bytes; the keys of a shard that was lost are not known, and those of others are."""
    write_dataset(tmp_path, {"train": (corpus := clips(12))}, per_shard=4)
    keys = [clip.key for clip in corpus]
    write_view(tmp_path, "some", lambda key: keys.index(key) % 3 * int(times or 1), times=times)
    shards = sorted((tmp_path / "audio").glob("*.tar"))
    for number in lost:
        shards[number].unlink()
    taken = {key for key in keys if keys.index(key) % 3 and keys.index(key) // 4 not in lost}
    found = SampleSearch(LocalStorage(tmp_path)).holdings(keys)
    assert {one.key for one in found if one.part == "views/some"} == taken


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    for number in range(12):
        project.put(f"clip{number:02d}.wav")
    project.build()
    return project


def pcm_of(project, name):
    """Bytes that only the shards with this recording's sample hold: the end of its FLAC."""
    for shard in sorted((project.folder / "output/audio").glob("*.tar")):
        index = read_index(LocalStorage(shard.parent), shard.name)
        for row, key in enumerate(index.keys()):
            if key.startswith(f"{name}-"):
                start, stop = index.range_of(row, "flac")
                return key, shard.read_bytes()[start + 100 : stop]
    raise AssertionError(name)


def files_with(folder, content):
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


@pytest.mark.medium
def test_after_a_takedown_no_file_of_the_output_holds_the_sample(run, project):
    """Follow the steps of docs/operations.md."""
    output = project.folder / "output"
    key, content = pcm_of(project, "clip03")
    assert found_parts(run, "clip03.wav", output) == ([key], {"audio"})
    assert files_with(output, content)
    project.exclude = (key,)
    project.build()
    assert found_parts(run, key, output)[1] == {"audio", "catalog"}  # old snapshots and the earlier catalog hold it
    code, out, _ = run("gc", output, "--keep", 1, "--now", "--json")
    assert code == 0
    assert any(file["path"].endswith(".tar") for part in json.loads(out)["parts"] for file in part["files"])
    assert run("find", key, output)[0] == 1
    assert files_with(output, content) == []
    assert run("verify", output)[0] == 0
    assert len(project.build().written) == 0
    assert snapshot_numbers(project.shards) == [2]


def imported(project, on, names):
    """Import a table of a caption for each name, joined by key or path."""
    entry = ColumnSetConfig(name="captions", table="captions.csv")
    table = TableInMemory(pl.DataFrame({on: names, "caption": [f"words of {name}" for name in names]}))
    import_table(existing_catalog(project.output), project.config(), entry, on, lambda: table)


@pytest.mark.medium
@pytest.mark.parametrize("on", ["key", "path"])
@pytest.mark.parametrize("step", ["exclude", "remove"])
def test_rows_of_tables_that_left_the_yaml_are_found_after_a_takedown(run, project, on, step):
    output = project.folder / "output"
    recordings = existing_catalog(project.output).recordings(["path", "key"])
    imported(project, on, recordings[on].to_list())
    path, key = recordings.row(3)
    assert found_parts(run, key, output)[1] == {"audio"}
    if step == "exclude":
        project.exclude = (key,)
    else:
        project.remove(path)
    project.build()  # without the table
    run("gc", output, "--keep", 1, "--now")
    name = {"key": key, "path": path}[on]
    for what in {path, key} if step == "exclude" else {name}:  # of a removed recording, nobody knows key and path
        (one,) = json.loads(run("find", what, output, "--json")[1])["found"]
        assert (one["part"], one["file"].startswith("columns/captions/parts/")) == ("catalog", True)
    imported(project, on, recordings[on].to_list())
    run("gc", output, "--keep", 1, "--now")
    assert (run("find", key, output)[0], run("find", path, output)[0]) == (1, 1)


@pytest.mark.medium
def test_gc_without_now_keeps_young_files(run, project):
    output = project.folder / "output"
    key, content = pcm_of(project, "clip03")
    project.exclude = (key,)
    project.build()
    run("gc", output, "--keep", 1)
    assert files_with(output, content)


def journal_entry(project):
    """A shard that a build has written and not committed."""
    shard = min((project.folder / "output/audio").glob("*.tar"))
    other = shard.name.rpartition("-")[0] + "-0123456789ab.tar"
    note_shard(project.shards, other)
    shutil.copy(shard, shard.with_name(other))


def proposed_snapshot(project):
    snapshots = project.folder / "output/audio/snapshots"
    shutil.copy(snapshots / "00000001.json", snapshots / "00000003-0123456789abcdef.proposed")


def half_file(project):
    (project.folder / "output/audio/.x.tar.0123.headrace-tmp").write_bytes(b"half")


SIGNS = {
    "journal": (journal_entry, "the journal of a build has 1 shards that no manifest names"),
    "proposal": (proposed_snapshot, "a snapshot that was proposed and is not committed"),
    "half a file": (half_file, "a file that is being written"),
}


@pytest.mark.medium
@pytest.mark.parametrize(("sign", "words"), SIGNS.values(), ids=SIGNS)
def test_gc_now_removes_nothing_while_there_is_a_sign_of_a_build(run, project, sign, words):
    output = project.folder / "output"
    project.put("clip03.wav", seed="other")
    project.build()
    sign(project)
    before = sorted(output.rglob("*"))
    code, out, err = run("gc", output, "--keep", 1, "--now")
    assert (code, out) == (1, "")
    assert words in err
    assert "--no-build-is-running" in err
    assert sorted(output.rglob("*")) == before
    assert run("gc", output, "--keep", 1, "--now", "--no-build-is-running")[0] == 0
    assert snapshot_numbers(project.shards) == [2]


@pytest.mark.medium
def test_gc_now_removes_nothing_while_another_gc_is_deleting(run, project):
    with condemned(project.shards, ["x.tar"]):
        code, _, err = run("gc", project.folder / "output", "--now")
    assert (code, "the record of a deletion" in err) == (1, True)
    assert run("gc", project.folder / "output", "--now")[0] == 0


def test_gc_now_removes_nothing_while_a_run_of_dagster_is_in_progress(run, project, monkeypatch):
    monkeypatch.setattr("headrace.upkeep.activity._runs", lambda: iter(["Dagster's run 1234 of __ASSET_JOB (STARTED)"]))
    code, _, err = run("gc", project.folder / "output", "--now")
    assert (code, "Dagster's run 1234" in err) == (1, True)


@pytest.mark.medium
def test_runs_in_progress_are_those_of_the_instance_in_dagster_home(tmp_path, monkeypatch):
    import dagster as dg

    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert runs_in_progress() == []
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert runs_in_progress() == []
    with dg.DagsterInstance.get() as instance:
        instance.add_run(dg.DagsterRun(job_name="birds", status=dg.DagsterRunStatus.STARTED))
    (found,) = runs_in_progress()
    assert "of birds (STARTED)" in found


@pytest.mark.medium
def test_gc_now_of_a_bucket_needs_to_be_told_that_no_build_is_running(run, project, monkeypatch):
    from tests.support.streaming.fault_server import fault_server

    with fault_server(project.folder / "output") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        code, _, err = run("gc", server.uri, "--now")
        assert (code, "pass --no-build-is-running" in err) == (1, True)
        assert run("gc", server.uri, "--now", "--no-build-is-running", "--dry-run")[0] == 0


COMMANDS = {
    "inspect": lambda folder: ("inspect", folder),
    "inspect tars": lambda folder: ("inspect", folder / "audio/*.tar"),
    "verify": lambda folder: ("verify", folder),
    "index": lambda folder: ("index", folder / "plain"),
    "export": lambda folder: ("export", folder, folder / "exported"),
    "columns": lambda folder: ("columns", folder, "--parquet", folder / "m.parquet"),
    "find": lambda folder: ("find", clips(1)[0].key, folder),
    "gc": lambda folder: ("gc", folder, "--dry-run"),
    "simulate": lambda folder: ("simulate", folder, "--world-size", 2, "--batch-size", 2, "--cache-limit", "1gb"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_json_is_one_object_on_standard_output(run, made, tmp_path, command):
    folder = tmp_path / "out"
    shutil.copytree(made[0], folder)
    (folder / "plain").mkdir()
    shutil.copy(min((folder / "audio").glob("*.tar")), folder / "plain/a.tar")
    code, out, _ = run(*command(folder), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)


def test_json_of_verify_lists_faults_and_keeps_the_exit_code(run, made, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(made[0], folder)
    shard = min((folder / "audio").glob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:-512])
    code, out, _ = run("verify", folder, "--json")
    assert code == 1
    assert any(shard.name in fault["where"] for fault in json.loads(out)["faults"])


@pytest.mark.parametrize("what", ["rec", "rec-s000001"])
def test_rows_left_of_a_recording_that_was_cut_are_found_by_its_key(run, made, tmp_path, what):
    shutil.copytree(made[0], tmp_path / "output")
    parts = tmp_path / "output/catalog/columns/gone/parts"
    parts.mkdir(parents=True)
    keys = ["other", "rec-s000000", "rec-s000001"]
    pl.DataFrame({"key": keys, "text": ["a", "b", "c"]}).write_parquet(parts / "train-0000-0123.parquet")
    (one,) = json.loads(run("find", what, tmp_path / "output", "--json")[1])["found"]
    assert (one["part"], one["file"]) == ("catalog", "columns/gone/parts/train-0000-0123.parquet")
    assert run("find", "recorded", tmp_path / "output")[0] == 1


TITLES = ("a/Smells Like Teen Spirit.flac", "Live In Berlin.wav", "song (live).wav")
CONDITIONS = ("speaker in (1, 2)", "text like 'a.wav", "snr > 3.5", "n IS NULL", "speaker in (1, 2")  # two with a fault


@pytest.mark.parametrize("what", TITLES + CONDITIONS)
def test_titles_of_recordings_are_no_conditions(what):
    assert is_condition(what) is (what in CONDITIONS)
