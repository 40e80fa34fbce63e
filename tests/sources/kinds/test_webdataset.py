"""Members of anybody's tars as recordings, from the YAML to samples."""

import gzip
import io
import json
import tarfile
from typing import ClassVar

import pytest

from headrace.errors import ConfigError
from headrace.sources.listing import FileStamp
from headrace.sources.sources import open_corpus
from headrace.stores.storage import open_storage
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, KindBuilds, build, sound, text, write_sound
from tests.support.s3 import new_bucket
from tests.support.streaming.fault_server import BUCKET, fault_server

NUMBERS = range(NUM_UTTERANCES)


def tar_of(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def write_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_of(members))


def rows_of(uri, **options):
    return list(open_corpus("webdataset", str(uri), options).rows().read())


def codes_of(uri, **options):
    chunks = open_corpus("webdataset", str(uri), options).list()
    return {path: code for chunk in chunks for path, code in zip(chunk.path, chunk.code, strict=True)}


class TestJson(KindBuilds, CorpusContract):
    """Two tars of samples with audio and JSON."""

    kind = "webdataset"

    def write(self, folder):
        self.members = {
            number: {
                f"utt-{number}.wav": sound(folder / "made", number).read_bytes(),
                **self.beside(number, text(number)),
            }
            for number in NUMBERS
        }
        self.write_tars(folder, 0, 1)

    def beside(self, number, said):
        return {f"utt-{number}.json": json.dumps({"text": said, "number": number}).encode()}

    def write_tars(self, folder, *shards):
        for shard in shards:
            members = [item for number in NUMBERS if number % 2 == shard for item in self.members[number].items()]
            write_tar(folder / f"corpus/part-{shard}.tar", dict(members))

    def change(self, folder):
        self.members[1]["utt-1.wav"] = sound(folder / "made", 1, seed=100).read_bytes()
        self.write_tars(folder, 1)
        return Change("part-1.tar/utt-1.wav", frozenset({"part-1.tar/utt-3.wav", "part-1.tar/utt-5.wav"}))

    def spoil(self, folder):
        self.members[1]["utt-1.wav"] = b"no sound"
        self.write_tars(folder, 1)

    def retext(self, folder):
        self.members[2] |= self.beside(2, "other")
        self.write_tars(folder, 0)

    def harm(self, folder):
        self.members[1]["utt-1.json"] = b"{"
        self.members[0] |= {"list.wav": b"x", "list.json": b"[]"}
        self.write_tars(folder, 0, 1)
        with tarfile.open(folder / "corpus/part-2.tar", "w") as tar:
            link = tarfile.TarInfo("link.wav")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
            tar.addfile(link)
        (folder / "corpus/part-3.tar").write_bytes(b"no tar" * 200)
        names = ("part-1.tar/utt-1.wav", "part-0.tar/list.wav", "part-2.tar/link.wav", "part-3.tar")
        return dict.fromkeys(names, "unreadable")


class TestText(TestJson):
    """Samples with a transcript beside the audio, as WeNet has them, named by a pattern."""

    options: ClassVar[dict] = {"key_at": "last_dot"}

    def uri(self, folder):
        return str(folder / "corpus/part-*.tar")

    def beside(self, number, said):
        return {f"utt-{number}.txt": f"{said}\n".encode()}

    def harm(self, folder):
        self.members[1]["utt-1.txt"] = b"caf\xe9"
        self.write_tars(folder, 1)
        return {"part-1.tar/utt-1.wav": "unreadable"}


class TestBucket(TestJson):
    """Tars in a bucket: members are fetched by ranges."""

    @pytest.fixture(autouse=True)
    def _bucket(self, s3_server, monkeypatch):
        self.url = new_bucket(s3_server, monkeypatch)

    def uri(self, folder):
        return f"{self.url}/set"

    def write_tars(self, folder, *shards):
        super().write_tars(folder, *shards)
        for shard in shards:
            open_storage(self.url).write(f"set/part-{shard}.tar", (folder / f"corpus/part-{shard}.tar").read_bytes())

    def harm(self, folder):
        self.members[1]["utt-1.json"] = b"{"
        self.write_tars(folder, 1)
        return {"part-1.tar/utt-1.wav": "unreadable"}


def test_the_keys_of_the_json_are_columns_and_txt_is_text(tmp_path):
    members = {
        "a/x.wav": write_sound(tmp_path / "x.wav", 1).read_bytes(),
        "a/x.json": json.dumps({"speaker": "ann", "tags": ["a"], "id": 7, "path": "old.wav", "headrace": 1}).encode(),
        "a/x.txt": b"said",
        "a/x.cls": b"3",
    }
    write_tar(tmp_path / "tars/a.tar", members)
    found = build(tmp_path, {"kind": "webdataset", "uri": "tars"})
    ((key, sample),) = found.samples.items()
    about = sample["metadata"].pop("headrace")
    assert key.startswith("a_x-")
    assert about["source"] == "a.tar/a/x.wav"
    own = {"own_id": 7, "own_path": "old.wav", "own_headrace": 1}
    assert sample["metadata"] == {"id": "a/x", "speaker": "ann", "tags": ["a"], "text": "said", **own}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_text_has_no_line_end_and_no_byte_order_mark(tmp_path, mark):
    write_tar(tmp_path / "a.tar", {"x.wav": b"1", "x.json": mark + b'{"n": 1}\r\n', "x.txt": mark + b"said\r\n"})
    (row,) = rows_of(tmp_path / "a.tar")
    assert (row["n"], row["text"]) == (1, "said")


def test_json_in_another_encoding_is_a_fault_as_for_the_loaders(tmp_path):
    write_tar(tmp_path / "a.tar", {"x.wav": b"1", "x.json": '{"n": 1}'.encode("utf-16")})
    assert codes_of(tmp_path / "a.tar") == {"a.tar/x.wav": "unreadable"}


@pytest.mark.medium
def test_names_that_the_kind_gives_are_kept_beside_its_own(tmp_path):
    wav = write_sound(tmp_path / "x.wav", 1).read_bytes()
    names = ("id", "own_id", "path", "mix_path", "own_mix_path", "text", "headrace")
    about = json.dumps({name: f"mine {name}" for name in names}).encode()
    write_tar(tmp_path / "tars/a.tar", {"x.mix.wav": wav, "x.voc.wav": wav, "x.json": about, "x.txt": b"said"})
    source = {"kind": "webdataset", "uri": "tars", "options": {"audio_fields": ["mix", "voc"]}}
    ((_, sample),) = build(tmp_path, source).samples.items()
    assert (sample["metadata"]["id"], sample["metadata"]["text"]) == ("x", "said")
    assert {name: sample["metadata"][f"own_{name}"] for name in names} == {name: f"mine {name}" for name in names}
    (row,) = rows_of(tmp_path / "tars")
    assert (row["id"], row["path"], row["mix_path"]) == ("x", "a.tar/x.mix.wav", "mine mix_path")


@pytest.mark.parametrize(("key_at", "ids"), [("first_dot", ["x"]), ("last_dot", ["x.1", "x.2"])])
def test_key_at_says_where_keys_end(tmp_path, key_at, ids):
    write_tar(tmp_path / "a.tar", {"x.1.wav": b"1", "x.2.wav": b"2"})
    assert [row["id"] for row in rows_of(tmp_path / "a.tar", key_at=key_at)] == ids
    assert set(codes_of(tmp_path / "a.tar", key_at=key_at)) == {"a.tar/x.1.wav", "a.tar/x.2.wav"}


@pytest.mark.medium
def test_a_sample_without_audio_is_a_row_that_names_no_recording(tmp_path):
    wav = write_sound(tmp_path / "x.wav", 1).read_bytes()
    write_tar(tmp_path / "tars/a.tar", {"x.wav": wav, "x.txt": b"a", "y.txt": b"b"})
    found = build(tmp_path, {"kind": "webdataset", "uri": "tars"})
    assert found.rejects == {"a.tar/y.txt": "metadata_without_file"}
    assert set(found.samples) == {"x"}


def test_audio_fields_become_fields_of_the_samples(tmp_path):
    parts = {
        name: write_sound(tmp_path / f"{name}.wav", seed).read_bytes() for seed, name in enumerate(("mix", "voice"))
    }
    write_tar(tmp_path / "tars/a.tar", {f"song.{name}.wav": content for name, content in parts.items()})
    source = {"kind": "webdataset", "uri": "tars", "options": {"audio_fields": ["mix", "voice"]}}
    found = build(tmp_path, source)
    assert {"mix", "voice"} <= found.samples["song"].keys()
    assert not found.rejects


@pytest.mark.medium
def test_keys_that_come_in_several_tars_are_rejected_unless_paths_make_the_keys(tmp_path):
    for number in (1, 2):
        write_tar(tmp_path / f"tars/{number}.tar", {"x.wav": write_sound(tmp_path / "x.wav", number).read_bytes()})
    source = {"kind": "webdataset", "uri": "tars"}
    assert "duplicate_key" in build(tmp_path, source).rejects.values()
    assert len(build(tmp_path, {**source, "columns": {"key": None}}).samples) == 2


def test_a_folder_without_tars_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=str(tmp_path)):
        rows_of(tmp_path)


def test_tars_on_a_web_server_are_read_by_ranges(tmp_path):
    write_tar(tmp_path / "made/a.tar", {"x.wav": write_sound(tmp_path / "x.wav", 1).read_bytes(), "x.txt": b"said"})
    with fault_server(tmp_path / "made") as server:
        uri = f"http://127.0.0.1:{server.port}/{BUCKET}/{{a..a}}.tar"
        samples = build(tmp_path, {"kind": "webdataset", "uri": uri}).samples
    assert samples["x"]["metadata"]["text"] == "said"
    assert any(request.span for request in server.requests)


def test_recordings_in_a_tar_whose_suffix_has_capital_letters_are_opened(tmp_path):
    write_tar(tmp_path / "PART.TAR", {"a.wav": b"sound"})
    corpus = open_corpus("webdataset", str(tmp_path), {})
    (listing,) = corpus.list()
    stamp = FileStamp(listing.num_bytes[0], listing.mtime_ns[0], listing.ctime_ns[0])
    with corpus.open(listing.path[0], stamp) as file:
        assert file.read() == b"sound"


def test_compressed_tars_alone_are_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar_of({"x.txt": b"said"})))
    with pytest.raises(ConfigError, match=r"a\.tar\.gz: a compressed tar is not read in place; unpack it"):
        rows_of(tmp_path / "a.tar.gz")
