"""The container files, CITATION.cff, SECURITY.md and the script of releases name what there is."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "containers/Containerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "containers/compose.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions(name):
    """The arguments of each instruction of this name."""
    lines = CONTAINERFILE.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"{name} ")]


def test_everything_that_is_copied_into_the_image_is_in_the_repository():
    sources = [source for *sources, _ in instructions("COPY") for source in sources]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert len(instructions("FROM")) == len(instructions("USER")) == 1


def test_the_image_has_every_package_and_extra_that_is_there():
    copied = {source for *sources, _ in instructions("COPY") for source in sources}
    links = {path.name for path in (ROOT / "headrace_dagster").iterdir() if path.is_symlink()}
    assert {"headrace", "headrace_dagster", "pyproject.toml", "README.md", "LICENSE", *links} <= copied
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', CONTAINERFILE)
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_what_the_image_installs_has_the_pinned_version_and_a_hash():
    pinned = set((ROOT / "constraints.txt").read_text().splitlines())
    lines = (ROOT / "containers/requirements.txt").read_text().splitlines()
    found = [re.fullmatch(r"(\S+==\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines if line[0] != "#"]
    assert len(found) > 100
    assert {line[1] if line else "" for line in found} <= {line for line in pinned if not line.startswith("torch==")}
    roots = {re.split(r"[\[=]", text)[0].lower() for text in PROJECT["optional-dependencies"]["postgres"]}
    assert roots <= {line[1].split("==")[0] for line in found}


def test_the_image_installs_by_hashes_before_anything_else():
    copied = [source for *sources, _ in instructions("COPY") for source in sources]
    assert "containers/requirements.txt" in copied
    commands = " ".join(word for words in instructions("RUN") for word in words).split("&&")
    installs = [command.split() for command in commands if "install" in command.split()]
    assert {"--no-deps", "--require-hashes", "requirements.txt"} <= set(installs[0])
    assert "--no-deps" in installs[-1]
    assert ".[dagster,postgres]" in installs[-1]


def test_services_are_on_loopback_and_wait_for_their_database():
    assert set(COMPOSE["services"]) == {"webserver", "daemon", "postgres"}
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:3000:3000"]
    for name in ("webserver", "daemon"):
        service = COMPOSE["services"][name]
        assert service["depends_on"]["postgres"]["condition"] == "service_healthy"
        assert service["command"][0] == f"dagster-{name}"
    assert COMPOSE["services"]["postgres"]["healthcheck"]["test"][0] == "CMD"


def test_paths_and_volumes_of_the_compose_file_exist():
    for service in COMPOSE["services"].values():
        if "build" in service:
            context = ROOT / "containers" / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).is_file()
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / "containers" / source).is_dir()


def test_no_password_is_written_down():
    text = (ROOT / "containers/compose.yaml").read_text()
    assert re.findall(r"PASSWORD: (.*)", text) == ['"${POSTGRES_PASSWORD:?choose a password}"']
    url = COMPOSE["services"]["daemon"]["environment"]["DAGSTER_POSTGRES_URL"]
    assert re.fullmatch(r"postgresql\+psycopg2://dagster:\$\{POSTGRES_PASSWORD:\?[\w ]+\}@postgres:5432/dagster", url)


def test_the_settings_of_dagster_in_the_container_are_those_of_the_checkout_and_postgresql():
    settings = (ROOT / "dagster_home/dagster.yaml").read_text()
    joined = yaml.safe_load(settings + (ROOT / "containers/storage.yaml").read_text())
    assert joined == yaml.safe_load(settings) | {
        "storage": {"postgres": {"postgres_url": {"env": "DAGSTER_POSTGRES_URL"}}}
    }


def test_the_citation_has_the_version_and_licence_of_the_package_and_names_no_person():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["authors"] == [{"name": "The Headrace authors"}]
    assert {"cff-version", "message", "title", "type"} <= citation.keys()


def test_pages_that_security_names_exist():
    named = re.findall(r"\]\(([^)#]+)", (ROOT / "SECURITY.md").read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_addresses_of_the_project_are_in_one_place():
    tracked = subprocess.run(["git", "ls-files", "*.md", "*.cff"], cwd=ROOT, capture_output=True, check=True, text=True)
    pages = tracked.stdout.split()
    assert [page for page in pages if re.search(r"(?:github|gitlab)\.com/headrace", (ROOT / page).read_text())] == []


@pytest.mark.parametrize("script", ["tools/check-release", "tools/make-venv"])
def test_scripts_are_valid_bash(script):
    subprocess.run(["bash", "-n", ROOT / script], check=True)
