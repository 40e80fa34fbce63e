"""Corpora by the writers of other packages, each in an environment of its own, read here without an edit.

`make writers` runs these tests, and writes what was read, with the versions of the packages, to
`benchmarks/results/writers.json`.
"""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from headrace.adopt.command import adopt
from tests.support.corpora import NUM_UTTERANCES, build, sound, text
from tests.support.environments import make_environment

SCRIPTS = Path(__file__).parent / "writers"
NUMBERS = range(NUM_UTTERANCES)
RESULTS = os.environ.get("HEADRACE_WRITERS_JSON")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results():
    """Figures of what was read; written to a file on request."""
    found = []
    yield found
    if RESULTS:
        Path(RESULTS).write_text(json.dumps(found, indent=1) + "\n")


@pytest.fixture(scope="module")
def wavs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wavs")
    names = {sound(folder, number).stem: text(number) for number in NUMBERS}
    (folder / "texts.json").write_text(json.dumps(names))
    return folder


@pytest.fixture(scope="module")
def plain(wavs, tmp_path_factory):
    """Text → PCM of the recordings as a folder and a table."""
    folder = tmp_path_factory.mktemp("plain")
    names = json.loads((wavs / "texts.json").read_text())
    (folder / "table.csv").write_text(
        "".join(["path,text\n", *(f"{name}.wav,{said}\n" for name, said in names.items())])
    )
    return build(folder, {"uri": str(wavs), "metadata": str(folder / "table.csv"), "ignore": ["*.json"]}).by_text()


@pytest.fixture(scope="module")
def written(wavs, tmp_path_factory):
    """The corpora of all writers, and the versions of the packages."""
    target, versions = tmp_path_factory.mktemp("written"), {}
    folder = tmp_path_factory.mktemp("writers") / "venv"
    programs = make_environment(folder, "--no-deps", "-r", f"{SCRIPTS}/requirements.txt", beside_ours=True)
    for script in ("write_with_lhotse.py", "write_with_datasets.py"):
        done = subprocess.run(
            [programs / "python", SCRIPTS / script, wavs, target], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        versions |= json.loads(done.stdout.splitlines()[-1])
    write_nemo(wavs, target / "nemo")
    yield target, versions
    shutil.rmtree(folder)


def write_nemo(wavs, folder):
    """The layout of NeMo's convert_to_tarred_audio_dataset.py, rebuilt: names of members, manifests of shards."""
    (folder / "sharded_manifests").mkdir(parents=True)
    rows = []
    for shard in range(2):
        own = []
        with tarfile.open(folder / f"audio_{shard}.tar", "w") as tar:
            for number in (one for one in NUMBERS if one % 2 == shard):
                path = wavs / f"utt-{number}.wav"
                name = str(path.with_suffix("")).replace("/", "_").replace(".", "_") + ".wav"
                tar.add(path, name)
                seconds = (400 + 10 * number) / 8000
                own.append({"audio_filepath": name, "duration": seconds, "text": text(number), "shard_id": shard})
        lines = "".join(f"{json.dumps(row)}\n" for row in own)
        (folder / f"sharded_manifests/manifest_{shard}.json").write_text(lines)
        rows += own
    (folder / "tarred_audio_manifest.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "metadata.yaml").write_text("num_samples_per_shard: 3\n")


@pytest.mark.parametrize(
    ("name", "writer", "source"),
    [
        ("manifests", "lhotse", {"kind": "lhotse"}),
        ("cuts", "lhotse", {"kind": "lhotse"}),
        ("shar", "lhotse", {"kind": "lhotse"}),
        ("kaldi", "lhotse", {"kind": "kaldi"}),
        ("parquet", "datasets", {"kind": "parquet", "uri": "data"}),
        ("tars", "webdataset", {"kind": "webdataset"}),
        ("nemo", None, {"kind": "nemo"}),
    ],
)
def test_a_corpus_of_another_writer_is_read_without_an_edit(  # noqa: PLR0913, PLR0917 - fixtures
    name, writer, source, written, plain, results, tmp_path, capsys
):
    target, versions = written
    uri = str(target / name / source.get("uri", "")).rstrip("/")
    found = build(tmp_path, {**source, "uri": uri})
    assert found.rejects == {}
    assert found.by_text() == plain
    assert adopt([str(target / name), "--yaml", str(tmp_path / "adopted.yaml"), "--json"]) == 0
    adopted = json.loads(capsys.readouterr().out)
    assert (adopted["source"]["kind"], adopted["faults"], len(adopted["samples"])) == (source["kind"], [], 5)
    results.append(
        {
            "layout": name,
            "written_by": f"{writer} {versions[writer]}" if writer else "NeMo's layout, rebuilt",
            "kind": source["kind"],
            "samples": len(found.samples),
            "equal": True,
            "adopted_as": adopted["layout"],
        }
    )
