"""`verify` by parts: each run takes the next part, and goes on where an interrupted one stopped."""

import contextlib
from fractions import Fraction
from functools import partial

import pytest

from headrace.cli import main
from headrace.errors import ConfigError
from headrace.stores.storage import LocalStorage
from headrace.verification.marks import MARKS_FILE, read_marks, write_marks
from headrace.verification.rounds import plan_rounds, verify_rounds
from headrace.verification.shard_check import Depth
from headrace.verification.verify import checked_on_threads, find_target
from tests.support.streaming.corpus import clips, write_dataset

NUM_SHARDS = 9


@pytest.fixture
def output(tmp_path):
    """Nine shards of audio."""
    write_dataset(tmp_path, {"train": clips(NUM_SHARDS)}, per_shard=1)
    return tmp_path


def names_read(output, share=None, *, stop_after=None, now=100.0):
    """Names of the shards that one round reads; it is interrupted after some of them."""
    target, read = find_target(str(output)), []

    def progress(checked):
        read.append(checked.shard.name)
        if len(read) == stop_after:
            raise KeyboardInterrupt

    rounds = plan_rounds(target, share)
    with contextlib.suppress(KeyboardInterrupt):
        verify_rounds(target, rounds, partial(checked_on_threads, depth=Depth()), lambda: now, progress)
    return read


def shards(output):
    return sorted(path.name for path in (output / "audio").glob("*.tar"))


def test_seven_rounds_of_a_seventh_read_every_shard_once(output):
    read = [name for _ in range(7) for name in names_read(output, Fraction(1, 7))]
    assert sorted(read) == shards(output)


def test_an_interrupted_round_is_continued_after_its_last_shard(output):
    first = names_read(output, stop_after=4)
    second = names_read(output)
    assert len(first) == 4
    assert sorted(first + second) == shards(output)
    assert sorted(names_read(output)) == shards(output)


def test_a_damaged_shard_is_read_again_in_every_round_until_it_is_sound(output):
    name = shards(output)[3]
    path = output / "audio" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:600] + bytes([whole[600] ^ 1]) + whole[601:])
    rounds = [names_read(output, Fraction(1, 3)) for _ in range(3)]
    found = next(number for number, read in enumerate(rounds) if name in read)
    assert all(name in read for read in rounds[found:])
    assert name in names_read(output, Fraction(1, 3))
    path.write_bytes(whole)
    names_read(output, Fraction(1, 3))
    assert read_marks(LocalStorage(output / "audio")).suspects == ()


def test_a_suspect_that_left_the_snapshot_is_forgotten(output):
    marks = read_marks(LocalStorage(output / "audio")).judged("gone.tar", is_sound=False)
    write_marks(LocalStorage(output / "audio"), marks)
    names_read(output)
    assert read_marks(LocalStorage(output / "audio")).suspects == ()


def test_the_marks_say_when_each_shard_was_verified(output):
    names_read(output, Fraction(1, 2), now=100.0)
    names_read(output, Fraction(1, 2), now=200.0)
    marks = read_marks(LocalStorage(output / "audio"))
    assert {marks.verified_seconds(name) for name in shards(output)} <= {100.0, 200.0}
    assert len(marks.verified) <= 3


@pytest.mark.medium
def test_the_command_verifies_the_next_part_and_says_what_is_covered(output, capsys):
    assert main(["verify", str(output)]) == 0
    assert not (output / "audio" / MARKS_FILE).exists()
    assert main(["verify", str(output), "--fraction", "1/3"]) == 0
    assert "of 9 shards were verified so far" in capsys.readouterr().out
    for _ in range(2):
        assert main(["verify", str(output), "--fraction", "1/3"]) == 0
    assert "all 9 shards were verified since 20" in capsys.readouterr().out
    assert main(["verify", str(output), "--resume"]) == 0


@pytest.mark.parametrize("text", ["0", "8/7", "-1", "x", "1/0", "nan"])
def test_an_invalid_fraction_is_an_error_of_the_command_line(text, output, capsys):
    with pytest.raises(SystemExit):
        main(["verify", str(output), f"--fraction={text}"])
    assert "such as 1/7" in capsys.readouterr().err


def test_plain_tars_are_not_verified_in_parts(output):
    plain = output / "plain"
    plain.mkdir()
    (plain / "a.tar").write_bytes((output / "audio" / shards(output)[0]).read_bytes())
    with pytest.raises(ConfigError, match="leave out --fraction"):
        plan_rounds(find_target(str(plain)), None)
