"""NeMo manifests, plain and tarred, from the YAML to samples."""

import io
import json
import tarfile

import pytest

from headrace.errors import ConfigError
from headrace.sources.sources import open_corpus
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, KindBuilds, build, sound, text, write_sound

NUMBERS = range(NUM_UTTERANCES)


def write_manifest(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n\n" for row in rows))


def write_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def rows_of(uri):
    return list(open_corpus("nemo", str(uri), {}).rows().read())


def paths_of(uri):
    return {path for chunk in open_corpus("nemo", str(uri), {}).list() for path in chunk.path}


class TestManifest(KindBuilds, CorpusContract):
    kind = "nemo"

    def uri(self, folder):
        return str(folder / "corpus/train.json")

    def write(self, folder):
        paths = [sound(folder / "corpus/wav", number) for number in NUMBERS]
        names = [f"wav/{path.name}" if number % 2 else str(path) for number, path in enumerate(paths)]
        rows = [
            {"audio_filepath": name, "duration": (400 + 10 * number) / 8000, "text": text(number)}
            for number, name in enumerate(names)
        ]
        write_manifest(folder / "corpus/train.json", rows)

    def change(self, folder):
        sound(folder / "corpus/wav", 1, seed=100)
        return Change("wav/utt-1.wav")

    def spoil(self, folder):
        (folder / "corpus/wav/utt-1.wav").write_bytes(b"no sound")

    def retext(self, folder):
        manifest = folder / "corpus/train.json"
        manifest.write_text(manifest.read_text().replace("text 2", "other"))

    def harm(self, folder):
        with (folder / "corpus/train.json").open("a") as file:
            file.write(json.dumps({"audio_filepath": "../gone.wav", "duration": 1, "text": "x"}))
        return {f"{folder}/gone.wav": "unreadable"}


class TestTarred(KindBuilds, CorpusContract):
    """Two tars with a manifest for each."""

    kind = "nemo"

    def write(self, folder):
        self.write_tars(folder)

    def write_tars(self, folder, *, seed=1, content=None):
        for shard in (0, 1):
            members, rows = {}, []
            for number in (number for number in NUMBERS if number % 2 == shard):
                path = sound(folder / "made", number, seed=seed if number == 1 else number, extension="flac")
                members[f"_d_utt-{number}.flac"] = content if number == 1 and content else path.read_bytes()
                duration = (400 + 10 * number) / 8000
                rows.append(
                    {
                        "audio_filepath": f"_d_utt-{number}.flac",
                        "duration": duration,
                        "text": text(number),
                        "shard_id": shard,
                    }
                )
            if shard or not (folder / "corpus/audio_0.tar").exists():
                write_tar(folder / f"corpus/audio_{shard}.tar", members)
                write_manifest(folder / f"corpus/sharded_manifests/manifest_{shard}.json", rows)

    def change(self, folder):
        self.write_tars(folder, seed=100)
        others = {f"audio_1.tar/_d_utt-{number}.flac" for number in (3, 5)}
        return Change("audio_1.tar/_d_utt-1.flac", frozenset(others))

    def spoil(self, folder):
        self.write_tars(folder, content=b"no sound")

    def retext(self, folder):
        manifest = folder / "corpus/sharded_manifests/manifest_0.json"
        manifest.write_text(manifest.read_text().replace("text 2", "other"))

    def harm(self, folder):
        (folder / "corpus/audio_2.tar").write_bytes(b"no tar" * 200)
        return {"audio_2.tar": "unreadable"}


class TestTarredWithOneManifest(TestTarred):
    def write_tars(self, folder, **changes):
        super().write_tars(folder, **changes)
        manifests = sorted((folder / "corpus/sharded_manifests").glob("*.json"))
        whole = folder / "corpus/tarred_audio_manifest.json"
        whole.exists() or whole.write_text("".join(path.read_text() for path in manifests))

    def retext(self, folder):
        manifest = folder / "corpus/tarred_audio_manifest.json"
        manifest.write_text(manifest.read_text().replace("text 2", "other"))

    def harm(self, folder):
        with (folder / "corpus/tarred_audio_manifest.json").open("a") as file:
            file.write(json.dumps({"audio_filepath": "x.flac", "duration": 1, "shard_id": 9}))
        return {"audio_9.tar/x.flac": "unreadable"}


def test_offsets_are_spans_and_columns_keep_their_names(tmp_path):
    write_sound(tmp_path / "long.wav", 1, frames=8000)
    spans = [(0.25, 0.5), (0.5, 0.25)]
    rows = [
        {"audio_file": "long.wav", "offset": start, "duration": seconds, "text": "a", "lang": "en", "path": "mine"}
        for start, seconds in spans
    ]
    write_manifest(tmp_path / "m.json", rows)
    found = build(tmp_path, {"kind": "nemo", "uri": "m.json"})
    lengths = {sample["metadata"]["offset"]: sample["audio"].shape[-1] for sample in found.samples.values()}
    assert lengths == {0.25: 4000, 0.5: 2000}
    (first, *_) = found.samples.values()
    own = {name: value for name, value in first["metadata"].items() if name not in {"headrace", "offset", "duration"}}
    assert own == {"audio_file": "long.wav", "text": "a", "lang": "en", "own_path": "mine"}


@pytest.mark.medium
@pytest.mark.parametrize("mark", [True, 1, 1.0, "true"])
def test_rows_with_skipme_are_left_out_and_counted_and_their_files_are_no_rejects(tmp_path, mark):
    for name in ("a", "b", "c"):
        write_sound(tmp_path / f"{name}.wav", 1 if name == "a" else 2)
    rows = [
        {"audio_filepath": "a.wav", "duration": 0.05, "_skipme": False},
        {"audio_filepath": "b.wav", "duration": 0.05, "_skipme": mark},
        {"audio_filepath": "c.wav", "duration": 0.05},
    ]
    write_manifest(tmp_path / "m.json", rows)
    found = build(tmp_path, {"kind": "nemo", "uri": "m.json"})
    scan = found.scan
    assert (len(found.samples), scan.num_found, scan.num_rows, scan.num_left_out_rows) == (2, 2, 3, 1)
    assert not found.rejects


@pytest.mark.medium
def test_members_of_which_all_rows_are_skipped_are_left_out_and_others_without_rows_are_rejected(tmp_path):
    members = {
        name: write_sound(tmp_path / name, seed).read_bytes() for seed, name in enumerate(("a.wav", "b.wav", "c.wav"))
    }
    write_tar(tmp_path / "tars/audio_0.tar", members)
    rows = [
        {"audio_filepath": "a-sub1.wav", "offset": 0, "duration": 0.02},
        {"audio_filepath": "a-sub2.wav", "offset": 0.02, "duration": 0.02},
        {"audio_filepath": "b.wav", "duration": 0.05, "_skipme": 1},
    ]
    write_manifest(tmp_path / "tars/tarred_audio_manifest.json", [{**row, "shard_id": 0} for row in rows])
    found = build(tmp_path, {"kind": "nemo", "uri": "tars"})
    assert found.rejects == {"audio_0.tar/c.wav": "no_row"}
    assert sorted(sample["audio"].shape[-1] for sample in found.samples.values()) == [160, 160]


@pytest.mark.medium
@pytest.mark.parametrize(
    "uri",
    [
        "m_0.json,sub/m_1.json",
        "m__OP_0..0_CL_.json,sub/m_1.json",
        "{m_0,sub/m_1}.json",
        "[m_0,sub/m_1].json",
    ],
)
def test_several_manifests_each_with_paths_relative_to_its_folder(tmp_path, uri):
    for number, folder in enumerate((tmp_path, tmp_path / "sub")):
        write_sound(folder / "a.wav", number)
        write_manifest(folder / f"m_{number}.json", [{"audio_filepath": "a.wav", "duration": 0.05, "text": "t"}])
    found = build(tmp_path, {"kind": "nemo", "uri": uri})
    sources = {sample["metadata"]["headrace"]["source"] for sample in found.samples.values()}
    assert sources == {"a.wav", "sub/a.wav"}


@pytest.mark.parametrize(
    "uri", ["", "m_*.json", "m__OP_0..1_CL_.json", "m_(0..1).json", "m_<0..1>.json", "m_{0..1}.json"]
)
def test_patterns_and_folders_name_manifests(tmp_path, uri):
    for number in (0, 1):
        write_sound(tmp_path / f"{number}.wav", number)
        write_manifest(tmp_path / f"m_{number}.json", [{"audio_filepath": f"{number}.wav", "duration": 0.05}])
    assert paths_of(f"{tmp_path}/{uri}") == {"0.wav", "1.wav"}
    assert len(rows_of(f"{tmp_path}/{uri}")) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", r"m\.json, line 2: not valid JSON"),
        ("[]", r"m\.json, line 2: expected one JSON object"),
        ('{"text": "a"}', r"m\.json, line 2: expected text in audio_filepath or audio_file"),
        ('{"audio_filepath": 7}', r"m\.json, line 2: expected text in audio_filepath"),
    ],
)
def test_a_line_that_is_not_a_row_is_an_error_with_file_and_line(tmp_path, line, reason):
    (tmp_path / "m.json").write_text('{"audio_filepath": "a.wav", "duration": 1}\n' + line)
    with pytest.raises(ConfigError, match=reason):
        rows_of(tmp_path / "m.json")


@pytest.mark.parametrize("uri", ["pipe:cat m.json", "gone.json", "gone_{0..1}.json", "empty"])
def test_a_manifest_that_is_not_there_or_is_a_command_is_an_error(tmp_path, uri):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"commands are not run|there is no"):
        rows_of(tmp_path / uri)
