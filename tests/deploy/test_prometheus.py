"""Alert rules and the dashboard: well formed, with existing metrics, and with tests of each alert."""

import itertools
import json
import re

import pytest
import yaml

from support import promtool

# Our metrics start with this prefix.
_METRIC = re.compile(r"\b((?:inboxd|process)_\w+)")
_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def metrics_in(expression):
    return set(_METRIC.findall(re.sub(r'"[^"]*"', '""', expression)))


def unknown(names, meters):
    known = set(meters)
    for name, kind in meters.items():
        if kind == "histogram":
            known |= {name + suffix for suffix in ("_bucket", "_sum", "_count")}
    return names - known


@pytest.fixture(scope="module")
def rules(deploy):
    groups = yaml.safe_load((deploy / "prometheus/rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def dashboard(deploy):
    return json.loads((deploy / "grafana/inboxd.json").read_text())


@pytest.fixture(scope="module")
def expressions(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_promtool_accepts_the_rules(deploy):
    said = promtool.run("check", "rules", str(deploy / "prometheus/rules.yaml"))
    assert said.returncode == 0, said.stdout + said.stderr


def test_each_alert_fires_when_it_should_and_not_before(deploy):
    said = promtool.run("test", "rules", str(deploy / "prometheus/rules.test.yaml"))
    assert said.returncode == 0, said.stdout + said.stderr


def test_each_alert_has_a_firing_and_a_silent_test(deploy, rules):
    tests = yaml.safe_load((deploy / "prometheus/rules.test.yaml").read_text())["tests"]
    seen = {}
    for case in itertools.chain.from_iterable(test["alert_rule_test"] for test in tests):
        seen.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert seen == {rule["alert"]: {True, False} for rule in rules}


def test_alerts_use_metrics_that_exist(rules, meters):
    for rule in rules:
        used = metrics_in(rule["expr"])
        assert used and not unknown(used, meters), rule["alert"]


def test_the_dashboard_uses_metrics_that_exist(expressions, meters):
    for expression in expressions:
        assert metrics_in(expression) and not unknown(metrics_in(expression), meters), expression


def test_the_dashboard_shows_every_metric(expressions, meters):
    shown = {_SUFFIX.sub("", name) if _SUFFIX.sub("", name) in meters else name
             for expression in expressions for name in metrics_in(expression)}
    assert set(meters) - shown == set()


def test_prometheus_accepts_each_query_of_the_dashboard(expressions, tmp_path):
    numbers = itertools.count(1)
    plain = [re.sub(r"\$__rate_interval", "5m", text).replace("$job", ".*").replace("$instance", ".*").replace("$consumer", ".*")
             for text in expressions]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": [
        {"record": f"query:{next(numbers)}", "expr": text} for text in plain]}]}))
    said = promtool.run("check", "rules", str(file))
    assert said.returncode == 0, said.stdout + said.stderr


def test_panels_have_distinct_positions_and_numbers(dashboard):
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = set(itertools.product(range(place["x"], place["x"] + place["w"]),
                                      range(place["y"], place["y"] + place["h"])))
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))


def test_every_panel_uses_the_selected_source_and_instances(dashboard):
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert names == {"datasource", "job", "instance", "consumer"}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"
            assert 'instance=~"$instance"' in target["expr"]


def test_panels_of_metrics_with_a_consumer_show_the_selected_ones(expressions, root):
    documented = (root / "docs/metrics.md").read_text()
    labelled = set(re.findall(r"^\| `(\w+)\{[\w,]*consumer\}`", documented, re.MULTILINE))
    assert "inboxd_waiting" in labelled
    for expression in expressions:
        of_consumers = bool({_SUFFIX.sub("", name) for name in metrics_in(expression)} & labelled)
        assert ('consumer=~"$consumer"' in expression) == of_consumers, expression
