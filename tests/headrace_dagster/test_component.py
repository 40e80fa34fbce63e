"""The component `headrace_dagster.Dataset` in other Dagster projects, and the call `dataset_definitions`."""

import dataclasses
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml

from headrace.config.dataset import DatasetConfig
from headrace.encoders.crepe_settings import CrepeSettings
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.errors import ConfigError
from headrace_dagster import (
    Dataset,
    EncodersResource,
    ProjectDataset,
    Resources,
    WorkersResource,
    dataset_definitions,
)
from headrace_dagster.assets.tags import dataset_of
from headrace_dagster.resources.encoders import _COMPILED
from tests.support.component import keys_of, loaded, names_of
from tests.support.instances import memory_instance

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]
TINY = {"source": {"uri": "corpus/recordings", "settle_seconds": 0}, "splits": {"train": 1.0}, "output": {"uri": "out"}}


def put(sandbox, folder, component=Dataset, **attributes):
    content = {"type": f"headrace_dagster.{component.__name__}", "attributes": attributes}
    path = sandbox.defs_folder_path / folder
    path.mkdir(parents=True)
    (path / "defs.yaml").write_text(yaml.safe_dump(content))
    return path / "defs.yaml"


def message_of(error):
    """The messages of an error and of its causes."""
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.medium
def test_a_prefix_replaces_the_name_in_the_keys_and_nowhere_else(sandbox):
    put(sandbox, "frogs", key_prefix="audio/amphibians", latents=LATENTS, **TINY)
    with loaded(sandbox) as definitions:
        found = keys_of(definitions)
        assert {"audio/amphibians/catalog", "audio/amphibians/mel_sizes_index"} <= found
        assert all(key.startswith("audio/amphibians/") for key in found)
        assert "frogs_source_changes" in names_of(definitions)
        graph = definitions.resolve_asset_graph()
        assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {"frogs"}


@pytest.mark.parametrize("key_prefix", [3, [3], {"a": 1}], ids=str)
def test_a_prefix_that_is_no_name_is_an_error_with_an_example(tmp_path, key_prefix):
    with pytest.raises(ConfigError, match=r"^key_prefix is .*: expected a name, or a list of names such as"):
        dataset_definitions(tmp_path, root=tmp_path, key_prefix=key_prefix)


@pytest.mark.parametrize("key_prefix", ["", "a//b", "a b", ["a", "b/c"], []])
def test_an_invalid_prefix_is_named(sandbox, key_prefix):
    put(sandbox, "frogs", key_prefix=key_prefix, **TINY)
    with pytest.raises(Exception, match="frogs") as caught, loaded(sandbox):
        pass
    assert "key_prefix" in message_of(caught.value)


@pytest.mark.medium
def test_several_data_sets_share_resources_and_the_sensor_for_alerts(sandbox):
    put(sandbox, "birds", **TINY)
    put(sandbox, "audio/frogs", **{**TINY, "output": {"uri": "other"}})
    put(sandbox, "machines", Resources, encoders={"devices": ["cpu"], "batch_seconds": 20}, workers={"num_threads": 3})
    with loaded(sandbox) as definitions:
        dg.Definitions.validate_loadable(definitions)
        assert names_of(definitions).count("headrace_alerts") == 1
        assert {"birds_stale_partitions", "frogs_stale_partitions"} < {*names_of(definitions)}
        assert definitions.resources["headrace_encoders"] == EncodersResource(devices=["cpu"], batch_seconds=20)
        assert definitions.resources["headrace_workers"] == WorkersResource(num_threads=3)


def test_one_data_set_of_several_can_be_loaded_alone(sandbox):
    put(sandbox, "birds", **TINY)
    put(sandbox, "frogs", **{**TINY, "output": {"uri": "other"}})
    with sandbox.load_component_and_build_defs(sandbox.defs_folder_path / "frogs") as (component, definitions):
        assert component.dataset.name == "frogs"
        assert {key.split("/")[0] for key in keys_of(definitions)} == {"frogs"}
        dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"name": "birds", "output": {"uri": "other"}}, "same name, birds"),
        ({}, "output.uri out is also the output of"),
    ],
)
def test_two_data_sets_with_one_name_or_one_output_are_refused(sandbox, second, words):
    put(sandbox, "birds", **TINY)
    put(sandbox, "frogs", **{**TINY, **second})
    with pytest.raises(Exception, match="birds") as caught, loaded(sandbox):
        pass
    assert words in message_of(caught.value)


def test_two_components_for_resources_are_refused(sandbox):
    put(sandbox, "birds", **TINY)
    put(sandbox, "one", Resources)
    put(sandbox, "two", Resources)
    with pytest.raises(Exception, match="birds") as caught, loaded(sandbox):
        pass
    assert "merge them into one" in message_of(caught.value)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"shards": {"sample_per_shard": 3}}, ["shards", "sample_per_shard"]),
        ({"splits": {"train": 0.5}}, ["shares must add up to 1"]),
        ({"latents": [{"name": "mel", "encoder": {"kind": "nonsense"}}]}, ["expected one of"]),
    ],
)
def test_an_invalid_attribute_is_named(sandbox, attributes, words):
    put(sandbox, "birds", **{**TINY, **attributes})
    with pytest.raises(Exception, match="birds") as caught, loaded(sandbox):
        pass
    assert all(word in message_of(caught.value) for word in words)


def test_templates_in_attributes_are_filled_in(sandbox, monkeypatch):
    monkeypatch.setenv("CORPUS", "corpus")
    put(sandbox, "birds", **{**TINY, "source": {"uri": "{{ env.CORPUS }}/recordings", "settle_seconds": 0}})
    with sandbox.load_component_and_build_defs(sandbox.defs_folder_path / "birds") as (component, _):
        assert component.dataset.config.source.uri == "corpus/recordings"


@pytest.mark.medium
def test_a_change_of_defs_yaml_starts_nothing_until_it_is_loaded(sandbox):
    path = put(sandbox, "birds", **TINY)
    with loaded(sandbox) as definitions:
        sensor = next(found for found in definitions.sensors if found.name == "birds_source_changes")

        def tick():
            context = dg.build_sensor_context(instance=memory_instance(), definitions=definitions)
            return sensor.evaluate_tick(context)

        assert [request.asset_selection for request in tick().run_requests] == [[dg.AssetKey(["birds", "catalog"])]]
        path.write_text(path.read_text() + "\n")
        held = tick()
        assert not held.run_requests
        assert "reload the code location" in held.skip_message


def test_the_call_puts_a_folder_of_data_sets_under_a_prefix(tmp_path):
    (tmp_path / "datasets").mkdir()
    for name in ("birds", "frogs"):
        (tmp_path / "datasets" / f"{name}.yaml").write_text(yaml.safe_dump({**TINY, "output": {"uri": name}}))
    (tmp_path / "datasets/broken.yaml").write_text("sauce: {}")
    encoders = EncodersResource(devices=["cpu"])
    definitions = dataset_definitions(
        "datasets", root=tmp_path, key_prefix="audio", resources={"headrace_encoders": encoders}
    )
    dg.Definitions.validate_loadable(definitions)
    assert {"audio/birds/catalog", "audio/frogs/catalog"} < keys_of(definitions)
    assert definitions.resources["headrace_encoders"] is encoders
    assert "headrace_definitions_changes" in names_of(definitions)
    assert definitions.executor is None
    with pytest.raises(ConfigError, match="unknown key 'encoders'; the resources of headrace are headrace_storage"):
        dataset_definitions("datasets", root=tmp_path, resources={"encoders": encoders})


def test_it_merges_with_definitions_that_use_the_same_common_names(tmp_path):
    (tmp_path / "birds.yaml").write_text(yaml.safe_dump(TINY))

    @dg.sensor(name="alerts", job_name="nothing")
    def alerts(): ...

    @dg.op
    def nothing_op(): ...

    @dg.job
    def nothing():
        nothing_op()

    theirs = dg.Definitions(
        assets=[dg.AssetSpec("catalog")],
        jobs=[nothing],
        sensors=[alerts],
        resources={"storage": object(), "workers": object(), "encoders": object(), "progress": object()},
        executor=dg.multiprocess_executor,
    )
    merged = dg.Definitions.merge(theirs, dataset_definitions(".", root=tmp_path))
    dg.Definitions.validate_loadable(merged)


def test_runs_belong_to_the_data_set_with_the_longest_prefix_and_other_runs_to_none():
    birds, frogs = (
        ProjectDataset.named(DatasetConfig(name=name, source={"uri": "a"}, output={"uri": "b"}), prefix)
        for name, prefix in (("birds", "audio"), ("frogs", "audio/frogs"))
    )

    def owner(*keys, job="__ASSET_JOB", **tags):
        selection = frozenset(dg.AssetKey(key.split("/")) for key in keys)
        return dataset_of(SimpleNamespace(tags=tags, asset_selection=selection or None, job_name=job), [birds, frogs])

    assert owner("audio/frogs/catalog") == "frogs"
    assert owner("audio/catalog") == "birds"
    assert owner("catalog") is None
    assert owner("catalog", "audio/frogs/catalog") == "frogs"
    assert owner(job="birds_verify") == "birds"
    assert owner(job="their_verify") is None
    assert owner(job="their_job", **{"headrace/dataset": "gone"}) == "gone"
    assert owner() == "__ASSET_JOB"


def test_compile_is_a_setting_of_these_kinds_and_changes_no_fingerprint():
    for settings in (CrepeSettings, TransformersSettings):
        (field,) = [field for field in dataclasses.fields(settings) if field.name == "compile"]
        assert field.metadata["results"] is False
    assert {"crepe", "transformers"} == _COMPILED


def test_the_fields_of_the_encoders_reach_the_engine():
    encoders = EncodersResource(batch_seconds=7.0, num_threads=2)
    assert (encoders.options(5).batch_seconds, encoders.options(5).num_threads) == (7.0, 2)
    assert EncodersResource().options(5).num_threads == 5
