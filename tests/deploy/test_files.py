"""What is in ``deploy/`` is read by the programs that it is for, as far as they are
here; and says nothing that the code does not know."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ditto.party.server.config import PartyConfig, read_config
from ditto.party.server.metrics import Metrics
from ditto.wire.agreement import read_agreement
from ditto.wire.manifest import VERSION

from .command_line import parse

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "systemd" / "ditto-party@.service"
KUSTOMIZE = DEPLOY / "kustomize"
OVERLAYS = sorted(KUSTOMIZE.glob("overlays/*"))
USER = 10001
SERVE = "ditto party serve"
Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def test_every_file_is_read() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    for path in files:
        match path.suffix:
            case ".yaml":
                assert documents(path), path
            case ".json":
                assert json.loads(path.read_text())
            case ".toml":
                assert tomllib.loads(path.read_text())
            case _:
                assert path.read_text().strip()
    assert len(files) > 15


# Commands


def test_what_is_not_understood_is_noticed() -> None:
    for line, reason in (
        ("party serv", "No such command"),
        ("party serve", "Missing parameter"),
        ("party serve --config x --trio -1", "greater than or equal to 0"),
        ("party serve --config x --shutdown 1", "No such option"),
    ):
        with pytest.raises(Exception, match=reason):
            parse(line.split())


def exec_start() -> list[str]:
    line = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.M)
    assert line is not None
    return shlex.split(line[1].replace("%i", "0"))


def docker_commands() -> Iterator[list[str]]:
    text = (DEPLOY / "Dockerfile").read_text()
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.M)[-1]) == ["ditto"]
    yield json.loads(re.findall(r"^CMD (.*)$", text, re.M)[-1])
    compose = documents(DEPLOY / "compose" / "compose.yaml")[0]
    yield from (service["command"] for service in compose["services"].values())
    (container,) = stateful_set_of(DEPLOY / "kustomize" / "base")["containers"]
    yield [each.replace("$(TRIO)", "1") for each in container["args"]]


def test_the_commands_are_commands_of_ours() -> None:
    program, *arguments = exec_start()
    assert program == "/opt/ditto/bin/ditto"
    assert parse(arguments) == SERVE
    for command in docker_commands():
        assert parse(command) == SERVE


# Settings


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("party*.toml")), ids=str)
def test_settings_of_parties_are_settings(path: Path) -> None:
    config = read_config(path)
    assert isinstance(config, PartyConfig)
    assert config.listen_http is not None  # probes ask there


def test_each_overlay_is_a_party_of_the_example() -> None:
    agreement = read_agreement(KUSTOMIZE / "base" / "deployment.toml")
    for overlay in OVERLAYS:
        rank = read_config(overlay / "party.toml").rank
        assert agreement.parties[rank].trust_domain == f"{overlay.name}.example"
    assert len(OVERLAYS) == 3
    assert agreement.versions.admit(VERSION)
    image = documents(KUSTOMIZE / "base" / "kustomization.yaml")[0]["images"][0]
    assert image["newTag"] == VERSION


def test_all_wait_longer_than_a_drain_lasts() -> None:
    drain = read_agreement(KUSTOMIZE / "base" / "deployment.toml").drain_seconds
    pod = stateful_set_of(KUSTOMIZE / "base")
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.M)
    assert stop is not None
    compose = documents(DEPLOY / "compose" / "compose.yaml")[0]
    assert pod["terminationGracePeriodSeconds"] > drain
    assert int(stop[1]) > drain
    assert compose["services"]["party"]["stop_grace_period"] == "2m"


# Nobody is root


def stateful_set_of(folder: Path) -> Document:
    (found,) = documents(folder / "statefulset.yaml")
    spec: Document = found["spec"]["template"]["spec"]
    return spec


def test_nobody_is_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (.*)$", text, re.M)[-1] == f"{USER}:{USER}"
    compose = documents(DEPLOY / "compose" / "compose.yaml")[0]
    for service in compose["services"].values():
        assert service["user"] == f"{USER}:{USER}"
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
    pod = stateful_set_of(KUSTOMIZE / "base")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
    assert re.search(r"^User=ditto$", UNIT.read_text(), re.M)


def test_no_key_is_among_them() -> None:
    for path in DEPLOY.rglob("*"):
        assert path.is_dir() or "PRIVATE KEY" not in path.read_text(), path


# Kubernetes and systemd, if they are here


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: str(path.name))
def test_kustomize_builds_each_overlay(overlay: Path) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(overlay)],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""  # nothing is deprecated
    found = {(o["kind"], o["metadata"]["name"]): o for o in _all(built.stdout)}
    stateful = found["StatefulSet", "ditto-party"]
    spec = stateful["spec"]
    labels = spec["template"]["metadata"]["labels"]
    agreement = read_agreement(KUSTOMIZE / "base" / "deployment.toml")
    assert spec["replicas"] == agreement.trios
    names = {name for _, name in found}
    for source in spec["template"]["spec"]["volumes"][0]["projected"]["sources"]:
        assert source["configMap"]["name"] in names
    for trio in range(agreement.trios):
        service = found["Service", f"ditto-party-{trio}"]["spec"]
        pod = service["selector"].pop("statefulset.kubernetes.io/pod-name")
        assert pod == f"ditto-party-{trio}"
        assert service["publishNotReadyAddresses"] is True
        assert service["selector"].items() <= labels.items()
        ports = {str(port["port"]) for port in service["ports"]}
        assert ports == {"7100", "7200"}
    for kind, field in (
        ("PodDisruptionBudget", "selector"),
        ("NetworkPolicy", "podSelector"),
    ):
        selector = found[kind, "ditto-party"]["spec"][field]["matchLabels"]
        assert selector.items() <= labels.items()
    assert {o["metadata"].get("namespace") for o in found.values()} == {"ditto"}


def _all(text: str) -> list[Document]:
    return [each for each in yaml.safe_load_all(text) if each]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd"
)
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = exec_start()[0]
    unit = tmp_path / "ditto-party@0.service"
    unit.write_text(UNIT.read_text().replace(program, "/bin/true"))
    verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(
        verify, capture_output=True, text=True, timeout=60, check=False
    )
    about = [line for line in done.stderr.splitlines() if "ditto-party" in line]
    assert about == []
    assert done.returncode == 0


# What is measured


def exposed() -> set[str]:
    text = Metrics(["org-b.example"]).text().decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.M))


def asked_for(text: str) -> set[str]:
    return set(re.findall(r"\bditto_[a-z0-9_]+", text))


@pytest.mark.parametrize("name", ["grafana/ditto.json", "prometheus/alerts.yaml"])
def test_only_what_a_party_counts_is_asked_for(name: str) -> None:
    asked = asked_for((DEPLOY / name).read_text())
    bases = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in asked}
    assert bases <= exposed()


def test_the_dashboard_shows_all_that_is_counted() -> None:
    text = (DEPLOY / "grafana" / "ditto.json").read_text()
    bases = {re.sub(r"_(bucket|sum|count)$", "", m) for m in asked_for(text)}
    assert {m for m in exposed() if not m.endswith("_created")} <= bases
    panels = json.loads(text)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["targets"] and panel["description"] for panel in panels)
