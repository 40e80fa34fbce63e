"""Odd audio files at every door: the scan by path, from memory and from a bucket, both loaders, index, verify, copies.

All doors have the same facts of a file, or the same error.
"""

import contextlib
import gzip
import io
import random
import re
import tarfile

import numpy as np
import pytest

from headrace import StreamingDataset, webdataset_loader
from headrace.audio import AudioFormat, AudioReject, Codec, decode, encode_segments, plan_segments, probe
from headrace.config.source import Digests
from headrace.errors import AudioError, HeadraceError
from headrace.format.indexes.indexing import index_tar
from headrace.sources.bucket_source import BucketSource, stamp_of
from headrace.stores.storage import open_storage
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.odd_audio import ODD

NAMES = [
    (("FLAC",), "flac"),
    (("MP3",), "mp3"),
    (("Opus",), "opus"),
    (("Vorbis", "Ogg"), "ogg"),
    (("AIFF",), "aiff"),
    (("AU",), "au"),
    (("CAF",), "caf"),
    (("W64",), "w64"),
]


ALIKE = re.compile(
    "(WAVEX|RF64|W64|AU|CAF|SVX|NIST|AVR|MAT4|HTK|AIFF)[ ,]|.*may look whole|WAV not closed, RIFF [34]"
    "|Opus at [1-9]|gzip|M4A|AAC|Ogg Speex|UTF-16|JSON|WAV with AAC"
)
"""Names of files that differ from others only in what scans read: loaders read them in slow tests."""
READ = [pytest.param(name, marks=pytest.mark.slow) if ALIKE.match(name) else name for name in ODD]


@pytest.fixture
def odd(request):
    return ODD[request.param]


@pytest.fixture
def extension(request):
    name = request.node.callspec.params["odd"]
    return next((extension for starts, extension in NAMES if name.startswith(starts)), "wav")


def facts(info):
    return info.num_frames, info.sample_rate_hz, info.num_channels


def asked(door):
    """The facts that a door has, or the code and the message of its error."""
    try:
        return door(), ""
    except AudioError as error:
        return str(error.reason), str(error)


def by_path(data, folder):
    path = folder / "name.bin"
    path.write_bytes(data)
    with path.open("rb") as file:
        return facts(probe(file, num_bytes=len(data)))


def in_bucket(data):
    source = BucketSource(open_storage("memory://"), digests=Digests.STORE)
    source.storage.write("a", data)
    stamp = stamp_of(next(iter(source.storage.list())))
    with source.open_digested("a", stamp) as opened:
        found = facts(probe(opened.file, num_bytes=len(data)))
    with source.open("a", stamp) as file:
        assert facts(probe(file, num_bytes=len(data))) == found
    return found


def in_memory(data):
    return facts(probe(io.BytesIO(data), num_bytes=len(data)))


def copied(data):
    """The samples of a recording that `codec: copy` stores, decoded by the readers."""
    info = probe(io.BytesIO(data), num_bytes=len(data))
    wanted = AudioFormat(codec=Codec.COPY)
    segments = plan_segments(info.num_frames, info.sample_rate_hz, wanted)
    (segment,) = encode_segments(io.BytesIO(data), info, wanted, segments)
    return decode(segment.payload)[0], (segment.num_frames, segment.sample_rate_hz, segment.num_channels)


@pytest.fixture
def tar(odd, extension, tmp_path):
    folder = tmp_path / "tars"
    folder.mkdir()
    path = folder / "train-000.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo(f"a.{extension}")
        member.size = len(odd.data)
        archive.addfile(member, io.BytesIO(odd.data))
    return path


@pytest.mark.parametrize("odd", ODD, indirect=True)
def test_scans_have_the_same_facts_or_the_same_error(odd, tmp_path, capfd):
    found = asked(lambda: by_path(odd.data, tmp_path))
    assert found[0] == odd.header, found
    assert asked(lambda: in_memory(odd.data)) == found
    with gzip.open(io.BytesIO(gzip.compress(odd.data, 1))) as stream:  # a file without a descriptor of its own
        assert asked(lambda: facts(probe(stream, num_bytes=len(odd.data)))) == found
    if odd.data:
        assert asked(lambda: in_bucket(odd.data)) == found
    assert capfd.readouterr().err == ""  # libsndfile and its decoders are silent


@pytest.mark.parametrize("odd", READ, indirect=True)
def test_readers_and_copies_have_the_same_samples_or_the_same_error(odd, tar, capfd):
    decoded = asked(lambda: decode(odd.data))
    copy = asked(lambda: copied(odd.data))
    folder = str(tar.parent)
    loaders = (
        lambda: StreamingDataset(remote=folder, batch_size=1)[0]["audio"],
        lambda: next(iter(webdataset_loader(folder, batch_size=None, num_workers=0)))["audio"],
    )
    if odd.error:
        assert (decoded[0], copy[0]) == (odd.error, odd.error)
        for loader in loaders:
            with pytest.raises(HeadraceError, match=re.escape(decoded[1])):
                loader()
    else:
        (samples, rate), _ = decoded
        assert (samples.shape[1], rate, len(samples)) == odd.header == copy[0][1]
        tolerance = 0 if np.array_equal(copy[0][0], samples) else 2.0**-15
        assert np.abs(copy[0][0] - samples).max() <= tolerance
        for loader in loaders:
            np.testing.assert_array_equal(np.asarray(loader()), samples)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("odd", READ, indirect=True)
def test_index_and_verify_have_the_facts_that_readers_have(odd, tar):
    with tar.open("rb") as file:
        index = index_tar(file, tar.name)
    known = (index.num_frames[0], index.sample_rate_hz[0], index.num_channels[0])
    assert known == ((-1, 0, 0) if isinstance(odd.header, str) else odd.header)
    faults = verify(find_target(str(tar.parent)), Depth(1, 1)).faults
    assert [fault.what for fault in faults] == (
        [f"a.{tar_member(tar)}: {asked(lambda: decode(odd.data))[1]}"] if odd.error else []
    )


def tar_member(tar):
    with tarfile.open(tar) as archive:
        return archive.getnames()[0].rpartition(".")[2]


@pytest.mark.parametrize("name", ODD)
def test_noise_in_a_header_gives_no_other_errors(name):
    rng = random.Random(name)
    for _ in range(4):
        data = bytearray(ODD[name].data or b"0")
        at = rng.randrange(min(len(data), 160))
        data[at : at + 8] = rng.choice([rng.randbytes(8), b"\xff" * 8, bytes(8)])[: rng.randint(1, 8)]
        with contextlib.suppress(AudioError):
            in_memory(bytes(data))


@pytest.mark.medium
def test_unsupported_forms_are_named_with_a_way_out():
    for name, odd in ODD.items():
        if odd.error == AudioReject.UNSUPPORTED:
            _, message = asked(lambda odd=odd: in_memory(odd.data))
            assert not re.search("damaged|fetch it again", message), name
            assert re.search(r"\(.+ .+\)|keep .* out of the source|leave it out|download", message), (name, message)
    for name in (
        "Ogg FLAC",
        "Ogg Speex",
        "SPHERE",
        "git-lfs",
        "HTML",
        "JSON",
        "zip",
        "M4A",
        "AAC",
        "MPEG",
        "PAF",
        "VOC",
    ):
        assert any(name in asked(lambda odd=odd: in_memory(odd.data))[1] for odd in ODD.values()), name
    assert len(ODD) >= 60
