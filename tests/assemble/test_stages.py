"""The kinds of shards that a YAML asks for."""

from headrace.assemble.dataset_stores import DatasetStores
from headrace.assemble.stages import AUDIO, Stage, StageKind, latents_by_part, stages_of
from headrace.config.dataset import load_config
from headrace.upkeep.left_behind import parts_of_yaml
from headrace_dagster.assets.project_dataset import ProjectDataset
from tests.support.projects import Project

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]
CAPTIONS = [{"name": "captions", "table": {"uri": "captions.csv"}}]


def config(tmp_path):
    project = Project(tmp_path)
    project.write_yaml(latents=LATENTS, columns=CAPTIONS, features=[{"name": "loud", "kind": "levels"}])
    return load_config(project.datasets / "tones.yaml")


def test_stages_are_the_audio_then_columns_then_latents(tmp_path):
    found = stages_of(config(tmp_path))
    assert [stage.part for stage in found] == [
        "audio",
        "columns metadata",
        "columns captions",
        "columns loud",
        "latents mel",
    ]
    assert found[0] == AUDIO
    assert stages_of(config(tmp_path), StageKind.LATENTS) == [Stage(StageKind.LATENTS, "mel")]
    assert list(latents_by_part(config(tmp_path))) == ["latents mel"]


def test_every_stage_has_a_folder_a_name_in_the_yaml_and_two_assets(tmp_path):
    found = config(tmp_path)
    stores, dataset = DatasetStores(str(tmp_path)), ProjectDataset.named(found)
    for stage in stages_of(found):
        assert stores.folders(found)[stage.part].uri == f"{stores.output(found).uri}/{stage.folder}"
        assert stage == AUDIO or stage.folder in parts_of_yaml(found)
        assert {dataset.keys.shards(stage), dataset.keys.index(stage)} <= {*dataset.assets()}
    assert list(stores.parts(found)) == ["audio", "latents mel"]
