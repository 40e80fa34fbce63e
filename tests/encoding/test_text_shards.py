"""Latents of a text column: from the JSON of audio shards to batches, each distinct text encoded once."""

import io
import json
from dataclasses import replace

import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, World, encoders, webdataset_loader
from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings
from headrace.encoding.engine import Engine
from headrace.encoding.known_texts import KnownTexts
from headrace.encoding.texts import digest_of
from headrace.errors import BuildError, ConfigError, IntegrityError, SampleError
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeBy, makers_of
from headrace.format.manifests.manifests import newest_manifest
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import PARTITION, Latents
from tests.support.tiny_texts import WORDS, recomputed, save_text

CAPTIONS = {
    "a": "a dog barks loudly",
    "b": "the cat",
    "c": "a dog barks loudly",
    "d": "",
    "e": "rain and wind in the rain and the wind",
    "f": "",
    "g": "the cat",
}


class Counting:
    """An encoder that remembers the tokens of each text that it encodes."""

    def __init__(self, encoder):
        self._own, self.seen = encoder, []

    def __getattr__(self, name):
        return getattr(self._own, name)

    def encode(self, batch, lengths):
        self.seen += [tuple(row[0, :length].tolist()) for row, length in zip(batch, lengths.tolist(), strict=True)]
        return self._own.encode(batch, lengths)


class Texts(Latents):
    """Audio shards of captions, and the latents of a text model of them."""

    def __init__(self, root, model, name="captions", **own):
        super().__init__(root)
        self.root = root
        self.storage = type(self.storage)(root / "latents" / name)
        self.own = {"model": str(model), **own}
        self.settings = LatentSettings(encoders.fingerprint("text", self.own), "float32", column="caption")
        self.counting = Counting(encoders.load("text", self.own))
        self.encoders = lambda: [self.counting]

    def write(self, captions, per_shard=4):
        """Write audio shards with these captions, committed."""
        keys = list(captions)
        shards = [
            {key: noise(800 + 40 * number, number) for number, key in enumerate(keys[start : start + per_shard])}
            for start in range(0, len(keys), per_shard)
        ]
        metadata = {key: {"caption": caption} for key, caption in captions.items()}
        commit(self.audio, write_partition(self.audio, shards, metadata=metadata))
        return self

    def commit(self):
        """Build and commit the latents."""
        built = self.build()
        commit_latents(self.audio, self.storage, self.settings)
        return built

    def stored(self, key):
        """The `.pth` of a sample, and its JSON; None where it has no `.pth`."""
        for shard in newest_manifest(self.storage, PARTITION).manifest.shards:
            index = read_index(self.storage, shard.name)
            if (row := index.find(key)) is not None:
                spans = [index.range_of(row, "pth") or (0, 0), index.range_of(row, "json")]
                blob, text = self.storage.read_ranges(shard.name, spans)
                return torch.load(io.BytesIO(blob), weights_only=True) if blob else None, json.loads(text)
        raise KeyError(key)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: save_text(name, tmp_path_factory.mktemp(name)) for name in ("bert", "t5", "clap", "static")}


@pytest.mark.medium
@pytest.mark.parametrize("name", ["bert", "t5", "clap", "static"])
def test_each_vector_is_that_of_its_own_text(tmp_path, folders, name):
    captions = {key: text or "no music" for key, text in CAPTIONS.items()} if name == "static" else CAPTIONS
    built = Texts(tmp_path, folders[name]).write(captions)
    built.commit()
    for key, text in captions.items():
        wanted = recomputed(name, folders[name], text)
        assert torch.allclose(built.stored(key)[0]["embedding"], wanted, atol=2e-6)


def test_each_distinct_text_is_encoded_once(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write(CAPTIONS)
    stats = built.commit().stats
    distinct = set(CAPTIONS.values())
    assert len(set(built.counting.seen)) == stats.num_texts == len(distinct)
    assert len(built.counting.seen) == len(distinct) + 1  # one is encoded alone as well, and compared
    assert stats.alone.is_same
    assert built.done == len(CAPTIONS)


@pytest.mark.medium
def test_a_changed_caption_encodes_only_itself(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write(CAPTIONS)
    built.commit()
    built.counting.seen.clear()
    built.write(CAPTIONS | {"b": "a bird sings"})
    stats = built.commit().stats
    assert (len(built.counting.seen), stats.num_texts) == (1, 1)
    assert torch.allclose(
        built.stored("b")[0]["embedding"], recomputed("bert", folders["bert"], "a bird sings"), atol=2e-6
    )
    assert torch.equal(built.stored("a")[0]["embedding"], built.stored("c")[0]["embedding"])


@pytest.mark.medium
def test_a_shard_says_what_made_the_texts_that_it_has(tmp_path, folders, monkeypatch):
    """Those of another device were copied; of the second shard all were."""
    other = MadeBy("another device", "2.0.0")
    built = Texts(tmp_path, folders["bert"]).write(CAPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "made_by", other)
        built.commit()
    built.write(CAPTIONS | {"b": "a bird sings", "e": "the cat"})
    built.commit()
    shards = newest_manifest(built.storage, PARTITION).manifest.shards
    makers = [makers_of(read_index(built.storage, shard.name)) for shard in shards]
    assert [{by.device for by in found} for found in makers] == [{"cpu", "another device"}, {"another device"}]


def test_a_damaged_shard_is_not_asked_again(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write(CAPTIONS)
    built.commit()
    name = newest_manifest(built.storage, PARTITION).manifest.shards[0].name
    known = KnownTexts(built.storage, built.settings.encoder, "float32", read_index(built.storage, name).outputs)
    known.look_into(name)
    built.storage.local_path(name).unlink()
    digest = digest_of(CAPTIONS["a"])
    assert known.of([digest]) == {}
    assert known.makers([digest]) == set()


def test_audio_is_not_read(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write(CAPTIONS)
    for shard in newest_manifest(built.audio, PARTITION).manifest.shards:
        index, path = read_index(built.audio, shard.name), built.audio.local_path(shard.name)
        content = bytearray(path.read_bytes())
        for row in range(len(index)):
            start, stop = index.range_of(row, "flac")
            content[start:stop] = bytes(stop - start)
        path.write_bytes(content)
    assert len(built.build().written) == 2


def test_a_null_text_gives_no_latents_and_says_so(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write({"a": "a dog", "b": None, "c": "", "d": []})
    built.commit()
    rejected = newest_manifest(built.storage, PARTITION).manifest.refused
    assert [(one.key, one.code) for one in rejected] == [("b", "no_text"), ("d", "no_text")]
    assert built.stored("b")[0] is None
    assert built.stored("b")[1]["headrace"]["refused"] == "no_text"
    assert built.stored("c")[0]["embedding"].abs().sum() > 0  # an empty text is a text
    with pytest.raises(SampleError, match="its caption is null or missing"):
        list(StreamingDataset(remote=str(built.storage.uri), batch_size=1))


@pytest.mark.parametrize("column", ["captoin", "captions.caption", "headrace.source"])
def test_a_column_that_the_metadata_lacks_is_an_error_and_not_a_null(tmp_path, folders, column):
    """With `max_rejected: 1`, a misspelt column would give a set in which every sample is rejected."""
    built = Texts(tmp_path, folders["static"]).write({"a": "a dog", "b": None})
    built.settings = replace(built.settings, column=column)
    with pytest.raises(ConfigError, match=rf"no column '{column}'; the columns are caption$"):
        built.build()


def test_a_text_without_tokens_is_rejected(tmp_path, folders):
    built = Texts(tmp_path, folders["static"]).write({"a": "a dog", "b": ""})
    built.commit()
    (rejected,) = newest_manifest(built.storage, PARTITION).manifest.refused
    assert (rejected.key, rejected.code) == ("b", "no_text")


def test_a_number_is_no_text(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write({"a": "a dog", "b": 5})
    with pytest.raises(BuildError, match=r"'b': caption is 5, expected a text or a list of texts"):
        built.build()


def test_damaged_json_is_not_encoded(tmp_path, folders):
    built = Texts(tmp_path, folders["bert"]).write(CAPTIONS)
    name = newest_manifest(built.audio, PARTITION).manifest.shards[0].name
    path = built.audio.local_path(name)
    path.write_bytes(path.read_bytes().replace(b"a dog barks", b"a cat barks"))
    with pytest.raises(IntegrityError, match=r"a\.json has a wrong CRC-32"):
        built.build()


LISTS = {
    "a": ["a dog", "the cat", "a bird sings"],
    "b": "the cat",
    "c": ["rain", None, "a dog"],
    **{f"k{number}": [f"{word} {other}" for other in WORDS[:5]] for number, word in enumerate(WORDS[:8])},
}


@pytest.fixture(scope="module")
def lists(tmp_path_factory, folders):
    """Captions of several texts, built and committed."""
    built = Texts(tmp_path_factory.mktemp("lists"), folders["bert"]).write(LISTS)
    built.commit()
    return built


def texts_of(key):
    return [text for text in (LISTS[key] if isinstance(LISTS[key], list) else [LISTS[key]]) if text is not None]


@pytest.mark.medium
def test_a_list_of_texts_gives_a_vector_each(lists, folders):
    for key in ("a", "b", "c"):
        found = torch.atleast_2d(lists.stored(key)[0]["embedding"])
        for vector, text in zip(found, texts_of(key), strict=True):
            assert torch.allclose(vector, recomputed("bert", folders["bert"], text), atol=2e-6)
    assert lists.stored("b")[0]["embedding"].shape == (32,)
    assert lists.stored("c")[1]["headrace"]["texts"][1] == lists.stored("a")[1]["headrace"]["texts"][0]
    shards = newest_manifest(lists.storage, PARTITION).manifest.shards
    assert len(set(lists.counting.seen)) == len({text for key in LISTS for text in texts_of(key)})
    assert verify(find_target(lists.storage.uri), Depth()).faults == []
    assert read_index(lists.storage, shards[0].name).outputs[0].is_choice


def drawn(world, *, skip=0, state=None, epoch=1, **options):
    """Key → number of its text and vector, of the rows of all ranks; and the state of rank 0 after `skip` batches."""
    found, saved = {}, None
    for rank in range(world):
        options = {"shuffle": True, **options}
        dataset = StreamingDataset(batch_size=6 // world, world=World(rank, world), **options)
        loader = StreamingDataLoader(dataset)
        if state is None:
            state = {**loader.state_dict(), "epoch": epoch}
        loader.load_state_dict(state)
        for number, batch in enumerate(loader):
            for row, key in enumerate(batch["keys"]):
                if not batch["is_padding"][row]:
                    found[key] = int(batch["embedding_choice"][row]), batch["embedding"][row]
            if number + 1 == skip and rank == 0:
                saved = loader.state_dict()
                return found, saved
    return found, saved


@pytest.mark.medium
@pytest.mark.parametrize("transform", [None, lambda sample: sample], ids=["in place", "sample by sample"])
def test_a_text_is_drawn_alike_on_every_world_and_after_a_resume(lists, tmp_path, transform):
    options = {"remote": str(lists.storage.uri), "transform": transform}
    one, _ = drawn(1, **options)
    assert one.keys() == LISTS.keys()
    for key, (number, vector) in one.items():
        assert torch.equal(vector, torch.atleast_2d(lists.stored(key)[0]["embedding"])[number])
    for world in (2, 3):
        other, _ = drawn(world, **options)
        assert {key: number for key, (number, _) in other.items()} == {key: number for key, (number, _) in one.items()}
    begun, state = drawn(1, skip=1, **options)
    rest, _ = drawn(1, state=state, **options)
    assert {key: number for key, (number, _) in (begun | rest).items()} == {k: number for k, (number, _) in one.items()}
    assert rest.keys().isdisjoint(begun.keys())
    first, later = (drawn(1, epoch=epoch, shuffle=False, **options)[0] for epoch in (1, 2))
    assert any(later[key][0] != number for key, (number, _) in first.items())  # at the same rows
    assert len({number for number, _ in one.values()}) > 2


@pytest.mark.medium
def test_sets_of_one_column_draw_the_same_text_beside_audio(lists, folders):
    other = Texts(lists.root, folders["clap"], "clap")
    other.commit()
    loader = StreamingDataLoader(StreamingDataset(remote=str(other.root), latents=["captions", "clap"], batch_size=11))
    (batch,) = loader
    assert batch["embedding_captions"].shape == (11, 32)
    assert batch["embedding_clap"].shape == (11, 24)
    assert torch.equal(batch["embedding_captions_choice"], batch["embedding_clap_choice"])
    (cropped,) = StreamingDataLoader(
        StreamingDataset(remote=str(other.root), latents=["captions"], batch_size=11, crop_frames=400)
    )
    assert cropped["audio"].shape[2] == 400
    assert torch.equal(cropped["embedding_choice"], batch["embedding_clap_choice"])
    assert torch.equal(cropped["embedding"], batch["embedding_captions"])


def test_the_plain_loader_gives_the_first_text(lists):
    found = [
        (key, batch["embedding"][row], int(batch["embedding_choice"][row]))
        for batch in webdataset_loader(str(lists.storage.uri), num_workers=0, batch_size=4)
        for row, key in enumerate(batch["keys"])
    ]
    for key, vector, number in found:
        assert number == 0
        assert torch.equal(vector, torch.atleast_2d(lists.stored(key)[0]["embedding"])[0])
    assert len(found) == len(LISTS)


@pytest.mark.medium
def test_hidden_states_have_a_row_for_each_token_and_are_not_cropped(tmp_path, folders):
    built = Texts(tmp_path, folders["t5"], output="hidden").write(CAPTIONS)
    built.commit()
    assert built.stored("a")[0]["hidden_length"] == len(built.stored("a")[0]["hidden"]) == 6
    assert torch.allclose(
        built.stored("a")[0]["hidden"].mean(0), recomputed("t5", folders["t5"], CAPTIONS["a"]), atol=2e-6
    )
    assert verify(find_target(built.storage.uri), Depth()).faults == []
    options = {"remote": str(tmp_path), "latents": ["captions"], "batch_size": 7}
    (whole,), (cropped,) = (
        StreamingDataLoader(StreamingDataset(**options, **crop)) for crop in ({}, {"crop_frames": 300})
    )
    assert whole["hidden"].shape == (7, 11, 32)
    assert dict(zip(whole["keys"], whole["hidden_length"].tolist(), strict=True))["d"] == 2
    assert torch.equal(cropped["hidden"], whole["hidden"])
    assert cropped["audio"].shape[2] == 300
    (own,) = StreamingDataLoader(StreamingDataset(remote=str(built.storage.uri), batch_size=7))
    assert torch.equal(own["hidden"], whole["hidden"])


def test_several_texts_have_no_hidden_states(tmp_path, folders):
    built = Texts(tmp_path, folders["t5"], output="hidden").write(LISTS)
    with pytest.raises(BuildError, match="has 3 texts, and output: hidden takes one"):
        built.build()
