"""Paths of the rows of a corpus: they are names in its listing, and a row whose recording is missing says so."""

import io
import json
import tarfile

import pytest

from tests.support.corpora import write_sound
from tests.support.yaml_corpora import YamlCorpus

NAMES = ("a.wav", "./a.wav", "/a.wav", "../a.wav", "x//a.wav", "x/./a.wav", "./x/../a.wav", "x/.y/a.wav", "\xe9.wav")
WITHOUT = "metadata_without_file"


@pytest.fixture
def corpus(tmp_path):
    return YamlCorpus(tmp_path)


def put_tar(corpus, name, *members):
    """Write a tar of sounds."""
    content = write_sound(corpus.folder / "sound.wav", 1).read_bytes()
    (corpus.corpus / name).parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(corpus.corpus / name, "w") as tar:
        for member in members:
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def put_lines(corpus, name, *rows):
    corpus.write(name, "".join(json.dumps(row) + "\n" for row in rows))


def nemo_rows(*names):
    return [{"audio_filepath": name, "duration": 0.05, "shard_id": 0} for name in names]


def webdataset(corpus, name):
    put_tar(corpus, "a.tar", name)
    return {"kind": "webdataset"}


def nemo(corpus, name):
    put_tar(corpus, "audio_0.tar", name)
    put_lines(corpus, "tarred_audio_manifest.json", *nemo_rows(name))
    return {"kind": "nemo"}


def nemo_beside(corpus, name):
    """A tar outside of the folder of the manifest, which is `source.uri`."""
    put_tar(corpus, "audio_0.tar", name)
    put_lines(corpus, "sharded_manifests/manifest_0.json", *nemo_rows(name))
    return {"kind": "nemo", "uri": str(corpus.corpus / "sharded_manifests/manifest_0.json")}


@pytest.mark.parametrize("kind", [webdataset, nemo, nemo_beside])
@pytest.mark.parametrize("name", NAMES)
def test_a_member_of_any_name_is_a_sample(corpus, kind, name):
    scan = corpus.scan(**kind(corpus, name))
    assert scan.rejected["reason"].to_list() == []
    assert [path.endswith(f".tar/{name}") for path in scan.recordings["path"]] == [True]


def nemo_missing(corpus, name):
    source = nemo(corpus, "good.wav")
    put_lines(corpus, "tarred_audio_manifest.json", *nemo_rows("good.wav", name))
    return source, f"audio_0.tar/{name}"


def nemo_missing_beside(corpus, name):
    source = nemo_beside(corpus, "good.wav")
    put_lines(corpus, "sharded_manifests/manifest_0.json", *nemo_rows("good.wav", name))
    return source, f"{corpus.corpus}/audio_0.tar/{name}"


def kaldi_missing(corpus, name):
    corpus.put("good.wav")
    corpus.write("wav.scp", "good good.wav\n")
    corpus.write("segments", f"s-good good 0 0.01\ns-{name} {name} 0 0.01\n")
    return {"kind": "kaldi"}, f"wav.scp#{name}"


def lhotse_missing(corpus, name):
    corpus.put("good.wav")
    sources = [{"type": "file", "channels": [0], "source": "good.wav"}]
    put_lines(corpus, "recordings.jsonl", {"id": "good", "sources": sources, "sampling_rate": 8000})
    told = ({"id": f"s-{of}", "recording_id": of, "start": 0, "duration": 0.01} for of in ("good", name))
    put_lines(corpus, "supervisions.jsonl", *told)
    return {"kind": "lhotse"}, f"recording#{name}"


def webdataset_missing(corpus, name):
    """A sample without audio."""
    put_tar(corpus, "a.tar", "good.wav", name.replace(".wav", ".pth"))
    return {"kind": "webdataset"}, f"a.tar/{name.replace('.wav', '.pth')}"


@pytest.mark.parametrize("kind", [nemo_missing, nemo_missing_beside, kaldi_missing, lhotse_missing, webdataset_missing])
@pytest.mark.parametrize("name", ["a.wav", "/a.wav", "../a.wav", "x/.y/a.wav"])
def test_a_row_without_recording_names_what_is_missing(corpus, kind, name):
    source, path = kind(corpus, name)
    scan = corpus.scan(**source)
    assert scan.recordings.height == 1
    (reject,) = scan.rejected.to_dicts()
    assert (reject["path"], reject["code"]) == (path, WITHOUT)
    assert f"names {path}, which is not a recording of the source" in reject["reason"]
