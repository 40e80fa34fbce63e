"""Mutation testing: which changes are made, what becomes of them, and that its lists name what exists."""

import time
import tomllib
from pathlib import Path

import pytest

from tools.mutant_runs import Outcome, Runs, replace
from tools.mutating import Mutant, behaviour, mutants
from tools.run_mutants import CONFIG, EXPLAINED, ROOT, Score, chosen_modules, is_explained, recorded

CONFIGURED = tomllib.loads(CONFIG.read_text())
SOURCE = '''
def larger(a: int | None, b: int) -> int | None:
    """The larger one."""
    return a if a > b else b
'''


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a: int | None) -> int | str: ...", "def f(a: int & None) -> int & str: ..."),
        ("class A:\n    a: int | None = 1", "class A:\n    a: int & None = 1"),
        ("@dataclass(frozen=True, eq=False)\nclass A: ...", "@dataclass(frozen=False, eq=True)\nclass A: ..."),
        ("a = zip(b, c, strict=True)", "a = zip(b, c, strict=False)"),
        ("class A(Protocol):\n    @property\n    def b(self): ...", "class A(Protocol):\n    def b(self): ..."),
        ("import a\nif TYPE_CHECKING:\n    import b", "import a\nif not TYPE_CHECKING:\n    import b"),
    ],
)
def test_changes_without_effect_are_the_same_behaviour(one, other):
    assert behaviour(one) == behaviour(other) != ""


def test_what_cannot_be_compiled_has_no_behaviour():
    assert behaviour("def f(a, +, b): ...") == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@dataclass(order=True)\nclass A: ...", "@dataclass(order=False)\nclass A: ..."),
        ("class A:\n    a: int | None = 1", "class A:\n    a: int | None = 2"),
        ("def f(a: int = 1): ...", "def f(a: int = 2): ..."),
    ],
)
def test_changes_with_an_effect_are_another_behaviour(one, other):
    assert behaviour(one) != behaviour(other)


@pytest.mark.parametrize(
    ("operator", "text", "constant"),
    [
        ("NumberReplacer", "_WAIT_SECONDS = 6.0  # a while", "_WAIT_SECONDS"),
        ("NumberReplacer", "SIZES: tuple[int, ...] = (1, 3)", "SIZES"),
        ("NumberReplacer", "wait_seconds = 6.0", ""),
        ("NumberReplacer", "if _WAIT_SECONDS == 6.0:", ""),
        ("ReplaceBinaryOperator_LShift_RShift", "_BYTES = 1 >> 20", ""),
    ],
)
def test_a_constant_with_another_number_is_explained_by_its_name(operator, text, constant):
    mutant = Mutant("a.py", operator, "", 1, text, "")
    assert mutant.constant == constant
    assert is_explained(mutant, {"_WAIT_SECONDS": "any", "SIZES": "any"}) == bool(constant)
    assert is_explained(mutant, {text: "this one"})
    assert not is_explained(mutant, {})


def test_every_operator_makes_its_changes_once():
    pytest.importorskip("cosmic_ray")
    made = list(mutants("larger.py", SOURCE, ["ReplaceComparisonOperator_Gt_(GtE|LtE)", "ReplaceBinaryOperator_.*"]))
    assert [(mutant.line, mutant.text) for mutant in made] == [
        (4, "return a if a <= b else b"),
        (4, "return a if a >= b else b"),
    ]
    (removed,) = mutants("a.py", "class A:\n    a = 1\n\n    @property\n    def b(self): ...\n", ["RemoveDecorator"])
    assert removed.text == "without @property"
    assert "-    return a if a > b else b\n+    return a if a <= b else b" in made[0].diff


class FakeTests:
    """Does with a mutant what its text says."""

    def run(self, source, folder):
        if source == "for ever":
            time.sleep(60)
        return {"survives": 0, "is killed": 1}[source]


class FakeMutant:
    def __init__(self, source):
        self.source = source


def outcome_of(source, folder, limit):
    runs = Runs(FakeTests(), folder, limit)
    runs.start(FakeMutant(source))
    ((_, outcome),) = runs.ended(0)
    return outcome


@pytest.mark.parametrize(
    ("source", "limit", "outcome"),
    [
        ("survives", 60, Outcome.SURVIVED),
        ("is killed", 60, Outcome.KILLED),
        ("breaks the run itself", 60, Outcome.KILLED),
        ("for ever", 0.05, Outcome.TIMEOUT),
    ],
)
def test_the_outcome_of_a_mutant_is_that_of_its_process(tmp_path, source, limit, outcome):
    assert outcome_of(source, tmp_path, limit) is outcome


@pytest.mark.medium
def test_mutants_run_side_by_side(tmp_path):
    runs = Runs(FakeTests(), tmp_path, 60)
    for source in ("survives", "is killed", "survives"):
        runs.start(FakeMutant(source))
    assert len(list(runs.ended(1))) >= 2
    assert len(list(runs.ended(0))) <= 1


class ImportingTests:
    """0 if the module is imported with its new text."""

    def __init__(self, path):
        self.path = path

    def run(self, source, folder):
        import sys

        sys.path.insert(0, str(self.path.parent))
        replace(self.path, source)
        return 0 if __import__(self.path.stem).ANSWER == 42 else 1


@pytest.mark.parametrize(("text", "outcome"), [("ANSWER = 42", Outcome.SURVIVED), ("ANSWER = 43", Outcome.KILLED)])
def test_tests_import_the_mutant_and_the_file_stays(tmp_path, text, outcome):
    path = tmp_path / "mutated_module.py"
    path.write_text("ANSWER = 41")
    runs = Runs(ImportingTests(path), tmp_path, limit=60)
    runs.start(FakeMutant(text))
    assert [outcome for _, outcome in runs.ended(0)] == [outcome]
    assert path.read_text() == "ANSWER = 41"


def test_the_score_is_the_share_that_did_not_survive():
    score = Score({Outcome.KILLED: 17, Outcome.SURVIVED: 1, Outcome.TIMEOUT: 2}, explained=3, sample=20)
    assert (score.mutants, score.share) == (20, 0.95)
    assert Score({}, explained=1, sample=None).share == 1


def test_results_of_other_modules_are_kept():
    score = Score({Outcome.KILLED: 3, Outcome.SURVIVED: 1}, explained=2, sample=40)
    results = recorded({"b.py": {"score": 1.0}, "a.py": {"score": 0.5}}, {"a.py": score})
    assert list(results) == ["a.py", "b.py"]
    assert results["b.py"] == {"score": 1.0}
    assert results["a.py"] == {
        "sample": 40, "mutants": 4, "killed": 3, "survived": 1, "timeout": 0, "explained": 2, "score": 0.75,
    }  # fmt: skip


def test_a_module_is_named_by_the_beginning_of_its_path():
    modules = {"a/b.py": ["t"], "a/c.py": ["t"], "b/d.py": ["t"]}
    assert [tests.path for tests in chosen_modules(modules, ["a/", "b/d.py"])] == list(modules)
    assert [tests.path for tests in chosen_modules(modules, ["a/c"])] == ["a/c.py"]
    with pytest.raises(SystemExit, match=r"no module that begins with x; it has: a/b\.py"):
        chosen_modules(modules, ["x"])


def test_every_module_and_test_file_of_the_lists_exists():
    files = (name.partition("::")[0] for names in CONFIGURED["modules"].values() for name in names)
    named = {*CONFIGURED["modules"], *files}
    assert [path for path in sorted(named) if not Path(ROOT, path).is_file()] == []


def test_explained_mutants_have_a_reason_and_a_module_that_is_tested():
    explained = tomllib.loads(EXPLAINED.read_text())
    assert set(explained) <= set(CONFIGURED["modules"])
    assert all(len(reason) > 10 for reasons in explained.values() for reason in reasons.values())
