"""Facts are printed as tables in which names have no meaning for the terminal."""

import io

import pytest
from rich.console import Console

from headrace.cli.tables import bytes_text, duration_text, grid, plain_console, print_facts, share_text
from headrace.upkeep.inspection import CatalogFacts, DatasetFacts, LengthFacts, TarFacts


def printed(facts):
    console = Console(file=io.StringIO(), width=200, markup=False, emoji=False)
    print_facts(console, facts)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3_140_000_000, "3.1 GB"), (2e15, "2000.0 TB")]
)
def test_bytes_have_the_unit_that_fits(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.43, "0.43 s"), (119.9, "119.90 s"), (120, "2.0 min"), (7200, "2.0 h")]
)
def test_durations_have_the_unit_that_fits(seconds, text):
    assert duration_text(seconds) == text


def test_a_share_of_nothing_is_a_hyphen():
    assert [share_text(1, 8), share_text(0, 8), share_text(0, 0)] == ["12.5%", "0.0%", "-"]


def test_names_are_printed_as_they_are(capsys):
    console = plain_console()
    console.print(grid("[b]t[/b]", ("name",), [("[red]a[/red] :x: \x1b[31m",)]))
    shown = capsys.readouterr().out
    assert r"[red]a[/red] :x: \x1b[31m" in shown
    assert "[b]t[/b]" in shown


def test_of_many_tars_thirty_are_shown_and_all_are_counted():
    shards = tuple((f"{number:02d}.tar", None if number == 39 else 2, 1000) for number in range(40))
    shown = printed(DatasetFacts("folder", tars=TarFacts(shards, LengthFacts())))
    assert "29.tar" in shown
    assert "30.tar" not in shown
    assert "… 10 more" in shown
    assert "78 + ? of 1 shards (headrace index counts them)" in shown
    assert "40.0 kB" in shown


def test_rejected_files_are_counted_by_reason_and_the_first_are_listed():
    facts = CatalogFacts(7, 1.5, 2, {"empty": 30}, (("a.wav", "empty", "the file has no bytes"),))
    shown = printed(DatasetFacts("folder", catalog=facts))
    for text in ("rejected: empty", "30", "1.50", "byte-identical", "(first 1 of 30)", "the file has no bytes"):
        assert text in shown


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("columns", [None, "40"])
def test_tables_are_folded_on_terminals_and_by_the_variable_alone(capsys, monkeypatch, stderr, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    name = "part/" * 50
    plain_console(stderr=stderr).print(grid("t", ("name", "file"), [(name, name)]))
    captured = capsys.readouterr()
    assert (f" {name} " in (captured.err if stderr else captured.out)) == (columns is None)
