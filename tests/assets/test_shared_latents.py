"""Sets of latents that one run makes: the first step makes all of them, and each step records its own."""

import pytest

from headrace.assemble import latents_together
from headrace.encoding import shared_audio
from headrace.errors import BuildError, DeviceMemoryError
from headrace_dagster.assets import latent_shards
from tests.support.built import BuiltGraph
from tests.support.projects import Graph, Project
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]
SETS = ("coarse", "fine")
PARTITION = "train-0000"


def mel(name: str, num_mels: int) -> dict[str, object]:
    return {"name": name, "encoder": {"kind": "log_mel", "num_mels": num_mels}}


@pytest.fixture(scope="module")
@nothing_drawn()
def built(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("shared"))
    project.write_tones(4)
    project.write_yaml(
        splits={"train": 1.0},
        shards={"samples_per_shard": 2, "partitions": {"train": 1}},
        latents=[mel("coarse", 8), mel("fine", 16)],
    )
    graph = Graph(project)
    graph.build()
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


@pytest.fixture
def builds(monkeypatch):
    """The folders of sets that were built together, and alone; a name in `failing` fails with its error."""
    calls = {"together": [], "alone": [], "failing": {}}
    real = latents_together.build_latent_partition

    def build(how):
        def call(partition, settings, encoders, audio, storage, **options):
            name = storage.uri.rpartition("/")[2]
            calls[how].append(name)
            if how == "together" and name in calls["failing"]:
                raise calls["failing"][name]
            return real(partition, settings, encoders, audio, storage, **options)

        return call

    monkeypatch.setattr(latents_together, "build_latent_partition", build("together"))
    monkeypatch.setattr(latent_shards, "build_latent_partition", build("alone"))
    return calls


def make(graph, *names):
    """Materialize sets in one run. Returns its result, and the metadata of each set that was made."""
    result = graph.job.execute_in_process(
        instance=graph.instance,
        asset_selection=[graph.keys.latent_shards(name) for name in names],
        partition_key=PARTITION,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    events = (event.materialization for event in result.get_asset_materialization_events())
    return result, {one.asset_key.path[-1].removesuffix("_latent_shards"): one.metadata for one in events}


def test_both_are_made_once_and_recorded_with_their_own_figures_and_checks(graph, builds):
    result, made = make(graph, *SETS)
    assert result.success
    assert (sorted(builds["together"]), builds["alone"]) == (["coarse", "fine"], [])
    for name in SETS:
        assert made[name]["shards_written"].value == 2
        assert made[name]["times_real_time"].value > 0
    checks = [check for check in result.get_asset_check_evaluations() if check.passed]
    assert {(check.asset_key.path[-1], check.check_name) for check in checks} == {
        (f"{name}_latent_shards", check) for name in SETS for check in ("conservation", "index_matches_tar")
    }


def test_a_run_of_one_set_makes_no_other(graph, builds):
    assert list(make(graph, "fine")[1]) == ["fine"]
    assert (builds["together"], builds["alone"]) == ([], ["fine"])
    assert not (graph.project.output / "latents/coarse/manifests").exists()


@pytest.mark.parametrize("failing", SETS)
def test_a_set_that_fails_fails_its_own_step_and_is_not_made_twice(graph, builds, failing):
    builds["failing"][failing] = BuildError("the encoder is broken")
    result, made = make(graph, *SETS)
    assert [*made] == [name for name in SETS if name != failing]
    failed = [event for event in result.all_events if event.is_step_failure]
    assert [event.step_key.removesuffix("_latent_shards").rpartition("__")[2] for event in failed] == [failing]
    assert "the encoder is broken" in failed[0].step_failure_data.user_failure_data.description
    assert (sorted(builds["together"]), builds["alone"]) == (["coarse", "fine"], [])


@pytest.mark.parametrize("error", [MemoryError(), DeviceMemoryError("a row does not fit")])
@pytest.mark.parametrize("failing", SETS)
def test_a_set_for_which_there_is_no_memory_beside_others_is_made_alone(graph, builds, failing, error):
    builds["failing"][failing] = error
    result, made = make(graph, *SETS)
    assert result.success
    assert sorted(made) == ["coarse", "fine"]
    assert builds["alone"] == [failing]


def test_the_audio_is_fetched_once(graph, monkeypatch):
    fetched, real = [], shared_audio.local_shard
    monkeypatch.setattr(shared_audio, "local_shard", lambda storage, name: fetched.append(name) or real(storage, name))
    assert make(graph, *SETS)[0].success
    assert len(fetched) == len(set(fetched)) == 2


def test_what_another_run_left_or_other_settings_made_is_not_taken(graph):
    config = graph.config.latents[0]
    shared = latent_shards.SharedLatents(dataset=None)
    shared.put("run", PARTITION, [config], {"coarse": (error := BuildError("broken"))})
    assert shared.take("another", PARTITION, config) is None
    assert shared.take("run", "train-0001", config) is None
    assert shared.take("run", PARTITION, config) is error
    assert shared.take("run", PARTITION, config) is None  # once
    shared.put("run", PARTITION, [config], {"coarse": error})
    changed = config.model_copy(update={"dtype": "float32"})
    assert shared.take("run", PARTITION, changed) is None
