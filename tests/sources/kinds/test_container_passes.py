"""A scan whose tables are divided passes over each file with many recordings once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import polars as pl
import pytest

from headrace.assemble.audio import build_partition as audio_build
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.corpus_tables import open_rows
from headrace.config.dataset import DatasetConfig
from headrace.sources.kinds import gzip_points, parquet, tfrecord
from headrace.sources.kinds.gzip_points import Stretches
from headrace.sources.kinds.tfrecord import TfrecordItems
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import Kept
from headrace.sources.sources import corpus_of, open_corpus
from headrace.stores.storage import open_storage
from tests.support import corpora
from tests.support.catalog_fakes import fake_runtime
from tests.support.corpora import write_sound
from tests.support.tfrecords import example, write_records

pytestmark = pytest.mark.medium

FILES, TO_A_FILE, TO_A_GROUP = 3, 40, 10
SOUNDS = [[b"RIFF%03d %03d" % (file, number) * 50 for number in range(TO_A_FILE)] for file in range(FILES)]


def counted(monkeypatch, module, name, key):
    """Count the calls of a function by a key of its arguments."""
    counts, function = Counter(), getattr(module, name)

    def counting(*arguments):
        counts[key(*arguments)] += 1
        return function(*arguments)

    monkeypatch.setattr(module, name, counting)
    return counts


def scanned(tmp_path, kind, num_threads=8):
    """Scan a corpus whose tables are divided into parts."""
    config = DatasetConfig(
        name="passes",
        source={"kind": kind, "uri": str(tmp_path), "settle_seconds": 0},
        splits={"train": 1.0},
        shards={"partitions": {"train": 2}},
        output={"uri": "memory://"},
    )
    corpus = corpus_of(config.source, config.source.uri)
    rows = open_rows(corpus.rows().read(), config.source)
    runtime = fake_runtime(table_bytes=2000, workers=ReadingThreads(num_threads))
    scan, _ = update_catalog(config, corpus, rows, open_storage("memory://"), runtime)
    assert scan.num_opened == FILES * TO_A_FILE


def test_each_row_group_of_parquet_is_decoded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_chunks", Kept(lambda chunk: sum(map(len, chunk)), 40_000))  # 6 of 12: threads lag
    for file, sounds in enumerate(SOUNDS):
        audio = [{"bytes": sound, "path": f"{number}.wav"} for number, sound in enumerate(sounds)]
        pl.DataFrame({"audio": audio}).write_parquet(tmp_path / f"{file}.parquet", row_group_size=TO_A_GROUP)
    counts = counted(monkeypatch, parquet, "_chunk", lambda file, _, rows: (file[-9], rows.start, rows.stop))
    monkeypatch.setattr(parquet, "_names_of", None)  # the names are known since the listing
    scanned(tmp_path, "parquet")
    starts = range(0, TO_A_FILE, TO_A_GROUP)
    assert counts == {(str(file), start, start + TO_A_GROUP): 1 for file in range(FILES) for start in starts}


def test_a_build_decodes_each_row_group_once_for_all_recordings_of_a_partition(tmp_path, monkeypatch):
    """Their order is shuffled, so that with one chunk in memory, nearly each of them would decode a row group."""
    for file in range(FILES):
        sounds = [write_sound(tmp_path / f"made/{file}-{number}.wav", number) for number in range(TO_A_FILE)]
        audio = [{"bytes": sound.read_bytes(), "path": sound.name} for sound in sounds]
        (tmp_path / "corpus").mkdir(exist_ok=True)
        pl.DataFrame({"audio": audio}).write_parquet(tmp_path / f"corpus/{file}.parquet", row_group_size=TO_A_GROUP)
    counts = counted(monkeypatch, parquet, "_chunk", lambda file, _, rows: (file[-9], rows.start))
    decoded = []

    def build_partition(*arguments, **options):
        counts.clear()
        monkeypatch.setattr(parquet, "_chunks", Kept(lambda _: 1, 1))
        built = audio_build(*arguments, **options)
        decoded.append(dict(counts))
        return built

    monkeypatch.setattr(corpora, "build_partition", build_partition)
    built = corpora.build(tmp_path, {"kind": "parquet", "uri": "corpus"})
    assert len(built.samples) == FILES * TO_A_FILE
    starts = range(0, TO_A_FILE, TO_A_GROUP)
    assert decoded == [{(str(file), start): 1 for file in range(FILES) for start in starts}] * 2


def test_a_large_row_group_is_decoded_in_parts_of_which_each_is_decoded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_CHUNK_BYTES", 5000)
    audio = [{"bytes": sound, "path": f"{number}.wav"} for number, sound in enumerate(chain(*SOUNDS))]
    pl.DataFrame({"audio": audio}).write_parquet(tmp_path / "0.parquet", compression="uncompressed")
    counts = counted(monkeypatch, parquet, "_chunk", lambda _file, _, rows: (rows.start, rows.stop))
    scanned(tmp_path, "parquet")
    assert len(counts) > 10
    assert set(counts.values()) == {1}
    assert sorted(row for start, stop in counts for row in range(start, stop)) == list(range(FILES * TO_A_FILE))


def test_each_stretch_of_a_gzip_file_is_unpacked_once(tmp_path, monkeypatch):
    monkeypatch.setattr(gzip_points, "_APART_BYTES", 5000)
    monkeypatch.setattr(gzip_points, "_PIECE_BYTES", 100)
    monkeypatch.setattr(gzip_points, "_kept", Kept(len, 30_000))
    for file, sounds in enumerate(SOUNDS):
        write_records(tmp_path / f"{file}.tfrecord.gz", [example({"audio": [sound]}) for sound in sounds])
    counts = counted(monkeypatch, Stretches, "_stretch", lambda _, file, number: (file, number))
    scanned(tmp_path, "tfrecord")
    assert len(counts) > 2 * FILES
    assert set(counts.values()) == {1}


def test_a_scan_reads_each_tfrecord_file_twice_and_threads_that_open_records_read_it_once(tmp_path, monkeypatch):
    for file, sounds in enumerate(SOUNDS):
        write_records(tmp_path / f"{file}.tfrecord", [example({"audio": [sound]}) for sound in sounds])
    monkeypatch.setattr(TfrecordItems, "_audio", "audio")  # that finding it reads a record is of no interest
    counts = counted(monkeypatch, tfrecord, "read_records", lambda file, *_: file)
    scanned(tmp_path, "tfrecord")
    assert set(counts.values()) == {2}

    corpus, counts = (
        open_corpus("tfrecord", str(tmp_path), {}),
        counted(monkeypatch, tfrecord, "_indexed", lambda *_: 0),
    )
    listed = next(corpus.list())
    monkeypatch.setattr(tfrecord, "_contents", Kept(lambda _: 1, 1))
    counts.clear()
    stamp = FileStamp(listed.num_bytes[0], listed.mtime_ns[0], listed.ctime_ns[0])
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda path: opened_once(corpus, path, stamp), listed.path[:TO_A_FILE]))
    assert counts == {0: 1}


def opened_once(corpus, path, stamp):
    with corpus.open(path, stamp) as file:
        return file.read()
