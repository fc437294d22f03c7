"""The unit: hardened, but not so much that the program cannot work."""

import configparser
import re
import subprocess

import pytest

MOST_EXPOSED = 1.5  # of 10; docs/deployment.md says so, too


@pytest.fixture(scope="module")
def unit(deploy):
    return deploy / "systemd/inboxd.service"


@pytest.fixture(scope="module")
def service(unit):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(unit)
    return parser["Service"]


def exposure(unit):
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.split()[1]) < 250:
        pytest.skip("systemd before 250 judges only what it runs")
    said = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
                          capture_output=True, text=True, timeout=60, check=False).stdout
    return float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1])


def test_the_exposure_of_the_unit_is_low(unit, root):
    assert exposure(unit) <= MOST_EXPOSED
    assert f"at most {MOST_EXPOSED} of 10" in (root / "docs/deployment.md").read_text()


def test_a_unit_without_its_system_call_filter_is_more_exposed(unit, tmp_path):
    worse = tmp_path / "inboxd.service"
    worse.write_text(re.sub(r"^SystemCallFilter=.*\n", "", unit.read_text(), flags=re.M))
    assert exposure(worse) > MOST_EXPOSED


def test_the_stop_timeout_is_longer_than_a_stop(service, root):
    text = (root / "docs/configuration.md").read_text()
    shutdown = int(re.search(r"inbox\.shutdown_timeout.*?`(\d+)s`", text, re.S)[1])
    assert int(service["TimeoutStopSec"]) >= shutdown + 2


def test_permanent_errors_are_not_restarted(service):
    assert set(service["RestartPreventExitStatus"].split()) == {"1", "2"}


def test_the_directory_of_the_socket_is_made_by_systemd(service, root):
    path = re.search(r"socket\.path.*?`(/run/[^`]+)`", (root / "docs/configuration.md").read_text(), re.S)[1]
    assert path.startswith(f"/run/{service['RuntimeDirectory']}/")
