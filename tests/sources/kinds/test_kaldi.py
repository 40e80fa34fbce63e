"""Kaldi data directories: paths, archives, commands, segments and tables, from the YAML to samples."""

import numpy as np
import pytest
import soundfile

from headrace.errors import ConfigError
from headrace.sources.listing import FileStamp
from headrace.sources.sources import open_corpus
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, KindBuilds, build, sound, text, write_sound

NUMBERS = range(NUM_UTTERANCES)


def write_table(folder, name, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


def rows_of(folder):
    return list(open_corpus("kaldi", str(folder), {}).rows().read())


def codes_of(folder):
    chunks = open_corpus("kaldi", str(folder), {}).list()
    return {path: code for chunk in chunks for path, code in zip(chunk.path, chunk.code, strict=True)}


class _Kaldi(KindBuilds, CorpusContract):
    kind = "kaldi"

    def write(self, folder):
        self.write_recordings(folder)
        write_table(folder / "corpus", "text", *(f"utt-{number} {text(number)}" for number in NUMBERS))

    def retext(self, folder):
        lines = (folder / "corpus/text").read_text().replace("text 2\n", "other\n")
        (folder / "corpus/text").write_text(lines)

    def harm(self, folder):
        with (folder / "corpus/wav.scp").open("a") as file:
            file.write("bad-1 touch /tmp/never |\nbad-2\nbad-3 gone.wav\nbad-4 gone.ark:12\n")
        return {
            "wav.scp#bad-1": "unreadable",
            "wav.scp#bad-2": "unreadable",
            "gone.wav": "unreadable",
            "gone.ark:12": "unreadable",
        }


class TestPaths(_Kaldi):
    def write_recordings(self, folder):
        paths = [sound(folder / "corpus/wav", number) for number in NUMBERS]
        write_table(folder / "corpus", "wav.scp", *(f"{path.stem} wav/{path.name}" for path in paths))

    def change(self, folder):
        sound(folder / "corpus/wav", 1, seed=100)
        return Change("wav/utt-1.wav")

    def spoil(self, folder):
        (folder / "corpus/wav/utt-1.wav").write_bytes(b"RIFF and no more")


class TestPathsOutside(TestPaths):
    def write_recordings(self, folder):
        paths = [sound(folder / "elsewhere", number) for number in NUMBERS]
        lines = [
            f"{path.stem} cat {path} |" if number % 2 else f"{path.stem} {path}" for number, path in enumerate(paths)
        ]
        write_table(folder / "corpus", "wav.scp", *lines)

    def change(self, folder):
        return Change(str(sound(folder / "elsewhere", 1, seed=100)))

    def spoil(self, folder):
        (folder / "elsewhere/utt-1.wav").unlink()


class TestArchives(_Kaldi):
    """WAV, FLAC, and FLAC in kaldiio's own form, in two archives."""

    def write_recordings(self, folder):
        self.write_archives(folder)

    def change(self, folder):
        before = (folder / "corpus/wav.scp").read_text()
        self.write_archives(folder, 100)
        assert (folder / "corpus/wav.scp").read_text() == before
        return Change(
            "odd.ark:6", frozenset({"odd.ark:" + line.split(":")[1] for line in before.split() if "odd" in line})
        )

    def spoil(self, folder):
        archive = folder / "corpus/odd.ark"
        content = archive.read_bytes()
        archive.write_bytes(content[:6] + b"NOAUDIO!" + content[14:])

    def write_archives(self, folder, seed=1):
        lines = []
        for name, numbers in {"odd": (1, 3, 5), "even": (0, 2, 4)}.items():
            content = b""
            for number in numbers:
                form = "wav" if number in {1, 2} else "flac"
                path = sound(folder / "made", number, seed=seed if number == 1 else number, extension=form)
                content += f"utt-{number} ".encode()
                lines.append(f"utt-{number} odd.ark:{len(content)}".replace("odd", name))
                payload = path.read_bytes()
                width = (len(payload).bit_length() + 7) // 8
                head = b"AUDIO" + bytes([width]) + len(payload).to_bytes(width, "little")
                content += (head if number > 3 else b"") + payload
            archive = folder / f"corpus/{name}.ark"
            archive.parent.mkdir(exist_ok=True)
            if not archive.exists() or archive.read_bytes() != content:
                archive.write_bytes(content)
        write_table(folder / "corpus", "wav.scp", *sorted(lines))


class TestChannelsInFiles(_Kaldi):
    """Each recording is two files, as ESPnet has arrays of microphones; the texts of the contract belong to both."""

    def write_recordings(self, folder):
        for number in NUMBERS:
            sound(folder / "corpus/wav/far", number)
            sound(folder / "corpus/wav", number)
        lines = (f"utt-{number} wav/utt-{number}.wav wav/far/utt-{number}.wav" for number in NUMBERS)
        write_table(folder / "corpus", "wav.scp", *lines)
        write_table(folder / "corpus", "reco2file_and_channel", *(f"utt-{number} x A" for number in NUMBERS))

    def change(self, folder):
        sound(folder / "corpus/wav", 1, seed=100)
        return Change("wav/utt-1.wav\twav/far/utt-1.wav")

    def spoil(self, folder):
        (folder / "corpus/wav/far/utt-1.wav").write_bytes(b"RIFF and no more")


def test_a_file_for_each_channel_is_a_recording_bit_by_bit(tmp_path):
    forms = {"a": "PCM_16", "b": "PCM_24", "c": "FLOAT"}
    random = np.random.default_rng(0)
    for name, subtype in forms.items():
        for channel in range(3):
            samples = random.integers(-(2**23), 2**23, 500).astype(np.float64) / 2**23
            path = tmp_path / f"data/{name}{channel}.flac" if name == "b" else tmp_path / f"data/{name}{channel}.wav"
            path.parent.mkdir(exist_ok=True)
            soundfile.write(path, samples, 16_000, subtype=subtype)
    ends = {"a": "wav", "b": "flac", "c": "wav"}
    lines = (f"{name} " + " ".join(f"{name}{channel}.{ends[name]}" for channel in range(3)) for name in forms)
    write_table(tmp_path / "data", "wav.scp", *lines)
    corpus = open_corpus("kaldi", str(tmp_path / "data"), {})
    (listing,) = corpus.list()
    for name, path, *stamp in zip(
        forms, listing.path, listing.num_bytes, listing.mtime_ns, listing.ctime_ns, strict=True
    ):
        with corpus.open(path, FileStamp(*stamp)) as file:
            joined, rate_hz = soundfile.read(file, dtype="float64")
        wanted = [soundfile.read(tmp_path / f"data/{name}{channel}.{ends[name]}")[0] for channel in range(3)]
        assert rate_hz == 16_000
        assert np.array_equal(joined, np.stack(wanted, axis=1))
        assert soundfile.info(tmp_path / f"data/{name}0.{ends[name]}").subtype == forms[name]


def test_channels_that_cannot_be_joined_are_a_reject_with_the_reason(tmp_path):
    write_sound(tmp_path / "a.wav", 1)
    write_sound(tmp_path / "short.wav", 2, frames=300)
    soundfile.write(tmp_path / "b.ogg", np.zeros(400), 8000)
    write_table(tmp_path, "wav.scp", "x a.wav short.wav", "y a.wav gone.wav", "z a.wav b.ogg")
    (listing,) = open_corpus("kaldi", str(tmp_path), {}).list()
    assert listing.code == ["unreadable"] * 3
    for reason, said in zip(listing.reason, ("equally long", "no such file", "lossless"), strict=True):
        assert said in reason


def test_a_float_channel_beside_integers_of_32_bits_is_a_reject_and_beside_24_bits_none(tmp_path):
    samples = np.array([1, -(2**23), 2**23 - 1]) / 2**23
    for subtype in ("FLOAT", "PCM_24", "PCM_32"):
        soundfile.write(tmp_path / f"{subtype}.wav", samples, 8000, subtype=subtype)
    write_table(tmp_path, "wav.scp", "x PCM_32.wav FLOAT.wav", "y FLOAT.wav PCM_24.wav")
    (listing,) = open_corpus("kaldi", str(tmp_path), {}).list()
    assert listing.code == ["unreadable", None]
    assert "PCM_32.wav is PCM_32, whose samples do not fit" in listing.reason[0]


def test_channels_below_a_folder_with_a_space_are_opened(tmp_path):
    files = [write_sound(tmp_path / f"my sounds/{name}.wav", 1) for name in "ab"]
    data = tmp_path / "my sounds/data/train"
    write_table(data, "wav.scp", "x a.wav b.wav")
    corpus = open_corpus("kaldi", str(data), {})
    (listing,) = corpus.list()
    assert listing.path == ["\t".join(map(str, files))]
    with corpus.open(
        listing.path[0], FileStamp(listing.num_bytes[0], listing.mtime_ns[0], listing.ctime_ns[0])
    ) as file:
        assert soundfile.read(file)[0].shape == (400, 2)


def test_a_path_with_spaces_is_one_file(tmp_path):
    write_sound(tmp_path / "my sound.wav", 1)
    write_table(tmp_path, "wav.scp", "x my sound.wav")
    assert codes_of(tmp_path) == {"my sound.wav": None}


@pytest.mark.medium
def test_segments_are_spans_and_an_end_of_minus_one_is_that_of_the_recording(tmp_path):
    write_sound(tmp_path / "data/long.wav", 1, frames=8000)
    write_table(tmp_path / "data", "wav.scp", "rec long.wav")
    write_table(
        tmp_path / "data",
        "segments",
        "b rec 0.25 0.5",
        "a rec 0.5 -1",
        "bad-time rec 0.1 x",
        "backward rec 0.5 0.25",
        "unknown other 0 1",
        "short rec 1",
    )
    write_table(tmp_path / "data", "text", "a first", "b second", "c nowhere")
    found = build(tmp_path, {"kind": "kaldi", "uri": "data"})
    lengths = {key: sample["audio"].shape[-1] for key, sample in found.samples.items()}
    assert lengths == {"a": 4000, "b": 2000}
    rejected = dict(zip(found.scan.rejected["key"], found.scan.rejected["code"], strict=True))
    assert rejected == {
        "bad-time": "bad_span",
        "backward": "bad_span",
        "short": "bad_span",
        "unknown": "metadata_without_file",
        "c": "metadata_without_file",
    }


def test_tables_become_columns_and_the_id_stays_beside_its_slug(tmp_path):
    data = tmp_path / "data"
    for name in ("a", "b"):
        sound_path = write_sound(data / f"{name}.wav", 1 if name == "a" else 2)
    write_table(data, "wav.scp", "ann/1 a.wav", f"ben.2 flac -c -d -s {sound_path} |")
    write_table(data, "text", "ann/1 good  morning", "ben.2")
    write_table(data, "utt2spk", "ann/1 ann", "ben.2 ben")
    write_table(data, "spk2gender", "ann f", "ben m")
    write_table(data, "utt2lang", "ann/1 en")
    found = build(tmp_path, {"kind": "kaldi", "uri": "data"})
    columns = ("id", "text", "speaker", "gender", "language")
    values = {tuple(sample["metadata"].get(name) for name in columns) for sample in found.samples.values()}
    assert values == {("ann/1", "good  morning", "ann", "f", "en"), ("ben.2", "", "ben", "m", None)}
    assert all(key.startswith(("ann_1-", "ben_2-")) for key in found.samples)


@pytest.mark.parametrize("name", ["wav.scp", "segments", "text", "utt2spk", "utt2lang"])
def test_an_id_that_comes_twice_is_an_error_with_file_and_line(tmp_path, name):
    write_sound(tmp_path / "a.wav", 1)
    write_table(tmp_path, "wav.scp", "x a.wav")
    write_table(tmp_path, name, "y a.wav 0 1", "x a.wav 0 1", "", "y b 0 1")
    with pytest.raises(ConfigError, match=rf"{name}, line 4: the id 'y' is in line 1"):
        rows_of(tmp_path)


def test_a_line_that_is_not_utf8_is_an_error_with_file_and_line(tmp_path):
    write_table(tmp_path, "wav.scp", "x a.wav")
    (tmp_path / "text").write_bytes(b"x fine\ny caf\xe9\n")
    with pytest.raises(ConfigError, match=r"text, line 2: not valid UTF-8"):
        rows_of(tmp_path)


def test_channels_come_from_commands_from_segments_and_from_the_table(tmp_path):
    for name in "abc":
        write_sound(tmp_path / f"{name}.wav", 1, channels=2)
    write_table(tmp_path, "wav.scp", "a sph2pipe -f wav -p -c 2 a.wav |", "b b.wav", "c c.wav")
    write_table(tmp_path, "reco2file_and_channel", "b b B", "c c unknown")
    assert [row.get("channel") for row in rows_of(tmp_path)] == [1, 1, None]
    write_table(tmp_path, "segments", "u1 a 0 1 0", "u2 b 0 1", "u3 b 0 1 A")
    assert [row.get("channel") for row in rows_of(tmp_path)] == [0, 1, 0]


def test_relative_paths_may_begin_at_a_folder_above_the_data_directory(tmp_path):
    write_sound(tmp_path / "recipe/dump/a.wav", 1)
    write_table(tmp_path / "recipe/data/train", "wav.scp", "b dump/gone.wav", "a dump/a.wav", "c dump/c.wav")
    assert codes_of(tmp_path / "recipe/data/train") == {
        f"{tmp_path}/recipe/dump/a.wav": None,
        "dump/gone.wav": "unreadable",
        f"{tmp_path}/recipe/dump/c.wav": "unreadable",
    }


def test_no_command_of_a_data_directory_is_run(tmp_path):
    write_table(tmp_path, "wav.scp", f"a touch {tmp_path}/ran |", f"b cat {tmp_path}/x; touch {tmp_path}/ran |")
    assert set(codes_of(tmp_path).values()) == {"unreadable"}
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_wav_scp_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"one Kaldi data directory: a folder with wav\.scp"):
        open_corpus("kaldi", str(tmp_path), {})


@pytest.mark.parametrize("table", ["reco2file_and_channel", "segments"])
@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ("AB", [0, 1]),
        ("12", [0, 1]),
        ("21", [1, 0]),
        ("01", [0, 1]),
        ("11", [0, 0]),
        ("22", [1, 1]),
        ("120", [1, 2, 0]),
        ("B1", [1, 0]),
        ("B2A", [1, 1, 0]),
        ("A01", [0, 0, 1]),
        ("x2", [None, 1]),
    ],
)
def test_channels_are_letters_or_numbers_from_1_unless_one_is_0(tmp_path, table, names, numbers):
    write_sound(tmp_path / "a.wav", 1, channels=2)
    keys = [f"u{number}" for number in range(len(names))]
    write_table(tmp_path, "wav.scp", *(f"{key} a.wav" for key in keys))
    about = "{0} {0} {1}" if table != "segments" else "{0} {0} 0 0.01 {1}"
    write_table(tmp_path, table, *(about.format(key, name) for key, name in zip(keys, names, strict=True)))
    assert [row.get("channel") for row in rows_of(tmp_path)] == numbers


def test_two_channels_of_one_file_are_two_rows_of_one_recording(tmp_path):
    write_sound(tmp_path / "a.wav", 1, channels=2)
    commands = [f"{name} sph2pipe -f wav -p -c {channel} a.wav |" for name, channel in (("A", 1), ("B", 2))]
    write_table(tmp_path, "wav.scp", *commands)
    assert codes_of(tmp_path) == {"a.wav": None}
    assert np.array_equal([row["channel"] for row in rows_of(tmp_path)], [0, 1])


def test_a_channel_of_a_command_is_the_sample(tmp_path):
    path = write_sound(tmp_path / "data/a.wav", 1, channels=2)
    commands = [f"{name} sph2pipe -f wav -p -c {channel} a.wav |" for name, channel in (("A", 1), ("B", 2))]
    write_table(tmp_path / "data", "wav.scp", *commands)
    found = build(tmp_path, {"kind": "kaldi", "uri": "data"})
    both, _ = soundfile.read(path, dtype="float32")
    for column, name in enumerate("AB"):
        assert np.array_equal(found.samples[name]["audio"][0], both[:, column])
        assert found.samples[name]["metadata"]["headrace"]["channels"] == [column]


@pytest.mark.medium
def test_a_data_directory_without_channels_gives_whole_recordings(tmp_path):
    write_sound(tmp_path / "data/a.wav", 1, channels=2)
    write_table(tmp_path / "data", "wav.scp", "a a.wav")
    (sample,) = build(tmp_path, {"kind": "kaldi", "uri": "data"}).samples.values()
    assert sample["audio"].shape == (2, 400)
    assert "channel" not in sample["metadata"]


@pytest.mark.parametrize("digits", [18, 19, 25, 5000])
def test_numbers_of_any_length_are_read(tmp_path, digits):
    write_sound(tmp_path / "a.wav", 1)
    (tmp_path / "a.ark").write_bytes(b"u " + (tmp_path / "a.wav").read_bytes())
    (tmp_path / "wav.scp").write_text(f"u a.ark:{'9' * digits}\nv a.wav\n")
    (tmp_path / "reco2file_and_channel").write_text(f"v a {'9' * digits}\n")
    (tmp_path / "segments").write_text(f"s v 0 0.01\nt v 0 0.01 {'8' * digits}\n")
    corpus = open_corpus("kaldi", str(tmp_path), {})
    (found,) = corpus.list()
    assert [code is None for code in found.code] == [False, True]
    assert all(row["channel"] > 10**16 for row in corpus.rows().read())
