"""Any corpus with hostile entries: each row is a sample, a reject or left out; nothing forbidden is read or run."""

import io
import json
import os
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.corpus_tables import open_rows
from headrace.config.dataset import DatasetConfig
from headrace.config.source import SourceConfig
from headrace.errors import ConfigError
from headrace.sources.sources import corpus_of
from headrace.stores.storage import open_storage
from tests.support.corpora import write_sound
from tests.support.tfrecords import example, write_records

GOOD, LINK, OUTSIDE, DOTS = "good", "link", "outside", "dots"
GONE, PIPE, FOLDER, DAMAGED, EMPTY = "gone", "pipe", "folder", "damaged", "empty"
COMMAND, SKIPPED, SURROGATE = "command", "skipped", "surrogate"
STATES = (GOOD, LINK, OUTSIDE, DOTS, GONE, PIPE, FOLDER, DAMAGED, EMPTY)
READABLE = {GOOD, LINK, OUTSIDE, DOTS}
NUM_SECONDS = 0.01

_events = None


def _hook(event, arguments):
    if _events is not None and event in {"open", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}:
        _events.append((event, str(arguments[0])))


sys.addaudithook(_hook)


@contextmanager
def watched():
    """A block with the files that are opened, and the commands that are run, meanwhile."""
    global _events  # noqa: PLW0603 - a hook cannot be removed
    _events = []
    try:
        yield _events
    finally:
        _events = None


def sound(path, number):
    return write_sound(path, number, frames=100 + number)


def put(root, number, state):
    """Make an entry of a folder. Returns the path by which a table names it."""
    if state == SURROGATE:
        return f"u{number}\ud800.wav"
    path = root / f"u{number}.wav"
    if state in {LINK, OUTSIDE, DOTS}:
        kept = sound(root / f"kept/u{number}.wav" if state == LINK else root.parent / f"outside/u{number}.wav", number)
        if state == DOTS:
            return f"../outside/u{number}.wav"
        path.symlink_to(kept)
    elif state == PIPE:
        os.mkfifo(path)
    elif state == FOLDER:
        path.mkdir()
    elif state in {DAMAGED, EMPTY}:
        path.write_bytes(b"RIFF????WAVE" if state == DAMAGED else b"")
    elif state != GONE:
        sound(path, number)
    return path.name


def content(number, state):
    """The bytes of a recording inside of a container."""
    if state in {DAMAGED, EMPTY}:
        return b"RIFF????WAVE" if state == DAMAGED else b""
    with tempfile.TemporaryDirectory() as folder:
        return sound(Path(folder, "a.wav"), number).read_bytes()


def kaldi(root, entries):
    lines = []
    for number, state in entries:
        name = put(root, number, state)
        lines.append(f"u{number} touch {root.parent / 'outside/run'} |" if state == COMMAND else f"u{number} {name}")
    (root / "wav.scp").write_text("".join(f"{line}\n" for line in lines))


def nemo(root, entries):
    rows = [
        {"audio_filepath": put(root, number, state), "duration": NUM_SECONDS, "_skipme": int(state == SKIPPED)}
        for number, state in entries
    ]
    (root / "manifest.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def lhotse(root, entries):
    recordings, supervisions = [], []
    for number, state in entries:
        source = {"type": "file", "channels": [0], "source": put(root, number, state)}
        if state == COMMAND:
            source = {**source, "type": "command", "source": f"touch {root.parent / 'outside/run'}"}
        about = {"sampling_rate": 8000, "num_samples": 80, "duration": NUM_SECONDS}
        recordings.append({"id": f"r{number}", "sources": [source], **about})
        supervision = {"id": f"u{number}", "recording_id": f"r{number}", "start": 0, "duration": NUM_SECONDS}
        supervisions.append({**supervision, "channel": 0})
    for name, rows in (("recordings", recordings), ("supervisions", supervisions)):
        (root / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def parquet_of_paths(root, entries):
    audio = [{"bytes": None, "path": put(root, number, state)} for number, state in entries]
    schema = {"audio": pl.Struct({"bytes": pl.Binary, "path": pl.String})}
    pl.DataFrame({"audio": audio}, schema=schema).write_parquet(root / "a.parquet")


def parquet(root, entries):
    """Bytes inside of the file, whose names are of no consequence."""
    names = {LINK: "/etc/passwd", OUTSIDE: "{0}/outside/u{1}.wav", DOTS: "../outside/u{1}.wav", GONE: "u{1}.wav"}
    audio = [
        {
            "bytes": None if state == PIPE else content(number, state),
            "path": names.get(state, "u{1}.wav").format(root.parent, number) if state != PIPE else "",
        }
        for number, state in entries
    ]
    pl.DataFrame({"audio": audio}).write_parquet(root / "a.parquet", row_group_size=2)


def webdataset(root, entries):
    kinds = {PIPE: tarfile.FIFOTYPE, LINK: tarfile.SYMTYPE, OUTSIDE: tarfile.SYMTYPE, FOLDER: tarfile.DIRTYPE}
    with tarfile.open(root / "a.tar", "w") as tar:
        for number, state in entries:
            info = tarfile.TarInfo(f"{'../outside/' if state == DOTS else ''}u{number}.wav")
            info.type = kinds.get(state, tarfile.REGTYPE)
            data = content(number, state) if info.isreg() else b""
            info.size = len(data)
            info.linkname = str(root.parent / f"outside/u{number}.wav") if state == OUTSIDE else "u0.wav"
            tar.addfile(info, io.BytesIO(data))


def tfrecord(root, entries):
    write_records(
        root / "a.tfrecord",
        [example({"audio": [content(number, state)] if state != GONE else []}) for number, state in entries],
    )


WRITERS = {
    "kaldi": (kaldi, [COMMAND]),
    "nemo": (nemo, [SKIPPED, SURROGATE]),
    "lhotse": (lhotse, [COMMAND, SURROGATE]),
    "parquet": (parquet, []),
    "parquet_of_paths": (parquet_of_paths, []),
    "webdataset": (webdataset, []),
    "tfrecord": (tfrecord, []),
}
INSIDE_ONLY = {"parquet", "webdataset", "tfrecord"}


def scanned(kind, root):
    """Scan a corpus. Returns the scan."""
    config = DatasetConfig(
        name="hostile",
        source={"kind": kind, "uri": str(root), "settle_seconds": 0},
        splits={"train": 1.0},
        shards={"partitions": {"train": 2}},
        output={"uri": "memory://"},
    )
    corpus = corpus_of(config.source, config.source.uri)
    rows = open_rows(corpus.rows().read(), config.source)
    return update_catalog(config, corpus, rows, open_storage("memory://"), ScanRuntime(workers=ReadingThreads(2)))[0]


@pytest.mark.medium
@pytest.mark.parametrize("name", WRITERS)
def test_each_row_is_a_sample_a_reject_or_left_out(name):
    write, more = WRITERS[name]

    @settings(deadline=None, max_examples=10)
    @given(states=st.lists(st.sampled_from([*STATES, *more]), min_size=1, max_size=5))
    def check(states):
        states = [GOOD, *states]  # without any sample, a scan is an error
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "corpus")
            root.mkdir()
            Path(folder, "outside").mkdir()
            for number in range(len(states)):
                sound(Path(folder, f"outside/u{number}.wav"), number)
            write(root, list(enumerate(states)))
            with watched() as events:
                scan = scanned(name.partition("_")[0], root)
            _check_account(scan)
            if write in {kaldi, nemo, lhotse, parquet_of_paths}:
                assert scan.num_recordings == sum(state in READABLE for state in states), scan.rejected["reason"]
                assert scan.num_left_out_rows == states.count(SKIPPED)
            assert not Path(folder, "outside/run").exists()
            assert not [event for event in events if event[0] != "open"]
            if name in INSIDE_ONLY:
                assert not [path for _, path in events if "/outside/" in path or path == "/etc/passwd"]

    check()


def _check_account(scan):
    """No file and no row is lost, and each reject says why."""
    origins = scan.rejected["origin"].to_list()
    rows = scan.num_recordings + origins.count("metadata") + scan.num_left_out_rows + scan.num_merged_rows
    assert (scan.num_rows, scan.num_waiting_rows) == (rows, 0), scan
    files = scan.num_used + origins.count("file") + scan.num_left_out_files
    assert (scan.num_found, scan.num_unsettled) == (files, 0), scan
    assert all(scan.rejected["reason"]), scan.rejected


@pytest.mark.parametrize("name", ["kaldi", "lhotse", "nemo", "parquet", "webdataset", "tfrecord"])
def test_an_id_that_comes_twice_is_an_error_with_its_file_or_a_reject(name, tmp_path):
    root = tmp_path / "corpus"
    root.mkdir()
    WRITERS[name][0](root, [(0, GOOD), (1, GOOD), (1, GOOD)])
    if name == "kaldi":
        with pytest.raises(ConfigError, match=rf"{root}/wav.scp, line 3: the id 'u1' is in line 2"):
            scanned(name, root)
        return
    _check_account(scanned(name, root))


@pytest.mark.parametrize("name", ["nemo", "lhotse"])
def test_a_name_with_half_of_a_surrogate_pair_is_a_reject(name, tmp_path):
    root = tmp_path / "corpus"
    root.mkdir()
    WRITERS[name][0](root, [(0, GOOD), (1, SURROGATE)])
    scan = scanned(name, root)
    _check_account(scan)
    assert scan.num_recordings == 1
    assert {(path, "surrogate" in reason) for path, reason in scan.rejected.select("path", "reason").rows()} == {
        ("u1\\ud800.wav", True)
    }


def write_tar(path, members):
    with tarfile.open(path, "w", encoding="utf-8", errors="surrogateescape") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


BAD = '{"text": "x\\ud800", "cover_path": "c.png"}', '{"text": "x", "cover_path": "c\\ud800.png"}'


@pytest.mark.parametrize("beside", BAD)
@pytest.mark.parametrize("name", ["nemo", "webdataset", "fields"])
def test_a_value_with_half_of_a_surrogate_pair_is_an_error_and_loses_nothing_in_silence(name, beside, tmp_path):
    root, options = tmp_path / "corpus", {}
    root.mkdir()
    if name == "nemo":
        nemo(root, [(0, GOOD)])
        manifest = root / "manifest.json"
        manifest.write_text(manifest.read_text().replace("{", f"{beside[:-1]}, ", 1))
    else:
        options = {"audio_fields": ["mix"]} if name == "fields" else {}
        content = sound(tmp_path / "u.wav", 0).read_bytes()
        write_tar(root / "a.tar", {"u.mix.wav": content, "u.json": beside.encode()})
    kind = "nemo" if name == "nemo" else "webdataset"
    source = SourceConfig(kind=kind, uri=str(root), options=options)
    rows = corpus_of(source, source.uri).rows().read()
    with pytest.raises(ConfigError, match=r"half of a surrogate pair \(at the end of .*.ud800"):
        open_rows(rows, source)


@pytest.mark.parametrize("fields", [[], ["mix"]])
def test_a_name_of_a_member_that_is_no_text_is_a_reject(fields, tmp_path):
    content = sound(tmp_path / "u.wav", 0).read_bytes()
    (tmp_path / "corpus").mkdir()
    names = [f"{key}.mix.wav" for key in ("good", "bad\udcff")]
    write_tar(tmp_path / "corpus/a.tar", dict.fromkeys(names, content))
    source = SourceConfig(kind="webdataset", uri=str(tmp_path / "corpus"), options={"audio_fields": fields})
    corpus = corpus_of(source, source.uri)
    (listing,) = corpus.list()
    column = "mix_path" if fields else "path"
    assert dict(zip(listing.path, listing.code, strict=True)) == {
        "a.tar/good.mix.wav": None,
        "a.tar/bad\\udcff.mix.wav": "bad_name",
    }
    good, bad = corpus.rows().read()
    assert good == {"id": "good", column: "a.tar/good.mix.wav"}
    assert bad == {column: "a.tar/bad\\udcff.mix.wav"}
