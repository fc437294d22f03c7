"""Configuration, commands and exit codes: one clear error, and what to do about it."""

import json
import pathlib
import signal
import socket

import pytest

from support.scripts import always
from support.process import free_port
from support.wait import eventually
from support.wire import dead

pytestmark = pytest.mark.empty_database


def only_line(completed):
    lines = completed.stderr.strip().splitlines()
    assert len(lines) == 1, completed.stderr
    return lines[0]


@pytest.mark.parametrize("arguments", [["frobnicate"], ["run", "--frobnicate"], []])
def test_wrong_usage_exits_1(make_inboxd, arguments):
    assert make_inboxd().command(*arguments).returncode == 1


def test_help_and_version_exit_0(make_inboxd):
    sidecar = make_inboxd()
    for arguments in (["--help"], ["run", "--help"], ["version"]):
        done = sidecar.command(*arguments)
        assert done.returncode == 0, arguments
        assert done.stdout


def test_version_names_the_libraries(make_inboxd):
    """The first line stays: scripts read it."""
    sidecar = make_inboxd()
    lines = sidecar.command("version").stdout.splitlines()
    told = json.loads(sidecar.command("version", "--json").stdout)
    kafka = told["libraries"].pop("librdkafka")
    assert lines[:2] == [f"inboxd {told['version']}", f"librdkafka {kafka['version']} ({kafka['origin']}: {kafka['features']})"]
    assert lines[2:] == [f"{name} {library['version']}" for name, library in told["libraries"].items()]
    assert {"libpq", "OpenSSL", "libevent", "libyaml"} <= set(told["libraries"])
    assert kafka["origin"] in ("static", "shared") and "sasl_scram" in kafka["features"].split(",")


def test_an_unknown_key_exits_2_and_names_the_nearest(make_inboxd):
    sidecar = make_inboxd(retry={"max_atempts": 3})
    done = sidecar.command("run")
    assert done.returncode == 2
    assert "max_atempts" in only_line(done)
    assert "max_attempts" in only_line(done)
    assert "inboxd.yaml:" in only_line(done)


def test_an_unknown_key_in_set_exits_2(make_inboxd):
    done = make_inboxd().command("run", "--set", "retry.max_atempts=3")
    assert done.returncode == 2
    assert "max_attempts" in only_line(done)


def test_an_unknown_libpq_keyword_exits_2_and_names_the_nearest(make_inboxd):
    done = make_inboxd().command("migrate", "--set", "postgres.dbnam=x")
    assert done.returncode == 2
    assert '"dbnam"; did you mean "dbname"?' in only_line(done)


@pytest.mark.parametrize("section, key, value", [
    ("retry", "backoff", "soon"), ("retry", "max_attempts", "-1"), ("inbox", "ordering", "random"),
    ("ingest", "max_payload", "16 parsecs"), ("socket", "mode", "9999"),
    ("log", "level", "shouting"), ("inbox", "schema", "no; drop table"),
])
def test_a_wrong_value_exits_2_and_names_the_key(make_inboxd, section, key, value):
    done = make_inboxd({section: {key: value}}).command("run")
    assert done.returncode == 2
    assert key in only_line(done)


@pytest.mark.parametrize("text", [
    "inbox: [", "inbox: &a {schema: x}\nretry: *a", "inbox: {}\ninbox: {}", "- a\n- b",
    "inbox: !!str x", "inbox:\n  schema: {a: {b: c}}", "\xff",
])
def test_broken_yaml_exits_2_and_names_the_line(make_inboxd, text):
    sidecar = make_inboxd()
    pathlib.Path(sidecar.config_file).write_bytes(text.encode("latin-1"))
    done = sidecar.command("run")
    assert done.returncode == 2
    assert "inboxd.yaml" in only_line(done)


def test_a_missing_file_exits_2(make_inboxd):
    sidecar = make_inboxd()
    pathlib.Path(sidecar.config_file).unlink()
    done = sidecar.command("run")
    assert done.returncode == 2
    assert "inboxd.yaml" in only_line(done)


@pytest.mark.parametrize("key", ["topics", "group.id", "bootstrap.servers"])
def test_a_missing_required_key_is_named(make_inboxd, key):
    done = make_inboxd(kafka={key: None}).command("run")
    assert done.returncode == 2
    assert key in only_line(done)


def test_a_mistyped_variable_is_named_beside_another_error(make_inboxd):
    done = make_inboxd(kafka={"group.id": None}).command("run", env={"INBOXD_KAFKA_GROUPID": "g"})
    assert done.returncode == 2
    assert "INBOXD_KAFKA_GROUPID" in done.stderr
    assert "kafka.group.id is not set" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("key", ["enable.auto.commit", "enable.auto.offset.store"])
def test_settings_that_inboxd_controls_are_refused(make_inboxd, key):
    done = make_inboxd(kafka={key: "true"}).command("run")
    assert done.returncode == 2
    assert key in only_line(done)


# What `check` says about settings of Kafka that are wrong: to what, what is wrong, and what is right.
WRONG_SETTINGS = [
    ({"sesion.timeout.ms": 20000}, ['kafka.sesion.timeout.ms: No such configuration property', 'did you mean "session.timeout.ms"?']),
    ({"session.timeout.ms": "fast"}, ["kafka.session.timeout.ms: Invalid value", "librdkafka accepts 1 .. 3600000"]),
    ({"session.timeout.ms": 0}, ["kafka.session.timeout.ms: ", "value 0 is outside allowed range 1..3600000"]),
    ({"security.protocol": "tls"}, ['kafka.security.protocol: Invalid value "tls"', "accepts plaintext, ssl, sasl_plaintext, sasl_ssl"]),
    ({"enable.auto.commit": "true"}, ["kafka.enable.auto.commit is decided by inboxd", "remove it"]),
    ({"security.protocol": "SSL", "ssl.ca.location": "/none/ca.pem"},
     ["kafka.ssl.ca.location: cannot read /none/ca.pem: No such file or directory"]),
    ({"security.protocol": "SASL_SSL"}, ["kafka.sasl.mechanism is not set", "GSSAPI (Kerberos)", "for example to SCRAM-SHA-512"]),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, ["sasl.username and sasl.password must be set"]),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
     ["nothing gives the token", "kafka.oauth_token_file", "kafka.oauth_token_command", "kafka.sasl.oauthbearer.method: oidc"]),
    ({"ssl.truststore.location": "/x"}, ["kafka.ssl.truststore.location: Java TrustStores are not supported", "`ssl.ca.location`"]),
]


def test_check_says_what_is_wrong_with_a_setting_of_kafka(make_inboxd):
    sidecar = make_inboxd()
    for settings, words in WRONG_SETTINGS:
        sets = [f"--set=kafka.{name}={value}" for name, value in settings.items()]
        done = sidecar.command("check", *sets)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if all(word in line for word in words)]
        assert done.returncode in (2, 6) and len(lines) == 1, (settings, done.stdout[-1000:], done.stderr)


def test_check_shows_no_secret_that_librdkafka_refuses(make_inboxd, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2", encoding="utf-8")
    done = make_inboxd().command("check", f"--set=kafka.security.protocol=file:{secret}",
                                 "--set=kafka.sasl.oauthbearer.client.secret=hunter3",
                                 "--set=kafka.sasl.oauthbearer.token.endpoint.url=https://idp.example/token")
    assert f"kafka.security.protocol: librdkafka refuses the value in {secret}" in done.stdout
    assert "https://idp.example/token" in done.stdout
    assert "hunter" not in done.stdout + done.stderr


def test_set_wins_over_environment_over_file(make_inboxd):
    sidecar = make_inboxd(retry={"max_attempts": 3})
    environment = {"INBOXD_RETRY_MAX_ATTEMPTS": "4"}
    in_file = sidecar.command("check").stdout
    in_environment = sidecar.command("check", env=environment).stdout
    set_ = sidecar.command("check", "--set", "retry.max_attempts=5", env=environment).stdout

    def line(text):
        return next(line for line in text.splitlines() if "retry.max_attempts" in line)

    assert "3" in line(in_file) and "inboxd.yaml" in line(in_file)
    assert "4" in line(in_environment) and "INBOXD_RETRY_MAX_ATTEMPTS" in line(in_environment)
    assert "5" in line(set_) and "--set" in line(set_)


def test_the_environment_reaches_librdkafka(make_inboxd, kafka_server):
    sidecar = make_inboxd(kafka={"bootstrap.servers": None})
    done = sidecar.command("check",
                           env={"INBOXD_KAFKA_BOOTSTRAP_SERVERS": kafka_server.bootstrap})
    assert kafka_server.bootstrap in done.stdout


def test_secrets_are_read_from_files_and_never_shown(make_inboxd):
    sidecar = make_inboxd()
    secret = pathlib.Path(sidecar.directory, "secret")
    secret.write_text("hunter2\n")
    sidecar.write_configuration({"postgres": {"password": f"file:{secret}"}})
    done = sidecar.command("check")
    assert "postgres.password" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_a_command_that_does_not_use_kafka_reads_none_of_its_secrets(make_inboxd):
    """The job of the migration has only the secret of the schema's owner."""
    sidecar = make_inboxd(kafka={"sasl.password": "file:/nowhere/kafka"})
    assert sidecar.command("check").returncode == 2
    for command in ("migrate", "status", "list", "config"):
        done = sidecar.command(command)
        assert done.returncode == 0, done.stderr


def check_socket(sidecar):
    done = sidecar.command("check", "--json")
    (found,) = (line for line in json.loads(done.stdout)["checks"] if line["name"] == "socket")
    return done.returncode, found["result"], found["text"]


def test_check_says_that_a_running_inboxd_serves_the_socket(make_inboxd):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    path = sidecar.socket_path
    assert check_socket(sidecar) == (0, "ok", f"{path} can be created")
    assert not pathlib.Path(f"{path}.lock").exists(), "the check makes no file"
    sidecar.start()
    served = f"{path}: a running inboxd serves it; a second one with this path would end with exit code 5"
    assert check_socket(sidecar) == (0, "ok", served)
    assert sidecar.command("run", "--set", "http.listen=").returncode == 5
    sidecar.kill()
    assert check_socket(sidecar) == (0, "ok", f"{path} can be created"), "a lock file that nobody holds"


def test_check_accepts_a_good_configuration(make_inboxd):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    done = sidecar.command("check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 broker, group" in done.stdout


def test_check_exits_3_without_a_database(make_inboxd):
    done = make_inboxd(postgres={"port": free_port()}).command("check")
    assert done.returncode == 3


def checks_of(done):
    """name -> check, of what `check --json` printed."""
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == done.returncode
    assert all(set(check) == {"name", "result", "text", "advice"} for check in answer["checks"])
    return {check["name"]: check for check in answer["checks"]}


def test_check_as_json_is_one_object_with_the_values_and_every_check(make_inboxd):
    sidecar = make_inboxd(kafka={"sasl.password": "hunter2"})
    assert sidecar.command("migrate").returncode == 0
    done = sidecar.command("check", "--json", "--set", "retry.max_attempts=5")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = checks_of(done)
    assert list(checks) == ["kafka", "postgres", "schema", "privileges", "binding", "socket", "http"]
    assert {(check["result"], check["advice"]) for check in checks.values()} == {("ok", None)}
    assert "1 broker, group" in checks["kafka"]["text"]
    values = {line["key"]: line for line in json.loads(done.stdout)["configuration"]}
    assert (values["retry.max_attempts"]["value"], values["retry.max_attempts"]["origin"]) == ("5", "--set")
    assert values["kafka.sasl.password"]["value"] == "***" and "hunter2" not in done.stdout + done.stderr


def test_check_as_json_separates_the_error_from_the_advice(make_inboxd):
    sidecar = make_inboxd(socket={"path": "/no/such/directory/inbox.sock"})
    done = sidecar.command("check", "--json")
    assert (done.returncode, done.stderr) == (6, "")
    checks = checks_of(done)
    assert {name: check["result"] for name, check in checks.items()} == {
        "kafka": "ok", "postgres": "ok", "schema": "failed", "privileges": "skipped", "binding": "skipped",
        "socket": "failed", "http": "ok"}
    assert checks["schema"]["advice"] == "run `inboxd migrate`, or correct inbox.schema"
    assert checks["socket"]["text"] == "socket.path: there is no directory /no/such/directory"
    assert "install -d" in checks["socket"]["advice"]
    assert checks["privileges"] == {"name": "privileges", "result": "skipped", "advice": None,
                                    "text": "not tried: it needs schema"}


def http_of(sidecar, *options, code=0):
    done = sidecar.command("check", "--json", *options)
    assert done.returncode == code, done.stdout + done.stderr
    return checks_of(done)["http"]


def test_check_recognises_that_its_own_sidecar_uses_the_port(inboxd):
    listen = inboxd.configuration["http"]["listen"]
    assert http_of(inboxd) == {"name": "http", "result": "ok", "advice": None,
                               "text": f"the inboxd of this configuration listens on {listen}"}
    other = http_of(inboxd, "--set", f"socket.path={inboxd.directory}/other.sock", code=6)
    assert (other["result"], other["text"]) == (
        "failed", f"http.listen: an inboxd with another socket.path listens on {listen} already")
    assert inboxd.stop() == 0
    assert http_of(inboxd)["text"] == f"{listen} is free"
    assert "off" in http_of(inboxd, "--set", "http.listen=")["text"]


def test_check_fails_when_another_program_uses_the_port(make_inboxd):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        listen = f"127.0.0.1:{silent.getsockname()[1]}"
        http = http_of(sidecar, "--set", f"http.listen={listen}", code=6)
    assert http["text"] == f"http.listen: another program listens on {listen} already"
    assert http["advice"].startswith("choose a free port")
    assert "no such address" in http_of(sidecar, "--set", "http.listen=192.0.2.1:9464", code=6)["advice"]


@pytest.mark.parametrize("options, code, failed", [
    (["--set", "postgres.port={port}"], 3, "postgres"),
    (["--set", "kafka.bootstrap.servers=127.0.0.1:{port}"], 4, "kafka"),
])
def test_check_as_json_ends_with_the_same_codes_and_always_has_advice(make_inboxd, options, code, failed):
    sidecar = make_inboxd()
    sidecar.command("migrate")
    done = sidecar.command("check", "--json", *[option.format(port=free_port()) for option in options])
    assert done.returncode == code
    assert [name for name, check in checks_of(done).items() if check["result"] == "failed"] == [failed]
    assert checks_of(done)[failed]["advice"]


def test_check_prints_one_row_for_each_check_and_each_fault_once(make_inboxd, name):
    sidecar = make_inboxd(kafka={"topics": [f"{name}.a", f"{name}.b"]}, socket={"path": "/no/such/inbox.sock"})
    done = sidecar.command("check")
    assert (done.returncode, done.stderr) == (6, "")
    rows = done.stdout.partition("\n\n")[2].splitlines()
    for row in rows:
        assert row[:19].strip() == "" or (row[6], row[18]) == (" ", " "), row
        assert row[19] != " ", row
    assert [row.split()[1] for row in rows if row[0] != " "] == [
        "kafka", "postgres", "schema", "privileges", "binding", "socket", "http"]
    for words in (f'"{name}.a" does not exist', f'"{name}.b" does not exist', "there is no directory", "inboxd migrate"):
        assert done.stdout.count(words) == 1, done.stdout


def test_check_reports_a_schema_of_another_group(start_inboxd, inbox, group):
    sidecar = start_inboxd()
    eventually(lambda: inbox.query("SELECT * FROM inbox.inbox_binding"))
    done = sidecar.command("check")
    assert f'ok     binding     the schema belongs to cluster' in done.stdout and group in done.stdout
    done = sidecar.command("check", "--set", "kafka.group.id=another")
    assert done.returncode == 6
    assert "FAILED binding" in done.stdout and "another" in done.stdout and group in done.stdout


def test_check_exits_4_without_kafka(make_inboxd):
    sidecar = make_inboxd()
    sidecar.command("migrate")
    done = sidecar.command("check", "--set", f"kafka.bootstrap.servers=127.0.0.1:{free_port()}")
    assert done.returncode == 4


def test_check_warns_when_ids_are_deleted_before_the_records_in_kafka(make_inboxd, streams, topic):
    streams.configure(topic, retention_ms=7 * 24 * 3600 * 1000)
    sidecar = make_inboxd(retention={"processed": "1h"})
    sidecar.command("migrate")
    done = sidecar.command("check")
    assert done.returncode == 6
    assert "retention" in done.stdout + done.stderr


def test_run_refuses_a_missing_schema(make_inboxd):
    sidecar = make_inboxd().start("run", ready=False)
    assert sidecar.wait() == 3
    assert "migrate" in sidecar.stderr


def test_run_refuses_a_newer_schema(make_inboxd, inbox):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    inbox.execute("INSERT INTO inbox.inbox_schema_version (version, oldest_sidecar) VALUES (9999, 9999)")
    for arguments in (["run"], ["run", "--migrate"]):
        sidecar.start(*arguments, ready=False)
        assert sidecar.wait() == 3
    assert "9999" in sidecar.stderr
    checked = sidecar.command("check")
    assert checked.returncode != 0 and "run a newer inboxd" in checked.stdout + checked.stderr


def test_run_refuses_a_schema_of_a_pre_release(make_inboxd, inbox):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    inbox.execute("ALTER TABLE inbox.inbox_schema_version DROP COLUMN oldest_sidecar")
    for arguments in (["run"], ["run", "--migrate"]):
        sidecar.start(*arguments, ready=False)
        assert sidecar.wait() == 3
        assert "was made by a pre-release of inboxd" in sidecar.stderr
        assert "choose another inbox.schema" in sidecar.stderr
    checked = sidecar.command("check")
    assert checked.returncode != 0 and "was made by a pre-release" in checked.stdout + checked.stderr


def test_run_refuses_an_older_schema(make_inboxd, inbox):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    inbox.execute("DELETE FROM inbox.inbox_schema_version WHERE version ="
                  " (SELECT max(version) FROM inbox.inbox_schema_version)")
    sidecar.start("run", ready=False)
    assert sidecar.wait() == 3
    assert "migrate" in sidecar.stderr


def test_migrate_can_be_run_again(make_inboxd):
    sidecar = make_inboxd()
    for _ in range(2):
        done = sidecar.command("migrate")
        assert done.returncode == 0, done.stderr


def test_two_sidecars_migrate_at_once(make_inboxd):
    sidecars = [make_inboxd(), make_inboxd(inbox={"instance": "second"})]
    for sidecar in sidecars:
        sidecar.start(ready=False)
    for sidecar in sidecars:
        sidecar.wait_ready()


def test_another_group_may_not_use_the_schema(start_inboxd, make_inboxd, inbox, group):
    sidecar = start_inboxd()
    eventually(lambda: inbox.query("SELECT * FROM inbox.inbox_binding"))
    sidecar.stop()
    other = make_inboxd(kafka={"group.id": "another_group"}).start(ready=False)
    assert other.wait() == 2
    assert group in other.stderr and "another_group" in other.stderr
    assert "adopt" in other.stderr


def test_a_schema_with_another_name_works(start_inboxd, streams, topic, db):
    start_inboxd(inbox={"schema": "mailbox"})
    streams.events(topic, ["a"])
    eventually(lambda: db.execute("SELECT count(*) AS n FROM mailbox.inbox_messages")
               .fetchone()["n"] == 1)


def test_sighup_reloads_and_names_what_needs_a_restart(inboxd):
    inboxd.write_configuration({"log": {"level": "debug"}, "worker": {"connections": 3}})
    inboxd.signal(signal.SIGHUP)
    eventually(lambda: "worker.connections" in inboxd.stderr)
    assert inboxd.is_running()


def test_a_reload_logs_the_same_warnings_as_a_start(inboxd):
    inboxd.write_configuration({"kafka": {"plugin.odd.name": "x"}})
    inboxd.signal(signal.SIGHUP)
    eventually(lambda: "event=config_warning" in inboxd.stderr)
    assert "kafka.plugin.odd.name: librdkafka does not list this name" in inboxd.stderr


def test_a_broken_file_at_a_reload_changes_nothing(inboxd):
    pathlib.Path(inboxd.config_file).write_text("retry: [")
    inboxd.signal(signal.SIGHUP)
    eventually(lambda: "inboxd.yaml" in inboxd.stderr.partition("ready")[2]
               or "reload" in inboxd.stderr)
    assert inboxd.get("/readyz")[0] == 200


def test_a_process_with_too_many_configurations_says_so(inboxd):
    for number in range(64):
        level = ("debug", "info")[number % 2]
        inboxd.write_configuration({"log": {"level": level}, "retry": {"max_attempts": number + 2}})
        inboxd.signal(signal.SIGHUP)
        eventually(lambda: f'"{level}"' in inboxd.get("/log-level")[2], every=0.005)
    inboxd.write_configuration({"retry": {"max_attempts": 100}})
    inboxd.signal(signal.SIGHUP)
    eventually(lambda: "event=reload_failed" in inboxd.stderr)
    assert "64 different configurations" in inboxd.stderr and "restart inboxd" in inboxd.stderr
    assert inboxd.get("/readyz")[0] == 200


def test_logs_can_be_json_and_hold_no_payload(start_inboxd, handler, produce, topic, inbox):
    import json

    sidecar = start_inboxd(log={"format": "json", "level": "debug"})
    handler(sidecar, always(dead(reason="no")))
    produce(topic, b'{"card":"4111-secret"}', headers={"id": "x"})
    inbox.wait_status("x", "dead")
    for line in sidecar.stderr.splitlines():
        json.loads(line)
    assert "4111-secret" not in sidecar.stderr


def test_sidecars_run_with_the_rights_of_inboxd_sidecar_alone(inboxd, inbox, sidecar_user):
    users = inbox.query("SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name LIKE 'inboxd/%'"
                        " AND datname = current_database()")
    assert [row["usename"] for row in users] == [sidecar_user]
    assert inbox.query("SELECT roleid::regrole::text AS role FROM pg_auth_members WHERE member = %s::regrole",
                       [sidecar_user]) == [{"role": "inboxd_sidecar"}]
