"""`build.py` on mistakes: exit codes, and errors that say what to do."""

import shutil

import pytest

import build
from headrace.errors import BuildError
from tests.support.six_tones import run


def test_an_unusable_home_is_reported_without_a_traceback(project, home, capsys):
    home.write_text("a file")
    assert run(project) == 2
    assert f"DAGSTER_HOME {home}" in capsys.readouterr().err
    home.unlink()
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: [")
    assert run(project) == 2
    assert str(home / "dagster.yaml") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("encoder", "says"),
    [
        (
            {"kind": "nope"},
            ".kind: expected one of crepe, custom, fbank, kmeans, log_mel, onnx, text, transformers; found 'nope'",
        ),
        ({"kind": "log_mel", "hops": 3}, ": encoder log_mel: unknown setting 'hops'"),
    ],
)
def test_an_invalid_encoder_is_an_error_before_anything_is_built(project, capsys, encoder, says):
    project.write_yaml(latents=[{"name": "mel", "encoder": encoder}])
    assert run(project) == 2
    shown = capsys.readouterr().err
    assert f"latents[0] (mel).encoder{says}" in shown
    assert "tones.yaml: " in shown
    assert not project.output.exists()


def test_a_feature_that_cannot_be_imported_is_an_error_before_anything_is_built(project, capsys):
    project.write_yaml(features=[{"name": "mine", "kind": "custom", "feature": "no_such_module:peak"}])
    assert run(project) == 2
    assert "tones.yaml: features[0] (mine): feature custom: no_such_module:peak: importing" in capsys.readouterr().err
    assert not project.output.exists()


@pytest.mark.medium
def test_two_datasets_with_one_output_are_an_error(project, capsys):
    (project.datasets / "copy.yaml").write_text((project.datasets / "tones.yaml").read_text())
    assert run(project) == 2
    assert "is also the output of copy.yaml" in capsys.readouterr().err
    (project.datasets / "copy.yaml").write_text("source: {uri: x")  # an error in another file
    assert run(project) == 0


@pytest.mark.medium
def test_some_rejected_files_are_shown_and_do_not_fail_the_build(built, capsys):
    (built.recordings / "empty.wav").touch()
    (built.recordings / "cover.jpg").write_bytes(b"\xff\xd8\xff not audio")
    assert run(built) == 0
    shown = capsys.readouterr().out
    assert "empty" in shown
    assert "cover.jpg" in shown
    assert "2 rejected" in shown


@pytest.mark.medium
def test_a_source_in_which_every_file_is_rejected_fails_the_build_with_reasons(project, capsys):
    for path in project.recordings.iterdir():
        path.write_bytes(b"")
    assert run(project) == 1
    shown = capsys.readouterr().out
    assert "none is usable" in shown
    assert "empty" in shown


@pytest.mark.medium
def test_an_empty_source_fails_the_build_with_a_reason(project, capsys):
    for path in project.recordings.iterdir():
        path.unlink()
    assert run(project) == 1
    assert "the folder has no files" in capsys.readouterr().out


@pytest.mark.medium
def test_a_missing_source_folder_fails_the_build_without_a_traceback(project, capsys):
    shutil.rmtree(project.recordings)
    assert run(project) != 0
    captured = capsys.readouterr()
    assert "no such folder" in captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err


def test_an_unknown_dataset_is_a_usage_error_with_a_hint(project, capsys):
    assert build.main(["tunes", "--datasets", str(project.datasets)]) == 2
    assert "did you mean tones" in capsys.readouterr().err


def test_an_invalid_yaml_is_a_usage_error_that_names_file_key_and_expectation(project, capsys):
    (project.datasets / "tones.yaml").write_text("source: {uri: x}\noutput: {uri: y}\naudio: {bits_per_sample: 20}\n")
    assert run(project) == 2
    shown = capsys.readouterr().err
    assert "tones.yaml" in shown
    assert "audio.bits_per_sample" in shown
    assert "16 or 24" in shown


@pytest.mark.medium
def test_an_invalid_yaml_of_another_dataset_does_not_stop_the_build(built):
    (built.datasets / "other.yaml").write_text("nonsense: true\n")
    assert run(built) == 0


def test_selecting_an_unknown_asset_is_a_usage_error(project, capsys):
    assert run(project, "--select", "audio_shard") == 2
    assert "audio_shards" in capsys.readouterr().err


@pytest.mark.medium
def test_an_error_names_asset_partition_and_reason(project, monkeypatch, capsys):
    def fail(*_, **__):
        raise BuildError("the disk is full; make room and build again")

    monkeypatch.setattr("headrace_dagster.assets.audio_shards.build_partition", fail)
    assert run(project) == 1
    shown = capsys.readouterr().out
    assert "failed tones/audio_shards [train-0000]: the disk is full; make room and build again" in shown
