"""The files in examples/monitoring: they can be read, and every metric that they name is served."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from driftcal.cli import app
from driftcal.decisions import Threshold
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.serving.metrics_page import metrics_page
from driftcal.monitor.serving.prometheus import MetricFamily
from driftcal.monitor.serving.service import MonitorService

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
NAME = re.compile(r"\b(?:driftcal|process)_[a-z_]+\b")
#: `make promtool` puts it beside Python.
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=Path(sys.executable).parent)
#: Metrics of the server itself; test_listen reads them from a running one.
OF_SERVER = {"driftcal_http_responses_total", "driftcal_http_connections", "driftcal_queued_bytes"}


@pytest.fixture(scope="module")
def served(scenario):
    """The names of all metrics of a monitor with a windowed form, a threshold, labels and rejected samples."""
    pytest.importorskip("prometheus_client")
    threshold = Threshold(0.8, "coverage", 0.8, 0.8, 0.9, 0.85, 0.05, 3000)
    monitor = Monitor(scenario.windowed(threshold))
    logits, y = scenario.sample(600)
    monitor.update(logits, y=y)
    monitor.update([[1.0, float("nan"), 2.0]])
    _, content = metrics_page(MonitorService(monitor).metric_families)("")
    names = set(re.findall(r"^# TYPE (\S+)", content.decode(), re.MULTILINE))
    assert {name for name in names if name.startswith("driftcal")} == set(
        re.findall(r"^# TYPE (\S+)", MonitorService(monitor).prometheus_text(), re.MULTILINE)
    )  # the file and the page have the same metrics
    return names | OF_SERVER


def expressions():
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])
    dashboard = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])


def test_every_metric_is_served(served):
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(used) > 15
    assert used <= served


def test_states_of_alerts_exist():
    from driftcal.monitor.alarm_rule import STATES

    states = {state for text in expressions() for state in re.findall(r'state="([^"]+)"', text)}
    assert states <= set(STATES)
    assert states == set(STATES) - {"ok"}


def test_how_soon_a_state_raises_an_alert():
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    rule_of = {text: rule for rule in rules for text in re.findall(r'driftcal_state{state="([^"]+)"}', rule["expr"])}
    soon, late = rule_of["out of distribution"], rule_of["cannot tell"]
    assert (soon.get("for"), soon["labels"]["severity"]) == (None, "critical")
    assert (late["for"], late["labels"]["severity"]) == ("1d", "info")


def test_the_compose_file_mounts_what_is_there():
    compose = yaml.safe_load((FOLDER / "docker-compose.yml").read_text())
    mounted = [volume.split(":")[0] for service in compose["services"].values() for volume in service["volumes"]]
    paths = [path for path in mounted if path.startswith("./")]
    assert len(paths) == 5
    assert all((FOLDER / path).is_file() for path in paths)
    assert set(mounted) - set(paths) <= set(compose["volumes"])
    source = yaml.safe_load((FOLDER / "grafana" / "datasource.yml").read_text())["datasources"][0]
    dashboard = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {source["uid"]}
    yaml.safe_load((FOLDER / "grafana" / "dashboards.yml").read_text())


def test_the_unit_starts_a_command_that_exists(scenario, tmp_path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string((FOLDER / "driftcal-monitor.service").read_text())
    command = shlex.split(unit["Service"]["ExecStart"])
    artefact = tmp_path / "cal.safetensors"
    scenario.calibrator.save(artefact, metadata={"drift_reference": scenario.drift_reference.to_dict()})
    assert command[1:3] == ["monitor", "/etc/driftcal/cal.safetensors"]
    result = CliRunner().invoke(app, ["monitor", str(artefact), *command[3:], "--dry-run"])
    assert result.exit_code == 0
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]
    assert command[command.index("--listen") + 1] in scrape["static_configs"][0]["targets"]


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package prometheus: make promtool")
def test_promtool_accepts_rules_and_configuration():
    for arguments in (("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml")):
        subprocess.run([PROMTOOL, *arguments], cwd=FOLDER, check=True, capture_output=True)


def test_names_of_the_server_are_those_of_the_command():
    source = (Path(__file__).parents[2] / "src" / "driftcal" / "cli" / "commands" / "monitor_listen.py").read_text()
    assert {f"driftcal_{name}" for name in re.findall(r'MetricFamily\(\s*"([a-z_]+)"', source)} == OF_SERVER
    assert MetricFamily.__dataclass_fields__.keys() >= {"name", "kind", "help_text", "values"}
