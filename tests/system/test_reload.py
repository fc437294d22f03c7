"""SIGHUP says what it did, and the running configuration can be shown."""

import json
import signal
import subprocess
import time

import pytest

from support.sidecar import binary
from support.scripts import always, DONE
from support.wait import eventually, throughout

HOUR = 3600


def lines(sidecar, event):
    return [line for line in map(json.loads, sidecar.stderr.splitlines()) if line["event"] == event]


def reload(sidecar, changes):
    """Writes the changes and reloads; returns when that is logged."""
    before = len(lines(sidecar, "reloaded"))
    sidecar.write_configuration(changes)
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: len(lines(sidecar, "reloaded")) > before)


def shown(sidecar):
    status, _, body = sidecar.get("/config")
    assert status == 200
    return {line["key"]: line for line in json.loads(body)["configuration"]}


def config_command(sidecar, *options):
    """`inboxd config` with the file of the sidecar."""
    return subprocess.run([binary(), "config", *options, "-c", sidecar.config_file], env=sidecar.env, capture_output=True,
                          text=True, timeout=30, check=True)


@pytest.fixture
def sidecar(start_inboxd):
    return start_inboxd(log={"format": "json"}, retry={"max_attempts": 7})


def test_a_reload_logs_the_old_and_the_new_value_of_each_key_that_changed(sidecar):
    reload(sidecar, {"retry": {"max_attempts": 3}, "worker": {"connections": 3}, "kafka": {"sasl.password": "hunter2"}})
    assert [(line["key"], line["before"], line["now"]) for line in lines(sidecar, "config_changed")] == \
        [("retry.max_attempts", "7", "3")]
    waiting = {line["key"]: (line["before"], line["now"]) for line in lines(sidecar, "restart_needed")}
    assert waiting["kafka.sasl.password"] == ("not set", "***")
    assert waiting["worker.connections"][1] == "3"
    assert "hunter2" not in sidecar.stderr
    reload(sidecar, {})
    assert len(lines(sidecar, "config_changed")) == 1, "nothing changed"


def test_the_running_configuration_is_shown_with_origins_and_what_waits_for_a_restart(sidecar):
    connections = shown(sidecar)["worker.connections"]
    reload(sidecar, {"retry": {"max_attempts": 3}, "worker": {"connections": 3}, "kafka": {"sasl.password": "hunter2"}})
    found = shown(sidecar)
    assert (found["retry.max_attempts"]["value"], found["retry.max_attempts"]["change_needs"]) == ("3", "SIGHUP")
    assert "inboxd.yaml:" in found["retry.max_attempts"]["origin"]
    assert found["worker.connections"]["value"] == connections["value"]
    assert (found["worker.connections"]["after_restart"], found["worker.connections"]["change_needs"]) == ("3", "restart")
    assert (found["kafka.sasl.password"]["value"], found["kafka.sasl.password"]["after_restart"]) == ("not set", "***")
    assert found["inbox.schema"]["origin"] == "default"
    command = config_command(sidecar)
    assert "; after a restart: 3" in next(line for line in command.stdout.splitlines() if line.startswith("worker.connections "))
    assert json.loads(config_command(sidecar, "--json").stdout) == json.loads(sidecar.get("/config")[2])
    assert "hunter2" not in command.stdout + sidecar.get("/config")[2]


def test_a_configuration_that_was_used_before_can_be_reloaded_any_number_of_times(sidecar):
    def level():
        return json.loads(sidecar.get("/log-level")[2])["level"]

    for number in range(70):
        wanted = ("warn", "info")[number % 2]
        sidecar.write_configuration({"log": {"level": wanted}})
        sidecar.signal(signal.SIGHUP)
        eventually(lambda: level() == wanted, every=0.005)  # pylint: disable=cell-var-from-loop
    assert not lines(sidecar, "reload_failed")


def test_without_a_running_sidecar_the_command_shows_what_one_would_start_with(sidecar):
    sidecar.write_configuration({"retry": {"max_attempts": 4}})
    assert shown(sidecar)["retry.max_attempts"]["value"] == "7"
    sidecar.stop()
    command = config_command(sidecar, "--json")
    found = {line["key"]: line["value"] for line in json.loads(command.stdout)["configuration"]}
    assert found["retry.max_attempts"] == "4"
    assert json.loads(command.stdout)["running"] is False
    assert "no inboxd answers" in command.stderr


def test_a_shorter_retention_says_how_many_rows_it_deletes_and_waits_a_minute(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(log={"format": "json"}, retention={"processed": "7d"})
    handler(sidecar, always(DONE))
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_processed(3)
    inbox.query("UPDATE inbox.inbox_messages SET processed_at = processed_at - interval '2 h', received_at = received_at - interval '2 h'"
                " WHERE event_id <> 'c'")
    reload(sidecar, {"retention": {"processed": "1h"}})
    (line,) = eventually(lambda: lines(sidecar, "retention_shorter"))
    assert (line["what"], line["rows"], line["age_s"], line["begins_in_ms"]) == ("processed", 2, HOUR, 60000)
    assert (line["more"], line["not_counted"]) == ("false", None)
    throughout(lambda: inbox.count() == 3, 5)
    reload(sidecar, {"retention": {"processed": "7d"}})
    reload(sidecar, {"retention": {"processed": "1h"}})
    eventually(lambda: len(lines(sidecar, "retention_shorter")) == 2)
    throughout(lambda: inbox.count() == 3, 2)


def test_a_shorter_retention_of_the_audit_table_says_why_it_has_no_number(start_inboxd):
    sidecar = start_inboxd(log={"format": "json"}, retention={"audit": "7d"})
    reload(sidecar, {"retention": {"audit": "1h"}})
    (line,) = eventually(lambda: lines(sidecar, "retention_shorter"))
    assert (line["what"], line["rows"], line["not_counted"]) == ("audit", -1, "a sidecar may not read the audit table")


@pytest.mark.slow
def test_a_new_instance_of_the_process_waits_for_the_rest_of_the_minute_and_deletes(start_inboxd, handler, streams, topic, inbox):
    """The retention was `never`, and the lease is lost within the minute."""
    sidecar = start_inboxd(log={"format": "json"}, retention={"processed": "never"})
    handler(sidecar, always(DONE))
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_processed(3)
    inbox.query("UPDATE inbox.inbox_messages SET processed_at = processed_at - interval '2 h', received_at = received_at - interval '2 h'"
                " WHERE event_id <> 'c'")
    reload(sidecar, {"retention": {"processed": "1h"}})
    (line,) = eventually(lambda: lines(sidecar, "retention_shorter"))
    began = time.monotonic()
    assert line["rows"] == 2
    inbox.execute("UPDATE inbox.inbox_instances SET fenced_at = now() WHERE stopped_at IS NULL")
    eventually(lambda: len(lines(sidecar, "started")) == 2, timeout=30)
    throughout(lambda: inbox.count() == 3, 45 - (time.monotonic() - began))
    eventually(lambda: inbox.count() == 1, timeout=60)
    assert time.monotonic() - began > 58
    assert len(lines(sidecar, "retention_shorter")) == 1


@pytest.mark.parametrize(("section", "key", "meant"), [
    ("postgres", "database", "dbname"), ("postgres", "username", "user"), ("retry", "max_backoff", "backoff_max"),
    ("kafka", "bootstrap_servers", "bootstrap.servers"), ("kafka", "brokers", "bootstrap.servers")])
def test_a_key_of_another_program_gets_a_suggestion(make_inboxd, section, key, meant):
    sidecar = make_inboxd()
    sidecar.write_configuration({section: {key: "x"}})
    result = subprocess.run([binary(), "config", "-c", sidecar.config_file], env=sidecar.env, capture_output=True, text=True,
                            timeout=30, check=False)
    assert f'did you mean "{meant}"?' in result.stderr.replace('\\"', '"')
