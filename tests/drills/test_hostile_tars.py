"""Reading hostile tars runs no code, writes nothing outside, exhausts no memory and does not hang."""

import shutil

from tests.support.drills.apart import apart
from tests.support.drills.hostile import LIES, index_of, mutated, tars
from tests.support.drills.works import read_hostile

_MEMORY_BYTES = 3 << 30
_MAY_GROW_BYTES = 400 << 20
_WAYS = ("as it is", "mutated", "as it is", "mutated", *LIES)


def test_hostile_tars(tmp_path, drill):
    """Each archive as it is, with mutated headers, or with wrong byte ranges in its index, by every way to read it."""
    canary, folder = tmp_path / "canary", tmp_path / "deep/deeper/theirs"
    made = tars(canary)
    names = iter(sorted(made) * len(_WAYS))

    def one_round(chance):
        name, way = chance.choice(sorted(made)), chance.choice(_WAYS)
        blob = made[name](chance)
        if way == "mutated":
            blob = mutated(blob, chance)
        return read(blob, way, chance, name)

    def each(chance):
        name = next(names)
        return read(made[name](chance), "as it is", chance, name)

    def read(blob, way, chance, name):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "a.tar").write_bytes(blob)
        if way in LIES:
            (folder / "a.idx").write_bytes(index_of(blob, "a.tar", way, chance))
        before = set(tmp_path.rglob("*"))
        try:
            done = apart(read_hostile, str(folder), str(folder / "cache"), seconds=60, memory_bytes=_MEMORY_BYTES)
            for reader, said in done.well():
                named = ("a.tar", "a.idx", str(folder), "sample '")
                assert said.isdigit() or any(name in said for name in named), (reader, said)
                yield f"{reader}: {'read' if said.isdigit() else 'a named error'}"
            assert done.grown_bytes < _MAY_GROW_BYTES, f"{done.grown_bytes >> 20} MiB"
            strange = {path for path in set(tmp_path.rglob("*")) - before if folder not in path.parents}
            assert not strange, f"wrote {strange}"
        except AssertionError as error:
            error.add_note(f"{name}, {way}")
            raise

    drill.repeat(each, small=10, full=len(made))
    drill.repeat(one_round, small=4, full=200)
