"""The mark of an export lists the tars that it wrote."""

import json

import pytest

from headrace.errors import FormatError
from headrace.exports.exporting import export_snapshot
from headrace.format.export_mark import MARK
from headrace.format.indexes.index import index_name
from tests.support.exports import refused, tars


def test_a_folder_with_other_files_does_not_count_as_empty(outputs, target):
    target.root.mkdir()
    (target.root / "notes.txt").write_text("mine")
    refused(outputs["small"], target, r"holds files \(notes\.txt\)")


def test_the_error_about_an_export_without_its_mark_says_what_to_do(outputs, target):
    export_snapshot(outputs["small"], target)
    target.delete(MARK)
    refused(outputs["small"], target, "If an export whose mark was deleted wrote them, remove the folder first")


def test_the_mark_names_the_tars_with_their_sizes_and_a_later_version_is_an_error(outputs, target):
    export_snapshot(outputs["large"], target)
    mark = json.loads(target.read(MARK))
    assert mark["version"] == 1
    assert mark["is_complete"]
    names = {path.relative_to(target.root).as_posix() for path in target.root.rglob("*") if path.name != MARK}
    assert mark["files"] == {name: [target.size(name)] for name in names}
    assert all(target.exists(index_name(name)) for name in tars(target))
    target.write(MARK, b'{"version": 2}')
    with pytest.raises(FormatError, match="not a mark of an export"):
        export_snapshot(outputs["large"], target)
