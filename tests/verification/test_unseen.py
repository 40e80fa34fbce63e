"""Files that verification does not look at are listed, one sentence for each folder."""

from headrace.locate import locate
from headrace.verification.unseen import unseen_beside_tars, unseen_in_output


def test_everything_of_an_output_is_looked_at(output):
    assert list(unseen_in_output(locate(str(output)))) == []


def test_other_files_are_counted_and_three_are_named(output):
    for name in "dcba":
        (output / "audio" / f"{name}.txt").touch()
    (output / "views/odd/x").touch()
    (output / "readme").touch()
    assert list(unseen_in_output(locate(str(output)))) == [
        f"{output}: 1 files (readme)",
        f"{output}/audio: 4 files (a.txt, b.txt, c.txt, …)",
        f"{output}/views/odd: 1 files (x)",
    ]


def test_in_a_folder_of_tars_only_tars_and_their_indexes_are_looked_at(tmp_path, output):
    folder = tmp_path / "tars"
    folder.mkdir()
    tar = next((output / "audio").glob("*.tar"))
    for path in (tar, tar.with_suffix(".idx")):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "sizes.json").write_text("{}")
    (folder / "notes.txt").touch()
    assert list(unseen_beside_tars(locate(str(folder)), None)) == [f"{folder}: 1 files (notes.txt)"]
    assert list(unseen_beside_tars(locate(str(folder / "*.tar")), None)) == []
