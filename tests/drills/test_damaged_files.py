"""Files with flipped, missing and inserted bytes: no crash, no hang, and no wrong sample without an error."""

import io
import shutil

import pytest
import soundfile

from tests.support.drills.apart import apart
from tests.support.drills.subjects import tones, yaml_of
from tests.support.drills.works import build, build_and_read, read_all, read_verify_build_read
from tests.support.projects import Project
from tests.support.sounds import FORMATS, file_of, music, rate_of

DEEDS = ("flip", "cut", "insert", "swap", "zeros")
CHECKED = {"FLAC", "OGG"}
"""Containers with checksums: of these nothing that was damaged may become a sample of another sound."""
KNOWN_LENGTH = {"WAV", "WAVEX", "RF64", "W64", "AIFF", "CAF", "AU", "FLAC", "OGG"}
"""Containers that say how long they are: of these nothing that was cut off may become a sample."""


def damaged(blob: bytes, deed: str, chance) -> bytes:
    """The bytes after one deed. Places near the beginning, where headers are, are as likely as all others."""
    end = chance.choice([min(len(blob), 200), len(blob)])
    place = chance.randrange(end)
    size = chance.choice([1, 2, 7, 512, 5000])
    match deed:
        case "flip":
            return blob[:place] + bytes([blob[place] ^ 1 << chance.randrange(8)]) + blob[place + 1 :]
        case "cut":
            return blob[: chance.randrange(len(blob))]
        case "insert":
            return blob[:place] + chance.randbytes(size) + blob[place:]
        case "swap":
            return (
                blob[:place]
                + blob[place + size : place + 2 * size]
                + blob[place : place + size]
                + blob[place + 2 * size :]
            )
        case _:
            return blob[:place] + bytes(min(size, len(blob) - place)) + blob[place + size :]


def test_damaged_recordings(tmp_path, drill):
    """Every format, beside a sound copy of it. What a format without checksums cannot show is counted."""
    sound = {}
    for number, (container, subtype) in enumerate(FORMATS):
        rate_hz = rate_of(subtype)
        sound[container, subtype] = file_of(music(rate_hz // 3, 1, rate_hz, number), container, subtype, rate_hz)

    def one_round(chance):
        shutil.rmtree(tmp_path / "p", ignore_errors=True)
        project = Project(tmp_path / "p")
        project.recordings.mkdir(parents=True)
        project.write_yaml(shards={"samples_per_shard": 20, "partitions": {"train": 1, "test": 1}})
        deeds = {}
        for (container, subtype), blob in sound.items():
            name = f"{container}-{subtype}".lower()
            (project.recordings / f"{name}-sound.{container.lower()}").write_bytes(blob)
            deed = chance.choice(DEEDS)
            path = project.recordings / f"{name}-{deed}.{container.lower()}"
            path.write_bytes(damaged(blob, deed, chance))
            deeds[path.name] = (deed, container, f"{name}-sound.{container.lower()}")
        samples, refused = apart(build_and_read, yaml_of(project), str(project.output), seconds=240).well()
        for name, (deed, container, original) in deeds.items():
            assert (name in samples) != (name in refused), f"{name}: neither or both of sample and reject"
            assert original in samples, f"{original}: {refused.get(original)}"
            if name in refused:
                assert refused[name]
                yield f"{container}: refused"
            elif samples[name] == samples[original]:
                yield f"{container}: as it was"
            else:
                assert container not in CHECKED, f"{name}: other sound than before it was damaged"
                is_cut = deed == "cut" and samples[name][1] < samples[original][1]
                assert not (is_cut and container in KNOWN_LENGTH), f"{name}: cut off, and a sample"
                yield f"{container}: other sound, no checksum in the format"

    drill.repeat(one_round, small=1, full=14)


KINDS = {
    "tar": "audio/*.tar",
    "index": "audio/*.idx",
    "sizes.json": "audio/sizes.json",
    "snapshot": "audio/snapshots/*.json",
    "table": "audio/snapshots/*.shards",
    "manifest": "audio/manifests/*/*.json",
    "planned keys": "audio/manifests/*/*.keys",
    "latent tar": "latents/mel/*.tar",
    "latent index": "latents/mel/*.idx",
    "latent snapshot": "latents/mel/snapshots/*.json",
    "latent table": "latents/mel/snapshots/*.shards",
    "latent manifest": "latents/mel/manifests/*/*.json",
    "columns": "columns/captions/*.columns",
    "columns snapshot": "columns/captions/snapshots/*.json",
    "columns table": "columns/captions/snapshots/*.shards",
    "columns manifest": "columns/captions/manifests/*/*.json",
    "view snapshot": "views/some/snapshots/*.json",
    "view totals": "views/some/snapshots/*.totals",
    "view counts": "views/some/snapshots/*.counts",
    "header of columns": "catalog/columns/captions/table.json",
    "rows of columns": "catalog/columns/captions/parts/*.parquet",
    "catalog": "catalog/catalog.jsonl",
    "files of the catalog": "catalog/parts/*.files-*.parquet",
    "rows of the catalog": "catalog/parts/*.rows-*.parquet",
    "rejects": "catalog/parts/rejected-*.parquet",
    "stamps": "catalog/parts/stamps-*.arrays",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project that is built, and its output kept beside it."""
    made = tones(tmp_path_factory.mktemp("damage"), 12)
    apart(build, yaml_of(made)).well()
    shutil.copytree(made.output, made.folder / "kept")
    return made


def test_damaged_outputs(project, drill):
    """Each kind of file: what is read of it, what verify says, what the next build makes of it, and what is read then.

    Local latents are read with `validate_hash`, since nothing else looks at them on a disk.
    """
    wanted = apart(read_all, str(project.output)).well()
    for name, (_, _, wave, *_) in wanted.items():
        assert wave == soundfile.read(project.recordings / name, dtype="float32")[0].tobytes()

    def one_round(chance):
        shutil.rmtree(project.output)
        shutil.copytree(project.folder / "kept", project.output)
        kind = chance.choice(sorted(KINDS))
        victim = chance.choice(sorted(project.output.glob(KINDS[kind])))
        deed = chance.choice([*DEEDS, "delete"])
        before = victim.read_bytes()
        if deed == "delete":
            victim.unlink()
        else:
            victim.write_bytes(damaged(before, deed, chance))
        words = (victim.name, victim.stem, "catalog", "snapshot", "manifest", "latents", "columns", "view")
        what = f"{kind}, {deed}"
        try:
            first, verified, built, second = apart(
                read_verify_build_read, str(project.output), yaml_of(project), seconds=120
            ).well()
            for came in (first, second):
                if isinstance(came, str):
                    assert any(word in came for word in words), came
                else:
                    wrong = {name for name in wanted if came.get(name) != wanted[name]}
                    assert not wrong, f"wrong or missing in silence: {wrong}"
            assert verified[0] in {0, 1}
            if kind.endswith(("tar", "index", "table", "columns", "totals", "counts")) and not (
                victim.exists() and victim.read_bytes() == before
            ):
                assert isinstance(second, dict) or verified[0] == 1, "verify says it is sound"
            assert built == "" or any(word in built for word in words), built
        except AssertionError as error:
            error.add_note(f"{what}: {victim}")
            raise
        read = "an error that names it" if isinstance(first, str) else "right"
        return f"read {read}, {'then an error of the build' if built else 'then built'}"

    drill.repeat(one_round, small=8, full=360)


def test_a_sound_file_of_each_format_is_what_its_codec_says():
    """Sound files are the reference of the drill."""
    for number, (container, subtype) in enumerate(FORMATS):
        rate_hz = rate_of(subtype)
        blob = file_of(music(rate_hz // 3, 1, rate_hz, number), container, subtype, rate_hz)
        assert soundfile.info(io.BytesIO(blob)).samplerate == rate_hz
