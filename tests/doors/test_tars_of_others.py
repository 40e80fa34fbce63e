"""The four doors agree on tars of other tools: they find the same number of samples, or all of them reject the tar."""

import shutil
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import FormatError, HeadraceError, SampleError
from headrace.upkeep.tar_indexes import index_tars
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.drills.hostile import member
from tests.support.streaming.corpus import Clip

FLAC, LATENTS = Clip(1, 300).flac(), Clip(1, 300).pth()
CONTENTS = {"flac": FLAC, "pth": LATENTS, "json": b'{"a": 1}', "txt": b"text", "cls": b"7", "bin": b"\0\1"}
FILE, HARD_LINK, SYMBOLIC_LINK, DEVICE, FOLDER, PIPE = b"0", b"1", b"2", b"3", b"5", b"6"

stems = st.sampled_from(
    ["a", "b", "c", "a/b", "./a", "dir.x/a", ".hidden", "__meta__", "a b", "é", "A", "", "../a", "/a"]
)
fields = st.sampled_from(
    [*(f".{name}" for name in CONTENTS), ".FLAC", ".mix.flac", ".vocals.flac", ".a.txt", ".tar", ".", "", ".seg.json"]
)
names = st.builds(str.__add__, stems, fields)
kinds = st.sampled_from([FILE] * 12 + [HARD_LINK, SYMBOLIC_LINK, DEVICE, FOLDER, PIPE, b"\0", b"7", b"x", b"L"])
members = st.tuples(names, kinds, st.booleans())
ENDS = {
    "two blocks": bytes(1024),
    "one block": bytes(512),
    "none": b"",
    "half a block": bytes(256),
    "many": bytes(10240),
    "rubbish": b"rubbish" + bytes(505) + bytes(1024),
    "rubbish behind": bytes(1024) + b"rubbish",
}


def packed(entries, end):
    """The bytes of a tar with these members; a link leads to the first name with its extension, or to none."""
    parts = []
    for name, kind, is_lost in entries:
        extension = name.rpartition(".")[2].lower()
        content = CONTENTS.get(extension, b"content") if kind in {FILE, b"\0", b"7"} else b""
        targets = (
            ["nowhere"] if is_lost else [other for other, *_ in entries if other.lower().endswith(f".{extension}")]
        )
        link = targets[0] if kind in {HARD_LINK, SYMBOLIC_LINK} and targets else ""
        parts.append(member(name, content, kind, link=link))
    return b"".join(parts) + ENDS[end]


def plain(tar):
    return sum(1 for _ in webdataset_loader(str(tar), batch_size=None, num_workers=0))


def streamed(tar):
    """A data set with audio or latents takes no sample without, as the others do; its samples are counted."""
    dataset = StreamingDataset(remote=str(tar), batch_size=1, decode="none", local=str(tar.parent / "cache"))
    try:
        return sum(1 for _ in dataset)
    except SampleError as error:
        if not any(said in str(error) for said in ("neither audio nor latents", "it has no audio, and others have")):
            raise
        return dataset.size


def indexed(tar):
    folder = Path(shutil.copytree(tar.parent, tar.parent.with_name("indexed")))
    (found,) = index_tars(str(folder / tar.name), num_threads=1)
    if found.fault:
        raise FormatError(found.fault)
    return found.num_samples


def verified(tar):
    verdict = verify(find_target(str(tar)), Depth(1, 0))
    if verdict.faults:
        raise FormatError(verdict.faults[0].what)
    return verdict.num_samples


DOORS = {"webdataset_loader": plain, "StreamingDataset": streamed, "index": indexed, "verify": verified}


def answer(door, blob):
    """The number of samples that a door finds, or -1 if it raises an error of Headrace; and what it said."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tar = Path(folder, "data/x.tar")
        tar.parent.mkdir()
        tar.write_bytes(blob)
        try:
            return door(tar), ""
        except HeadraceError as error:
            return -1, str(error)


@pytest.mark.medium
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(members, max_size=6), st.sampled_from(["two blocks"] * 6 + sorted(ENDS)))
@example([("a.flac", FILE, False), ("a.json", FILE, False)], "two blocks")
@example([("a.pth", FILE, False), ("b.flac", FILE, False)], "two blocks")
def test_the_doors_agree_on_any_tar(entries, end):
    said = {name: answer(door, packed(entries, end)) for name, door in DOORS.items()}
    assert len({count for count, _ in said.values()}) == 1, said
