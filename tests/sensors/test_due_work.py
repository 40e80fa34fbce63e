"""Due work of a data set, decided from fakes of wanted and existing manifests, snapshots and records."""

from types import SimpleNamespace

import pytest

from headrace.errors import CatalogError, IntegrityError, NotFoundError
from headrace.format.manifests.manifests import ManifestSummary
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.sensors import due_work
from headrace_dagster.sensors.due_work import DueWork, DueWorkReader, _base, _StageState, _work

NAMES = ("train-0000", "train-0001")
FIRST = NAMES[0]
COLUMNS = "columns metadata"
MEL = "latents mel"
CONFIG = SimpleNamespace(
    latents=[SimpleNamespace(name="mel")],
    column_sets=("metadata",),
    columns=(),
    views={},
    model_dump_json=lambda: "{}",
)


class Fakes:
    """A data set of two partitions: audio, columns and one set of latents, in which everything is up to date."""

    def __init__(self):
        self.keys = DatasetKeys(("demo",))
        self.catalog = SimpleNamespace(fingerprints={}, digest="catalog", seconds=7200.0)
        self.found = {
            stage: {name: summary(1, f"{stage} of {name}") for name in NAMES} for stage in ("audio", COLUMNS, MEL)
        }
        numbers = {"audio": 7, COLUMNS: 2, MEL: 3}
        self.snapshots = {stage: SimpleNamespace(number=number, snapshot=stage) for stage, number in numbers.items()}
        self.is_committed = dict.fromkeys(numbers, True)
        self.unrecorded_names, self.committed_with, self.missing = set(), {}, {}
        self.untrue, self.without_parts, self.last_runs = set(), set(), {}
        self.lacks_index, self.is_smoke_done, self.is_report_done = set(), True, True

    def output(self, config):
        return "output"

    def audio(self, config):
        return "audio"

    def latents(self, config, name):
        return f"latents {name}"

    def columns(self, config, name):
        return f"columns {name}"

    def folders(self, config):
        return {"audio": "audio", COLUMNS: COLUMNS, MEL: MEL}

    def parts(self, config):
        return {"audio": "audio", MEL: MEL}

    def unrecorded(self, key, current):
        return {name for name in current if (key, name) in self.unrecorded_names}

    def has_index(self, key, newest):
        return key not in self.lacks_index

    def last_run(self, key):
        return self.last_runs.get(key, "")

    def is_made_from(self, key, inputs):
        assert set(inputs) == {"audio", "latents mel"}
        return self.is_smoke_done

    def committed(self, newest, catalog, current, number):
        stage = next((stage for stage, snapshot in self.snapshots.items() if snapshot is newest), "")
        self.committed_with[stage] = number
        return self.is_committed.get(stage, False)

    def read(self) -> DueWork | None:
        reader = DueWorkReader(SimpleNamespace(config=CONFIG, keys=self.keys), self, self)
        return reader.read(lambda stage: self.missing.get(stage, {}))


def summary(number, wanted):
    return ManifestSummary(number, wanted, "digest")


@pytest.fixture
def fakes(monkeypatch):
    fakes = Fakes()
    replaced = {
        "read_current_header": lambda output, config: fakes.catalog,
        "wanted_partitions": lambda fingerprints, config: {name: f"audio of {name}" for name in NAMES},
        "wanted_latents": lambda ready, settings, rows: {name: f"{MEL} of {name}" for name in ready},
        "with_centroids": lambda latents, storage: latents,
        "rows_of_texts": lambda output, config, latents: None,
        "rows_of_set": lambda output, catalog, name, config: {},
        "wanted_columns": lambda ready, rows: {name: f"{COLUMNS} of {name}" for name in ready},
        "latent_settings": lambda latents: latents,
        "newest_summaries": lambda shards: fakes.found[shards],
        "newest_snapshot": lambda shards: fakes.snapshots[shards],
        "is_committed": fakes.committed,
        "has_parts": lambda shards, snapshot: snapshot not in fakes.without_parts,
        "has_true_sizes": lambda shards, snapshot: snapshot not in fakes.untrue,
        "smoke_inputs": lambda config, snapshots: snapshots,
        "has_report": lambda *_: fakes.is_report_done,
    }
    for name, fake in replaced.items():
        monkeypatch.setattr(due_work, name, fake)
    return fakes


def stages_of(due):
    return {name: work.stages for name, work in due.partitions.items()}


def last_assets(fakes, *stages):
    keys = {
        "audio": fakes.keys.sizes_index,
        COLUMNS: fakes.keys.columns_index("metadata"),
        MEL: fakes.keys.latents_index("mel"),
    }
    return (*(keys[stage] for stage in stages), fakes.keys.loader_smoke_test, fakes.keys.dataset_report)


def test_while_the_source_has_to_be_scanned_nothing_is_known(fakes):
    fakes.catalog = None
    assert fakes.read() is None


def test_a_data_set_that_is_up_to_date_lacks_nothing(fakes):
    due = fakes.read()
    assert (due.partitions, due.finish, due.hours) == ({}, (), 0)
    assert due.token
    assert fakes.committed_with == {"audio": None, COLUMNS: 7, MEL: 7}  # they are committed for the audio's snapshot


def test_of_a_partition_whose_audio_is_stale_everything_is_made(fakes):
    fakes.found["audio"][FIRST] = summary(4, "another")
    due = fakes.read()
    assert stages_of(due) == {FIRST: ("audio", COLUMNS, MEL)}
    assert due.partitions[FIRST].num_together == 2  # columns are joined in the run that builds the audio
    assert due.finish == last_assets(fakes, "audio", COLUMNS, MEL)
    assert due.token == ""
    assert due.hours == 1  # half of two hours
    assert due.partitions[FIRST].reason is None


def test_of_a_partition_whose_latents_are_stale_only_these_are_made(fakes):
    del fakes.found[MEL][FIRST]
    assert stages_of(fakes.read()) == {FIRST: (MEL,)}


def test_all_sets_of_latents_that_a_partition_lacks_are_one_run():
    stages = {
        name: SimpleNamespace(todo={FIRST}, wanted={}, found={}, current={}, missing={})
        for name in ("audio", COLUMNS, MEL, "fine")
    }
    assert due_work._work(FIRST, stages).num_together == 2  # the sets follow in a run of their own
    for name in ("audio", COLUMNS):
        stages[name].todo = set()
    work = due_work._work(FIRST, stages)
    assert (work.stages, work.num_together) == ((MEL, "fine"), 2)


def test_a_partition_that_dagster_has_no_record_of_is_made_again(fakes):
    fakes.unrecorded_names.add((fakes.keys.latent_shards("mel"), FIRST))
    assert stages_of(fakes.read()) == {FIRST: (MEL,)}
    fakes.unrecorded_names.add((fakes.keys.audio_shards, FIRST))
    assert stages_of(fakes.read()) == {FIRST: ("audio", COLUMNS, MEL)}


def test_of_a_partition_whose_rows_changed_only_the_columns_are_made(fakes):
    fakes.found[COLUMNS][FIRST] = summary(4, "another")
    due = fakes.read()
    assert stages_of(due) == {FIRST: (COLUMNS,)}
    assert due.finish == (fakes.keys.columns_index("metadata"), fakes.keys.dataset_report)


def test_a_snapshot_of_columns_is_committed_without_a_smoke_test(fakes):
    fakes.is_committed[COLUMNS] = False
    assert fakes.read().finish == (fakes.keys.columns_index("metadata"), fakes.keys.dataset_report)


def test_a_set_whose_table_was_never_valid_is_not_due(fakes, monkeypatch):
    monkeypatch.setattr(due_work, "rows_of_set", lambda output, catalog, name, config: None)
    fakes.found[COLUMNS], fakes.is_committed[COLUMNS] = {}, False
    due = fakes.read()
    assert (due.partitions, due.finish) == ({}, ())


def test_centroids_are_fitted_before_anything_is_made_with_them(fakes, monkeypatch):
    def unfitted(latents, storage):
        raise NotFoundError("no centroids")

    monkeypatch.setattr(due_work, "with_centroids", unfitted)
    fakes.found[MEL], fakes.is_committed[MEL], fakes.is_smoke_done = {}, False, False
    due = fakes.read()
    assert (due.partitions, due.finish) == ({}, (fakes.keys.centroids("mel"),))
    fakes.found["audio"] = {}
    due = fakes.read()
    assert due.partitions.keys() == set(NAMES)
    assert all(MEL not in work.stages for work in due.partitions.values())
    assert due.finish[-1] == fakes.keys.centroids("mel")


def test_latents_whose_centroids_cannot_be_read_are_stale_and_keep_nothing_else_from_being_made(fakes, monkeypatch):
    def damaged(latents, storage):
        raise IntegrityError("the centroids are damaged")

    monkeypatch.setattr(due_work, "with_centroids", damaged)
    fakes.found["audio"][FIRST] = summary(1, "another")
    assert stages_of(fakes.read()) == {FIRST: ("audio", COLUMNS, MEL), NAMES[1]: (MEL,)}


def test_latents_of_texts_whose_table_was_never_valid_are_not_due(fakes, monkeypatch):
    def no_rows(output, config, latents):
        raise CatalogError("the table was not read yet")

    monkeypatch.setattr(due_work, "rows_of_texts", no_rows)
    fakes.found[MEL], fakes.is_committed[MEL] = {}, False
    due = fakes.read()
    assert due.partitions == {}
    assert due.finish[0] == fakes.keys.latents_index("mel")  # which says what is missing


def test_missing_shards_are_the_reason_unless_the_partition_has_changed_as_well(fakes):
    fakes.missing["audio"] = {FIRST: 5.0, NAMES[1]: 6.0}
    fakes.found["audio"][NAMES[1]] = summary(4, "another")
    due = fakes.read()
    assert {name: work.reason for name, work in due.partitions.items()} == {FIRST: "shards missing", NAMES[1]: None}


@pytest.mark.parametrize("fault", ["snapshot", "commit", "index"])
@pytest.mark.parametrize("stage", ["audio", MEL])
def test_an_index_that_is_not_up_to_date_is_made_again_and_what_follows_it(fakes, stage, fault):
    if fault == "snapshot":
        fakes.snapshots[stage] = None
    elif fault == "commit":
        fakes.is_committed[stage] = False
    else:
        fakes.lacks_index.add(fakes.keys.sizes_index if stage == "audio" else fakes.keys.latents_index("mel"))
    assert fakes.read().finish == last_assets(fakes, stage)
    assert fakes.committed_with.get(MEL, 7) == (None if (stage, fault) == ("audio", "snapshot") else 7)


@pytest.mark.parametrize(("stage", "is_evaluated"), [("audio", True), (COLUMNS, True), (MEL, False)])
def test_views_are_evaluated_again_after_audio_and_columns_and_not_after_latents(
    fakes, monkeypatch, stage, is_evaluated
):
    monkeypatch.setattr(CONFIG, "views", {"loud": None})
    monkeypatch.setattr(due_work, "waits", lambda *_: False)
    monkeypatch.setattr(due_work, "has_view", lambda *_: True)
    fakes.is_committed[stage] = False
    assert (fakes.keys.view("loud") in fakes.read().finish) == is_evaluated


INDEXES = {"audio": "sizes_index", COLUMNS: "metadata_columns_index", MEL: "mel_sizes_index"}


@pytest.mark.parametrize("untrue", [["audio"], [COLUMNS], [MEL], ["audio", COLUMNS, MEL]])
def test_where_only_sizes_json_is_wrong_only_the_index_is_made_again(fakes, untrue):
    fakes.untrue.update(untrue)
    assert [key.path[-1] for key in fakes.read().finish] == [INDEXES[stage] for stage in untrue]


def test_a_lost_part_of_the_table_of_shards_is_made_again_like_sizes_json(fakes):
    fakes.without_parts = {"audio"}
    assert fakes.read().finish == (fakes.keys.sizes_index,)


def test_what_else_is_due_is_made_with_the_index_whose_sizes_json_is_wrong(fakes):
    fakes.untrue.add("audio")
    fakes.is_report_done = False
    assert fakes.read().finish == (fakes.keys.sizes_index, fakes.keys.dataset_report)


def test_a_wrong_sizes_json_of_audio_does_not_wait_for_latents(fakes):
    fakes.untrue.add("audio")
    fakes.found[MEL] = {FIRST: fakes.found[MEL][FIRST]}
    due = fakes.read()
    assert list(due.partitions) == [NAMES[1]]
    assert due.rest == (fakes.keys.sizes_index,)


def test_a_sizes_json_that_is_lost_again_is_other_work_and_one_that_could_not_be_written_is_the_same(fakes):
    fakes.untrue.add("audio")
    first = fakes.read().token
    assert fakes.read().token == first
    fakes.last_runs[fakes.keys.sizes_index] = "another run"
    assert fakes.read().token != first


def test_a_smoke_test_of_other_data_is_repeated_and_the_report_after_it(fakes):
    fakes.is_smoke_done = False
    assert fakes.read().finish == last_assets(fakes)
    fakes.is_smoke_done, fakes.is_report_done = True, False
    assert fakes.read().finish == (fakes.keys.dataset_report,)


def test_the_token_of_what_follows_changes_with_the_snapshots_and_manifests(fakes):
    tokens = [fakes.read().token]
    fakes.snapshots[MEL] = SimpleNamespace(number=4, snapshot=MEL)
    tokens.append(fakes.read().token)
    fakes.found["audio"][FIRST] = summary(2, f"audio of {FIRST}")
    tokens.append(fakes.read().token)
    assert len(set(tokens)) == 3


def test_partitioned_assets_of_stages(fakes):
    reader = DueWorkReader(SimpleNamespace(config=CONFIG, keys=fakes.keys), fakes, fakes)
    made = [fakes.keys.audio_shards, fakes.keys.columns("metadata"), fakes.keys.latent_shards("mel")]
    assert reader.assets_of(["audio", COLUMNS, MEL]) == made


def stage(*, found=None, current=None, todo=(), missing=None):
    return _StageState({FIRST: "wanted"}, found or {}, current or {}, frozenset(todo), missing or {})


def test_work_is_counted_from_the_manifest_that_it_replaces():
    before = {FIRST: summary(4, "before")}
    assert _base(stage(), FIRST) == 0
    assert _base(stage(found=before), FIRST) == 4
    assert _base(stage(found=before, current=before), FIRST) == 3  # it has been replaced already


def test_a_partition_that_lacks_nothing_has_no_work():
    assert _work(FIRST, {"audio": stage(), MEL: stage()}) is None


def test_the_token_of_a_partition_changes_with_what_is_missing_and_since_when():
    tokens = [
        _work(FIRST, {"audio": stage(todo=[FIRST], missing=missing), MEL: stage()}).token
        for missing in ({}, {FIRST: 5.0}, {FIRST: 6.0})
    ]
    assert len(set(tokens)) == 3
