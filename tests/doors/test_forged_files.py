"""Every parser of a file answers forged content with valid checksums by a value, or by an error of the family."""

import hashlib
import io
import json
import random
import shutil
import struct
import tracemalloc
import zipfile
import zlib
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.catalog.stored.column_header import ColumnTableHeader, TablePart
from headrace.catalog.stored.header import CatalogHeader, PartitionEntry, partition_in, read_stamps, stamps_pieces
from headrace.catalog.stored.header_lines import CatalogTotals, Part
from headrace.errors import HeadraceError
from headrace.format import tables
from headrace.format.beside.column_files import specs_of
from headrace.format.beside.column_table import ColumnTable
from headrace.format.beside.views import ShardTotals, ViewSnapshot, counts_of
from headrace.format.indexes.index_files import parse_index
from headrace.format.indexes.indexing import key_rule_of
from headrace.format.manifests.manifests import (
    Manifest,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    keys_path,
    manifest_path,
    newest_entries,
    read_lengths,
    read_manifest,
    read_summary,
    rejections_of,
)
from headrace.format.manifests.planned_keys import digest_of, read_planned
from headrace.format.shards.condemned import condemnations
from headrace.format.sizes import parse_sizes
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import Snapshot, read_table
from headrace.format.tensors.outputs import hidden_output
from headrace.format.tensors.pth import latent_facts, stored_latents, verified_outputs
from headrace.format.tensors.unpickling import unpickled
from headrace.format.versioned_json import versioned_bytes
from headrace.sources.listing import PATH_DIGEST, SourceStamps
from headrace.stores.storage import LocalStorage
from headrace.streaming.samples.decoded_fields import MOST_BYTES, decoded
from headrace.verification.marks import MARKS_FILE, Arc, Marks, VerifiedRange, read_marks, write_marks
from tests.support.doors import JOB, run
from tests.support.forging import forged, forged_json, forged_table, with_crc
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import Clip, clips, write_dataset
from tests.support.view_fixtures import write_view

NUMBER = st.integers(0, 1 << 32)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """An output with audio, latents, columns and a view, of two splits."""
    folder = tmp_path_factory.mktemp("output")
    samples = {"train": clips(12), "test": [*clips(3, first=100), Clip(104, 400, rejection="not_finite")]}
    audio = write_dataset(folder, samples, latents=True)
    values = {
        spec("caption", "string"): lambda clip: f"é {clip.number}",
        spec("snr", "float"): lambda clip: clip.number / 2,
        spec("tags", "json"): lambda clip: {"a": [clip.number]},
        spec("good", "bool"): lambda clip: None if clip.number % 3 else True,
        spec("key", "string", is_fact=True): lambda clip: clip.key,
    }
    write_columns(folder, "mine", values, samples, audio)
    write_view(folder, "most", lambda key: 1 + int(key[-1]) % 2)
    return folder


def only(folder, pattern):
    return min(folder.glob(pattern))


def deflated_latents():
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(Clip(1, 300).pth())) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name) + bytes(1 << 20))
    return made.getvalue()


def use_manifest(blob, storage):
    storage.write(manifest_path("train-0000", 1), blob)
    found = Manifest.from_json(blob, "m.json")
    ShardTable.from_entries(found.shards).names()
    bucket_of(found.partition)
    assert found.to_json()
    assert found.digest
    number, entry = newest_entries(storage)["train-0000"]
    read_summary(storage, number, entry)
    read_lengths(storage, "train-0000", 1, hashlib.sha256(blob).hexdigest())
    read_manifest(storage, "train-0000", 1)


def use_snapshot(blob, storage):
    found = Snapshot.from_json(blob, "s.json")
    assert found.num_shards >= 0
    assert found.num_samples >= 0
    if found.origin:
        specs_of(found)
    [bucket_of(name) for name in found.manifests]
    assert found.to_json()
    read_table(storage, found)


def use_shards(blob, storage):
    table = ShardTable.from_bytes(blob, "x.shards")
    assert len(table.names()) == len(table)
    for split in table.splits:
        table.rows_of(split)
    table.of_bucket(0)


def use_index(blob, storage):
    index = parse_index(blob, "x.idx")
    key_rule_of(index), index.audio_counts, index.lengths, index.latent_rate_hz, index.rejected, rejections_of(index)
    for row, key in enumerate(index.keys()):
        index.row(row), index.audio_of(row), index.find(key)
        for name in index.audio_fields:
            index.audio_of(row, name)


def use_columns(blob, storage):
    table = ColumnTable.from_bytes(blob, "x.columns")
    for row in range(len(table) if table.columns else 0):
        table.row(row)
    for column in table.columns:
        if not column.spec.kind.is_text:
            column.numbers()
        table.column(column.spec.name, is_fact=column.spec.is_fact)
    table.to_bytes()


def use_view(blob, storage):
    found = ViewSnapshot.from_json(blob, "v.json")
    assert found.num_drawn >= 0
    assert str(found.definition)
    assert len(found.files) == 1 + len(found.counts)
    assert found.to_json()


def use_totals(blob, storage):
    found = ShardTotals.from_bytes(blob, "x.totals")
    assert len(found.totals) == len(found.crc32)


def use_counts(blob, storage):
    assert counts_of(blob, "x.counts").dtype == np.uint8


FILES = {
    "manifest": ("audio/manifests/train-0000/*.json", forged_json, use_manifest),
    "manifest of latents": ("latents/crepe/manifests/train-0000/*.json", forged_json, use_manifest),
    "snapshot": ("audio/snapshots/*.json", forged_json, use_snapshot),
    "snapshot of columns": ("columns/mine/snapshots/*.json", forged_json, use_snapshot),
    "shard table": ("audio/snapshots/*.shards", forged_table, use_shards),
    "index": ("audio/train*.idx", forged_table, use_index),
    "index of latents": ("latents/crepe/latent_test*.idx", forged_table, use_index),
    "columns": ("columns/mine/*.columns", forged_table, use_columns),
    "view": ("views/most/snapshots/*.json", forged_json, use_view),
    "totals of a view": ("views/most/snapshots/*.totals", forged_table, use_totals),
    "counts of a view": ("views/most/snapshots/*.counts", forged_table, use_counts),
}


def attempt(use, *arguments):
    """Whether the use of forged content gave a value; errors other than ours are raised."""
    try:
        use(*arguments)
    except HeadraceError:
        return False
    return True


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=40, deadline=None)
@given(number=NUMBER)
def test_a_forged_file_of_an_output_is_read_or_an_error_of_the_family(output, tmp_path_factory, kind, number):
    pattern, forge, use = FILES[kind]
    path = only(output, pattern)
    copied = LocalStorage(tmp_path_factory.getbasetemp() / "forged")
    for part in path.parent.glob("*.shards"):
        copied.write(f"snapshots/{part.name}", part.read_bytes())
    use(path.read_bytes(), copied)
    attempt(use, forge(path.read_bytes(), random.Random(number)), copied)


PART = Part("x.parquet", 10, "ab")
TOTALS = CatalogTotals(
    dataset="birds",
    source="/data/birds",
    digest="d",
    grouping='[[["train", 1.0]], [], null, "keep", "files"]',
    probe_version="1",
    num_duplicates=1,
    largest_group=2,
    durations=(0.5, 1.0, 2.0),
    rejects=(("file", "too_short", 3),),
    rejected=PART,
    stamps=PART,
)
ENTRIES = {name: PartitionEntry(name, "f", "c", 3, 4, 5.5, 6, PART, None) for name in ("train-0000", "test-0001")}
HEADER = CatalogHeader(TOTALS, ENTRIES)
TABLE = {"train-0000": TablePart("p", 1, "a", 2, 0)}
TABLE_HEADER = ColumnTableHeader("i", "key", "utt_id", {"snr": "Float64"}, 3, 0, 1, "catalog/columns/x.parquet", TABLE)


def forged_lines(blob, chance):
    """A header of a catalog with one changed line."""
    lines = [json.loads(line) for line in blob.splitlines()]
    place = chance.randrange(len(lines))
    lines[place] = forged(lines[place], chance)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    deep = "[" * 100_000 + "\n" if chance.random() < 0.03 else ""
    return with_crc((text + deep).encode())


def use_header(blob, storage):
    found = CatalogHeader.from_bytes(blob, "catalog.jsonl")
    use_of_header = (found.samples, found.reasons, found.num_rejected, found.seconds, found.fingerprints)
    assert len(use_of_header) == 5
    assert [part.path for part in found.parts()]
    partition_in(blob, "train-0000", "catalog.jsonl")
    assert found.to_bytes()


def use_stamps(blob, storage):
    storage.write("catalog/parts/x.parquet", blob)
    assert read_stamps(storage, HEADER)


def use_marks(blob, storage):
    storage.write(MARKS_FILE, blob)
    marks = read_marks(storage)
    marks.through(Arc(3, 1 << 40), 5, 2.0).judged("x", is_sound=False)
    write_marks(storage, marks)


def use_condemned(blob, storage):
    storage.write("condemned/x.json", blob)
    condemnations(storage)


STAMPS = SourceStamps(np.zeros(3, PATH_DIGEST), *(np.arange(3) for _ in range(3)))
MARKS = versioned_bytes("headrace_verified", asdict(Marks(5, 0, (VerifiedRange(0, 1 << 64, 3.5),), ("a.tar",))))
CONDEMNED = versioned_bytes("headrace_condemned", {"host": "h", "kernel": "k", "is_locked": True, "paths": ["a.tar"]})
PLAIN, WIDS = {"a.tar": 3, "b.tar": 4}, {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 3}]}
OTHERS = {
    "catalog": (HEADER.to_bytes(), forged_lines, use_header),
    "stamps": (b"".join(stamps_pieces(STAMPS)), forged_table, use_stamps),
    "table of columns": (TABLE_HEADER.to_bytes(), forged_json, lambda blob, _: ColumnTableHeader.from_bytes(blob, "x")),
    "marks": (MARKS, forged_json, use_marks),
    "record of a gc": (CONDEMNED, forged_json, use_condemned),
    "sizes": (json.dumps(PLAIN).encode(), forged_json, lambda blob, _: parse_sizes(blob, "/x/sizes.json")),
    "list of wids": (json.dumps(WIDS).encode(), forged_json, lambda blob, _: parse_sizes(blob, "/x/sizes.json")),
}


@pytest.mark.parametrize("kind", OTHERS)
@settings(max_examples=25, deadline=None)
@given(number=NUMBER)
def test_another_forged_file_is_read_or_an_error_of_the_family(tmp_path_factory, kind, number):
    blob, forge, use = OTHERS[kind]
    storage = LocalStorage(tmp_path_factory.getbasetemp() / "others")
    use(blob, storage)
    attempt(use, forge(blob, random.Random(number)), storage)


@settings(max_examples=40, deadline=None)
@given(blob=st.binary(max_size=60) | st.text("ab \n", max_size=60).map(str.encode))
def test_forged_keys_are_read_or_an_error_of_the_family(tmp_path_factory, blob):
    folder = tmp_path_factory.getbasetemp() / "keys"
    entry = ShardEntry("train_0000_000000-1a2b3c4d5e6f.tar", 1, 1, 1, 1.0, "i", 1)
    manifest = Manifest("train-0000", "w", "s", {}, (entry,), keys=digest_of(blob))
    LocalStorage(folder).write(keys_path("train-0000", 1, manifest.keys), blob)
    attempt(read_planned, LocalStorage(folder), NumberedManifest(1, manifest))


@pytest.mark.medium
@settings(max_examples=25, deadline=None)
@given(number=NUMBER)
def test_forged_latents_are_read_or_an_error_of_the_family(number):
    chance = random.Random(number)
    blob = _forged_zip(Clip(1, 300).pth(), chance)
    for use in (
        stored_latents,
        partial(verified_outputs, outputs=(hidden_output("float32"),)),
        latent_facts,
        unpickled,
    ):
        attempt(use, blob)


def _forged_zip(blob, chance):
    """A `.pth` in which one file is cut, lengthened, changed or deflated; its checksums are valid."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(blob)) as old, zipfile.ZipFile(made, "w") as new:
        target = chance.choice(old.namelist())
        for name in old.namelist():
            content = bytearray(old.read(name))
            if name == target and content:
                place = chance.randrange(len(content))
                match chance.choice(["value", "cut", "more"]):
                    case "value":
                        content[place] = chance.choice([0, 1, 127, 128, 255])
                    case "cut":
                        del content[place:]
                    case "more":
                        content[place:place] = bytes(chance.choice([1, 1000]))
            kind = zipfile.ZIP_DEFLATED if chance.random() < 0.2 else zipfile.ZIP_STORED
            new.writestr(zipfile.ZipInfo(name), bytes(content), kind)
    return made.getvalue()


@pytest.mark.medium
@settings(max_examples=25, deadline=None)
@given(number=NUMBER)
def test_a_forged_state_is_loaded_or_an_error_of_the_family(output, number):
    def opened():
        return StreamingDataset(remote=str(output), split="train", batch_size=2, columns=["mine"], view="most")

    state = opened().state_dict(3, from_beginning=False)
    chance = random.Random(number)
    changed, data = forged(json.loads(json.dumps(state)), chance), opened()
    if attempt(data.load_state_dict, changed):
        assert data.state_dict(1, from_beginning=False)


def read_all(folder):
    latents, columns = [f"{folder}/latents/crepe"], ["mine"]
    options = {"split": "test", "latents": latents, "columns": columns, "on_missing_latents": "zeros"}
    list(StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=2, **options), num_threads=1))


def read_view(folder):
    list(StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=4, view="most"), num_threads=1))


DOORS = {
    "StreamingDataset": read_all,
    "a view": read_view,
    "webdataset_loader": lambda folder: list(webdataset_loader(f"{folder}/audio")),
    "verify": lambda folder: run("verify", folder),
    "inspect": lambda folder: run("inspect", folder),
    "simulate": lambda folder: run("simulate", folder, *JOB),
    "gc": lambda folder: run("gc", folder, "--dry-run"),
}
AT_DOORS = [
    "audio/manifests/test-0000/*.json",
    "audio/snapshots/*.json",
    "audio/test*.idx",
    "audio/sizes.json",
    "latents/crepe/manifests/test-0000/*.json",
    "latents/crepe/snapshots/*.json",
    "latents/crepe/latent_test*.idx",
    "columns/mine/snapshots/*.json",
    "columns/mine/test*.columns",
    "views/most/snapshots/*.json",
]


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pattern", AT_DOORS)
@settings(max_examples=1, deadline=None)
@given(number=NUMBER)
def test_a_forged_file_is_an_error_of_the_family_at_every_door(output, tmp_path_factory, pattern, number):
    folder = tmp_path_factory.mktemp("doors") / "out"
    shutil.copytree(output, folder)
    path = only(folder, pattern)
    forge = forged_json if path.suffix == ".json" else forged_table
    path.write_bytes(forge(path.read_bytes(), random.Random(number)))
    for door in DOORS.values():
        attempt(door, folder)


def test_numbers_of_rows_are_compared_with_the_file_before_memory_is_taken(output, tmp_path):
    arrays, metadata = tables.unpack(only(output, "columns/mine/*.columns").read_bytes(), "x")
    for rows in (3_000_000_000, 10**13, (1 << 63) - 1):
        for valid in (True, False):
            kept = {name: array for name, array in arrays.items() if valid or not name.endswith("valid")}
            blob = tables.pack(kept, metadata | {"num_rows": str(rows)})
            with pytest.raises(HeadraceError, match=f"does not have {rows} values"):
                ColumnTable.from_bytes(blob, "x.columns")


@pytest.mark.parametrize("count", [2_000_000, 10**13, (1 << 63) - 1])
def test_a_number_of_shards_is_compared_with_the_files_before_memory_is_taken(output, tmp_path, count):
    shutil.copytree(output, tmp_path / "out")
    path = only(tmp_path / "out", "audio/snapshots/*.json")
    content = json.loads(path.read_bytes())
    content["parts"][0]["num_shards"] = count
    path.write_bytes(with_crc(json.dumps(content).encode()))
    counted = sum(part["num_shards"] for part in content["parts"])
    with pytest.raises(HeadraceError, match=rf"counts {counted} shards, its table has \d+ bytes"):
        read_all(tmp_path / "out")


def test_files_of_columns_that_were_swapped_are_named(output, tmp_path):
    shutil.copytree(output, tmp_path / "out")
    first, second = (only(tmp_path, f"out/columns/mine/{split}*") for split in ("test", "train"))
    first_blob = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(first_blob)
    with pytest.raises(HeadraceError, match=rf"{first.name}: another file of columns has this name"):
        read_all(tmp_path / "out")


def npy(shape, dtype="<f4"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def zipped(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, blob in files.items():
            archive.writestr(f"{name}.npy", blob)
    return made.getvalue()


def png(width, height):
    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    rows = zlib.compress((b"\0" + bytes(width)) * 10)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


MUCH_MEMORY = {
    "npy of numbers": ("npy", lambda: npy((10**10,)), "needs 40000000000 bytes, the file has 0"),
    "npy without columns": ("npy", lambda: npy((10**10, 0)), None),
    "npy of nothing": ("npy", lambda: npy((10**18,), "|V0"), "needs 1000000000000000000 bytes"),
    "npz of numbers": ("npz", lambda: zipped(a=npy((10**10,))), "needs 40000000000 bytes, the file has 0"),
    "npz of zeros": (
        "npz",
        lambda: zipped(a=bytes(MOST_BYTES + 1)),
        f"would take {MOST_BYTES + 1} bytes of memory",
    ),
    "png": ("png", lambda: png(13_000, 13_000), "would take 507000000 bytes of memory, at most 268435456"),
    "deflated pth": ("pth", deflated_latents, "unpack to"),
    "brackets": ("json", lambda: b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize("case", MUCH_MEMORY)
def test_small_files_that_ask_for_much_memory_are_errors(case):
    name, make, words = MUCH_MEMORY[case]
    blob = make()
    if words is None:
        assert decoded(name, blob).size == 0
        return
    tracemalloc.start()
    try:
        with pytest.raises(HeadraceError, match=words):
            decoded(name, blob)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
