"""The digest of a report changes with everything that its page shows, and with nothing else."""

from types import SimpleNamespace

from headrace_dagster.assets import dataset_report
from headrace_dagster.assets.dataset_report import report_inputs


def numbered(text):
    return SimpleNamespace(snapshot=SimpleNamespace(to_json=text.encode, digest=text))


GIVEN = {
    "name": "birds",
    "snapshots": {"audio": numbered("1")},
    "reasons": [("empty", 2)],
    "views": {"clean": numbered("3")},
}


def test_other_inputs_have_another_digest(monkeypatch):
    changes = [
        {},
        {"name": "frogs"},
        {"snapshots": {"audio": numbered("2")}},
        {"snapshots": {"latents/mel": numbered("1")}},
        {"snapshots": {}},
        {"reasons": [("empty", 3)]},
        {"reasons": [("truncated", 2)]},
        {"views": {}},
        {"views": {"clean": numbered("4")}},
        {"views": {"loud": numbered("3")}},
    ]
    digests = [report_inputs(**GIVEN | change) for change in changes]
    monkeypatch.setattr(dataset_report, "REPORT_VERSION", dataset_report.REPORT_VERSION + 1)
    digests.append(report_inputs(**GIVEN))
    assert len(set(digests)) == len(digests)


def test_equal_inputs_have_equal_digests():
    again = GIVEN | {"snapshots": {"audio": numbered("1")}, "views": {"clean": numbered("3")}}
    assert report_inputs(**again) == report_inputs(**GIVEN)
