"""Records of TFRecord files as recordings, from the YAML to samples."""

import gc
import gzip
import re
import struct
import tracemalloc

import pytest

from headrace.errors import ConfigError
from headrace.sources.kinds import tfrecord
from headrace.sources.kinds.crc32c import crc32c
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import Kept
from headrace.sources.sources import open_corpus
from headrace.stores.storage import open_storage
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, KindBuilds, build, sound, text, write_sound
from tests.support.s3 import new_bucket
from tests.support.tfrecords import example, masked, record, write_records

NUMBERS = range(NUM_UTTERANCES)


def rows_of(uri, **options):
    return list(open_corpus("tfrecord", str(uri), options).rows().read())


def faults_of(uri, **options):
    chunks = open_corpus("tfrecord", str(uri), options).list()
    return {path: reason for chunk in chunks for path, reason in zip(chunk.path, chunk.reason, strict=True)}


class TestPlain(KindBuilds, CorpusContract):
    """Two files as TensorFlow Datasets names them."""

    kind = "tfrecord"
    file = "speech-train.tfrecord-0000{}-of-00002"

    def write(self, folder):
        self.sounds = {number: sound(folder / "made", number).read_bytes() for number in NUMBERS}
        self.texts = {number: text(number) for number in NUMBERS}
        self.write_files(folder, 0, 1)

    def path(self, part, number):
        return f"{self.file.format(part)}/{number}"

    def records(self, part):
        numbers = [number for number in NUMBERS if number % 2 == part]
        features = [{"speech": [self.sounds[one]], "text": [self.texts[one].encode()]} for one in numbers]
        return [example(one) for one in features]

    def write_files(self, folder, *parts, more=()):
        for part in parts:
            records = [*self.records(part), *(more if part == 1 else ())]
            write_records(folder / "corpus" / self.file.format(part), records, crc32c)

    def change(self, folder):
        self.sounds[1] = sound(folder / "made", 1, seed=100).read_bytes()
        self.write_files(folder, 1)
        return Change(self.path(1, 0), frozenset({self.path(1, 1), self.path(1, 2)}))

    def spoil(self, folder):
        self.sounds[1] = b"no sound"
        self.write_files(folder, 1)

    def retext(self, folder):
        self.texts[2] = "other"
        self.write_files(folder, 0)

    def harm(self, folder):
        odd = [{"text": [b"x"]}, {"speech": [b"a", b"b"]}, {"speech": [1.0]}]
        self.write_files(folder, 1, more=[b"\x0a\x7f", *map(example, odd)])
        return {self.path(1, number): "unreadable" for number in (3, 4, 5, 6)}


class TestGzip(TestPlain):
    file = "part-{}.tfrecord.gz"


class TestBucket(TestPlain):
    """Plain files in a bucket: the audio is fetched by ranges."""

    @pytest.fixture(autouse=True)
    def _bucket(self, s3_server, monkeypatch):
        self.url = new_bucket(s3_server, monkeypatch)

    def uri(self, folder):
        return f"{self.url}/set"

    def write_files(self, folder, *parts, more=()):
        super().write_files(folder, *parts, more=more)
        for part in parts:
            name = self.file.format(part)
            open_storage(self.url).write(f"set/{name}", (folder / "corpus" / name).read_bytes())


def test_features_of_text_and_few_numbers_are_columns_and_others_are_left_out(tmp_path):
    wav = write_sound(tmp_path / "a.wav", 1).read_bytes()
    whole = {
        "speech": [wav], "text": ["é".encode()], "tags": [b"a", b"b"],
        "label": [3], "scores": [0.5, 0.25], "snr": [0.5],
        "spectrum": [0.0] * 1001, "picture": [b"\x89PNG\xff"], "path": [b"mine"], "id": [b"one"],
    }  # fmt: skip
    odd = {"speech": [wav[:-2]], "tags": [b"c"], "snr": [float("nan")], "label": []}
    write_records(tmp_path / "a.tfrecord", [example(whole), example(odd)])
    first, second = rows_of(tmp_path / "a.tfrecord")
    assert first == {
        "path": "a.tfrecord/0", "text": "é", "tags": ["a", "b"], "label": 3, "scores": [0.5, 0.25], "snr": 0.5,
        "own_path": "mine", "id": "one",
    }  # fmt: skip
    assert second == {"path": "a.tfrecord/1", "tags": ["c"], "snr": None, "label": None}


def test_the_feature_of_audio_is_named_or_the_only_one(tmp_path):
    wav = write_sound(tmp_path / "a.wav", 1).read_bytes()
    write_records(tmp_path / "a.tfrecord", [example({"mix": [wav], "voice": [wav], "n": [1]})])
    said = r"found 2; source.options.*first record are mix \(bytes\), n \(int\), voice \(bytes\)"
    with pytest.raises(ConfigError, match=said):
        rows_of(tmp_path)
    found = build(tmp_path, {"kind": "tfrecord", "uri": "a.tfrecord", "options": {"audio": "voice"}})
    (sample,) = found.samples.values()
    assert sample["metadata"].pop("headrace")["source"] == "a.tfrecord/0"
    assert sample["metadata"] == {"n": 1}


def read(uri):
    """Path of each record that is no reject → its bytes."""
    corpus, found = open_corpus("tfrecord", str(uri), {}), {}
    for listed in corpus.list():
        for path, reason, *stamp in zip(
            listed.path, listed.reason, listed.num_bytes, listed.mtime_ns, listed.ctime_ns, strict=True
        ):
            if reason is None:
                with corpus.open(path, FileStamp(*stamp)) as file:
                    found[path] = file.read()
    return found


@pytest.mark.parametrize(
    ("harm", "faults"),
    [
        (lambda whole, one: whole[:-3], {2: "ends within it"}),
        (lambda whole, one: whole[: 2 * one + 5], {2: "checksum of its length"}),
        (lambda whole, one: whole[: one + 40] + b"x" + whole[one + 41 :], {1: "its checksum is wrong"}),
        (lambda whole, one: whole[:one] + b"\1" + whole[one + 1 :], {1: "checksum of its length"}),
        (lambda whole, one: whole[:one] + forged(1 << 62), {1: "more than are there"}),
        (lambda whole, one: whole[:one] + forged(1 << 29) + whole[one:], {1: "more than are there|ends within it"}),
    ],
)
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_damage_is_a_reject_and_what_is_before_it_is_read(harm, faults, name, tmp_path):
    wav = write_sound(tmp_path / "a.wav", 1).read_bytes()
    one = record(example({"audio": [wav]}))
    content = harm(3 * one, len(one))
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = faults_of(tmp_path / name)
    rejected = {int(path.rpartition("/")[2]): reason for path, reason in found.items() if reason}
    assert rejected.keys() == faults.keys()
    for number, said in faults.items():
        assert re.search(said, rejected[number])
    assert read(tmp_path / name) == {path: wav for path, reason in found.items() if not reason}


@pytest.mark.parametrize(
    ("harm", "said"), [(lambda data: data[:-5000], "ends early"), (lambda data: data + b"no gzip", "is damaged")]
)
def test_damage_of_a_packed_file_is_a_reject_and_what_is_before_it_is_read(harm, said, tmp_path):
    wavs = [write_sound(tmp_path / f"{number}.wav", number, frames=20_000).read_bytes() for number in range(12)]
    content = b"".join(record(example({"audio": [wav]}), crc32c) for wav in wavs)
    (tmp_path / "a.tfrecord.gz").write_bytes(harm(gzip.compress(content)))
    *good, last = faults_of(tmp_path / "a.tfrecord.gz").values()
    assert good == [None] * len(good)
    assert len(good) > 6
    assert said in last
    assert read(tmp_path / "a.tfrecord.gz") == {f"a.tfrecord.gz/{n}": wav for n, wav in enumerate(wavs[: len(good)])}


@pytest.mark.medium
def test_few_records_before_many_zeros_take_little_memory(tmp_path):
    wav = write_sound(tmp_path / "a.wav", 1).read_bytes()
    content = 3 * record(example({"audio": [wav]})) + b"x" * 20 + bytes(40_000_000)
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(content))
    tracemalloc.start()
    try:
        assert list(read(tmp_path / "a.tfrecord.gz").values()) == [wav] * 3
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.medium
def test_the_rows_of_many_files_hold_the_index_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord, "_contents", Kept(lambda _: 1, 1))
    for number in range(4):
        write_records(tmp_path / f"{number}.tfrecord", [example({"audio": [b"RIFF"], "n": [1] * (1 + number % 2)})])
    before, rows = num_indexes(), open_corpus("tfrecord", str(tmp_path), {}).rows().read()
    assert next(rows)["n"] == [1]
    assert num_indexes() == before + 1


def num_indexes():
    gc.collect()
    return sum(isinstance(one, tfrecord._Contents) for one in gc.get_objects())


def forged(length):
    head = struct.pack("<Q", length)
    return head + masked(head)


def test_a_record_that_begins_like_gzip_is_plain(tmp_path):
    wav = write_sound(tmp_path / "a.wav", 1).read_bytes()
    size = 0x088B1F
    rest = size - len(example({"audio": [wav], "x": [b"y" * 500_000]})) + 500_000
    data = example({"audio": [wav], "x": [b"y" * rest]})
    write_records(tmp_path / "a.tfrecord", [data], crc32c)
    assert (tmp_path / "a.tfrecord").read_bytes().startswith(b"\x1f\x8b\x08")
    assert list(faults_of(tmp_path).values()) == [None]


def test_a_folder_without_such_files_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"no file ending in .tfrecord"):
        rows_of(tmp_path)
