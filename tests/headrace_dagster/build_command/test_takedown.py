"""After a takedown the output has no row of the recording either: catalogs and tables of earlier builds are deleted."""

import json

import polars as pl
import pytest

from headrace.cli import main
from tests.support.six_tones import run


def keys_in(output):
    """Each key in a table of the catalog and of imported columns, apart from the list of rejects."""
    tables = (pl.read_parquet(path) for path in (output / "catalog").rglob("*.parquet") if "reject" not in path.name)
    return {key for rows in tables if "key" in rows.columns for key in rows["key"]}


@pytest.mark.medium
@pytest.mark.parametrize("way", ["deleted", "excluded"])
def test_after_a_takedown_no_table_of_the_output_has_the_recording(project, capsys, way):
    table, output = project.folder / "scores.csv", project.output
    names = [path.name for path in sorted(project.recordings.iterdir())]
    table.write_text("path,score\n" + "".join(f"{name},{number}\n" for number, name in enumerate(names)))
    project.write_yaml(columns=[{"name": "scores", "table": str(table)}])
    assert run(project) == 0
    (key,) = json.loads(_said(capsys, "find", names[0], output))["keys"]
    if way == "deleted":
        (project.recordings / names[0]).unlink()
    else:
        project.write_yaml(exclude=[key])
    table.write_text("path,score\n" + "".join(f"{name},{number}\n" for number, name in enumerate(names) if number))
    assert run(project) == 0
    assert key in keys_in(output)
    assert '"catalog"' in _said(capsys, "find", key, output)
    of_a_scan = output / "catalog/parts/train-0000.rows-0123456789ab.parquet"
    of_a_scan.touch()  # after the header: it may be of a scan in progress
    assert main(["gc", str(output), "--keep", "1", "--now"]) == 0
    assert of_a_scan.exists()
    of_a_scan.unlink()
    assert key not in keys_in(output)
    assert main(["find", key, str(output)]) == 1
    assert run(project) == 0
    assert main(["verify", str(output)]) == 0


def _said(capsys, *words):
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return capsys.readouterr().out
