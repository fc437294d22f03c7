"""TLS and passwords: real servers that require them, one clear error for each fault, and passwords that change at run
time."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from secure import IdentityProvider, SecureKafka, SecurePostgres, token, USER
from support import process
from support.fixtures import DEFAULTS
from support.inbox import INFINITY, Inbox
from support.librdkafka import installed_version, later_librdkafka
from support.outbox import Outbox, values
from support.scripts import always, DONE
from support.sidecar import binary, merge
from support.streams import Streams
from support.tls import Authority
from support.wait import eventually
from support.wire import dead

FIRST, SECOND = "first-secret-7f3a", "second-secret-91bc"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def stranger():
    """Another authority, which has not signed any certificate in use."""
    return Authority("stranger")


@pytest.fixture(scope="module")
def secure_postgres(authority):
    server = SecurePostgres(authority)
    server.password(FIRST)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def identity_provider():
    server = IdentityProvider()
    yield server
    server.close()


@pytest.fixture
def provider(identity_provider):
    identity_provider.reset()
    return identity_provider


@pytest.fixture(scope="module")
def secure_kafka(authority, identity_provider):
    server = SecureKafka(authority, FIRST, identity_provider).start()
    yield server
    server.stop()


@pytest.fixture
def own_inbox(secure_postgres, name):
    view = Inbox(secure_postgres.conninfo(secure_postgres.database(name[:60])))
    yield view
    view.close()


@pytest.fixture
def own_streams(secure_kafka):
    client = Streams(secure_kafka)
    yield client
    client.close()


@pytest.fixture
def own_topic(own_streams, name):
    own_streams.create(f"{name}.own", 1)
    return f"{name}.own"


class Secrets:
    """The two password files of one sidecar."""

    def __init__(self):
        self.directory = process.scratch("secrets")
        os.chmod(self.directory, 0o700)
        for what in ("kafka", "postgres"):
            self.write(what, FIRST)

    def write(self, what, password):
        """Replaces the file at once, as orchestrators do."""
        path = pathlib.Path(self.path(what))
        path.with_suffix(".new").write_text(password + "\n", encoding="utf-8")
        os.replace(path.with_suffix(".new"), path)

    def path(self, what):
        return os.path.join(self.directory, what)


@pytest.fixture
def secrets():
    return Secrets()


@pytest.fixture
def configuration(secure_postgres, secure_kafka, authority, secrets, own_inbox, own_topic, group, name):
    """The secure servers instead of those of the suite."""
    return merge(DEFAULTS, {
        "kafka": {"bootstrap.servers": f"localhost:{secure_kafka.secure_port}", "topics": [own_topic],
                  "group.id": group, "security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN",
                  "sasl.username": USER, "sasl.password": f"file:{secrets.path('kafka')}",
                  "ssl.ca.location": authority.ca, "reconnect.backoff.max.ms": 500},
        "postgres": {"host": "localhost", "port": secure_postgres.server.port, "user": USER, "dbname": name[:60],
                     "password": f"file:{secrets.path('postgres')}", "sslmode": "verify-full",
                     "sslrootcert": authority.ca},
    })


@pytest.fixture
def sidecar_user():
    """The user of the configuration: the owner of its schema."""
    return None


def says_no_secret(sidecar):
    """Neither in the log nor in the arguments that `ps` shows."""
    seen = sidecar.stderr
    if sidecar.is_running():
        seen += pathlib.Path(f"/proc/{sidecar.pid}/cmdline").read_text()
        seen += pathlib.Path(f"/proc/{sidecar.pid}/environ").read_text()
    return FIRST not in seen and SECOND not in seen


def test_it_works_over_tls_with_passwords(make_inboxd, handler, own_streams, own_topic, own_inbox):
    sidecar = make_inboxd(kafka={"debug": "security,broker"}, log={"level": "debug"}).start()
    handler(sidecar, always(DONE))
    own_streams.events(own_topic, ["a", "b"])
    own_inbox.wait_processed(2)
    assert own_inbox.value("SELECT bool_and(ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)"
                           " WHERE a.usename = %s", [USER]) is True
    assert says_no_secret(sidecar)


# --- Tokens (SASL OAUTHBEARER) ---

class Tokens:
    """A file with a token, and a program that prints one."""

    def __init__(self, kafka):
        self.directory = process.scratch("tokens")
        os.chmod(self.directory, 0o755)
        self.file = os.path.join(self.directory, "token")
        self.program = os.path.join(self.directory, "program")
        self.kafka = {"bootstrap.servers": f"127.0.0.1:{kafka.token_port}", "security.protocol": "sasl_plaintext",
                      "sasl.mechanism": "OAUTHBEARER", "sasl.username": None, "sasl.password": None, "reconnect.backoff.ms": 20,
                      "reconnect.backoff.max.ms": 200}

    def write(self, text, name="token"):
        """Replaces the file at once, as a kubelet does."""
        path = pathlib.Path(self.directory, name)
        path.with_suffix(".new").write_text(text, encoding="utf-8")
        os.chmod(path.with_suffix(".new"), 0o755)
        os.replace(path.with_suffix(".new"), path)
        return text

    def script(self, text):
        self.write("#!/bin/sh\n" + text, "program")

    def by_file(self):
        return {"kafka": {**self.kafka, "oauth_token_file": self.file}}

    def by_command(self, *arguments):
        return {"kafka": {**self.kafka, "oauth_token_command": [self.program, *arguments]}}


@pytest.fixture
def tokens(secure_kafka):
    return Tokens(secure_kafka)


@pytest.mark.slow
def test_ten_tokens_of_a_file_lose_no_message(make_inboxd, tokens, handler, own_streams, own_topic, own_inbox, name):
    """The broker ends each connection after a second, so each token is used to log in, by the consumer and the relay. The sidecar is not
    ready while connections end all the time."""
    own_streams.create(f"{name[:40]}.events", 1)
    given = [tokens.write(token(600))]
    sidecar = make_inboxd(**tokens.by_file(), outbox={"enabled": True}).start(ready=False)
    client = handler(sidecar, always(DONE))
    outbox = Outbox(own_inbox)
    for number in range(10):
        own_streams.events(own_topic, [f"e{number}"])
        outbox.emit(f"{name[:40]}.events", "k", str(number))
        own_inbox.wait_processed(number + 1)
        given.append(tokens.write(token(600) if number % 2 else json.dumps({"token": token(600)})))
        eventually(lambda count=number + 2: sidecar.stderr.count("event=kafka_token_read") == count)
    assert values(own_streams.read(f"{name[:40]}.events", 10)) == [str(number) for number in range(10)]
    assert len(client.deliveries) == 10
    assert "event=kafka_token_failed" not in sidecar.stderr
    assert not any(part in sidecar.stderr for text in given for part in text.split(".") if len(part) > 30)


def test_a_refused_token_makes_the_command_run_again(make_inboxd, tokens, handler, own_streams, own_topic, own_inbox):
    """The first one has ended for the broker; what the command says of its end is wrong."""
    late = int((time.time() + 3600) * 1000)
    tokens.write(json.dumps({"token": token(-600), "expires_at_ms": late, "principal": USER}), "first")
    tokens.write(json.dumps({"token": token(600)}), "second")
    tokens.script('cd "$1"; ls ran >&2 && exec cat second; touch ran; exec cat first\n')
    sidecar = make_inboxd(**tokens.by_command(tokens.directory)).start(ready=False)
    handler(sidecar, always(DONE))
    own_streams.events(own_topic, ["a"])
    own_inbox.wait_processed(1)
    assert "code=_AUTHENTICATION" in sidecar.stderr and "refuses the token" in sidecar.stderr
    assert sidecar.stderr.count("event=kafka_token_read") == 2
    sidecar.stop()


def test_a_failed_command_is_repeated(make_inboxd, tokens, handler, own_streams, own_topic, own_inbox):
    sidecar = make_inboxd(**tokens.by_command("secret-argument"))
    tokens.script("echo it is closed >&2; exit 3\n")
    sidecar.start(ready=False)
    eventually(lambda: sidecar.stderr.count("event=kafka_token_failed") >= 2)
    assert "ended with exit code 3: it is closed" in sidecar.stderr
    tokens.script(f"echo '{token(600)}'\n")
    handler(sidecar, always(DONE))
    own_streams.events(own_topic, ["a"])
    own_inbox.wait_processed(1)
    sidecar.stop()
    assert "secret-argument" not in sidecar.stderr


@pytest.mark.slow
def test_a_token_is_renewed_before_it_ends(make_inboxd, tokens, handler, own_streams, own_topic, own_inbox):
    """At 80 % of its life, which leaves eight seconds for a failure and a second try."""
    tokens.script(f"echo {token(40)}\n")
    sidecar = make_inboxd(**tokens.by_command()).start(ready=False)
    eventually(lambda: "event=kafka_token_read" in sidecar.stderr)
    handler(sidecar, always(DONE))
    tokens.script("exit 1\n")
    eventually(lambda: "event=kafka_token_failed" in sidecar.stderr, timeout=60)
    (line, *_) = [line for line in sidecar.stderr.splitlines() if "event=kafka_token_failed" in line]
    assert 0 < int(re.search(r"token_left_s=(\d+)", line)[1]) < 10 and "the last token stays in use" in line
    tokens.script(f"echo {token(600)}\n")
    eventually(lambda: sidecar.stderr.count("event=kafka_token_read") == 2)
    own_streams.events(own_topic, ["a"])
    own_inbox.wait_processed(1)
    assert "refuses the token" not in sidecar.stderr


UNUSABLE = {
    "fails": ("echo no access >&2; exit 3\n", "ended with exit code 3: no access"),
    "garbage": ("echo '{\"token\": hush}'\n", "no valid JSON object"),
    "a megabyte": ("head -c 1048576 /dev/zero\n", "too much to stdout"),
    "an ended token": (f"echo {token(-60)}\n", "it ended "),
    "nothing": ("", "there is none"),
}


def test_check_says_why_there_is_no_token(make_inboxd, tokens):
    sidecar = make_inboxd(**tokens.by_command("hush"))
    for what, (script, words) in UNUSABLE.items():
        tokens.script(script)
        done = sidecar.command("check")
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED") and line.split()[1] == "kafka"]
        assert words in line, what
        assert "hush" not in done.stdout + done.stderr
    os.chmod(tokens.program, 0o777)
    assert "others than root and the user of inboxd may write it" in sidecar.command("check").stdout
    tokens.script(f"echo {token(600)}\n")
    done = sidecar.command("check")
    assert "ok     kafka" in done.stdout and "kafka_token" not in done.stderr, done.stdout
    assert f"[{tokens.program}, ***]" in done.stdout


def test_a_stop_ends_a_command_that_hangs(make_inboxd, tokens):
    tokens.script(f"echo $$ > {tokens.directory}/pid; sleep 600\n")
    sidecar = make_inboxd(**merge(tokens.by_command(), {"kafka": {"topics": []}}), outbox={"enabled": True}).start(ready=False)
    pid = eventually(lambda: (text := pathlib.Path(tokens.directory, "pid").read_text().strip()) and int(text)
                     if os.path.exists(f"{tokens.directory}/pid") else None)
    assert sidecar.stop() == 0
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def process_of(words):
    """The process whose command line has these words; None: there is none."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if words in (entry / "cmdline").read_bytes().decode().replace("\0", " "):
                return int(entry.name)
        except OSError:
            pass
    return None


def test_as_process_1_it_takes_the_status_of_what_the_command_has_left(make_inboxd, tokens):
    """As in a container: a process that has left the group of the command belongs to inboxd then, and must not stay as a zombie."""
    orphan = "touch there; while [ ! -e go ]; do sleep 0.05; done"
    tokens.script(f"cd {tokens.directory}\nsetsid sh -c '{orphan}' {tokens.directory} >/dev/null 2>&1 &\n"
                  f"while [ ! -e there ]; do sleep 0.05; done\necho '{token(600)}'\n")
    sidecar = make_inboxd(**merge(tokens.by_command(), {"kafka": {"topics": []}}), outbox={"enabled": True})
    program = sidecar.program
    wrapper = pathlib.Path(sidecar.directory, "as-process-1")
    rights = "" if os.geteuid() == 0 else "--user --map-root-user"
    alone = f"unshare {rights} --pid --fork --kill-child --mount-proc"
    tried = subprocess.run(f"{alone} true", shell=True, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine lets nobody be process 1: {tried.stderr.strip()}")
    wrapper.write_text(f'#!/bin/sh\nexec {alone} {program} "$@"\n')
    wrapper.chmod(0o755)
    sidecar.program = str(wrapper)
    sidecar.start(ready=False)
    eventually(lambda: "event=kafka_token_read" in sidecar.stderr)
    left = process_of(f"sh -c {orphan} {tokens.directory}")
    assert left is not None
    tokens.write("", "go")
    eventually(lambda: not os.path.exists(f"/proc/{left}"), what="the zombie to be gone")
    (inner,) = (pid for pid in map(int, pathlib.Path(f"/proc/{sidecar.pid}/task/{sidecar.pid}/children").read_text().split()))
    os.kill(inner, signal.SIGTERM)
    assert sidecar.wait() == 0


# --- Tokens that librdkafka gets from an identity provider (OIDC) ---

@pytest.fixture
def oidc(secure_kafka, provider):
    """The section `kafka` for client credentials, with a librdkafka that has OIDC."""
    return {"bootstrap.servers": f"127.0.0.1:{secure_kafka.oidc_port}", "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER", "sasl.username": None, "sasl.password": None, "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200, "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": provider.SECRET, "sasl.oauthbearer.scope": "events",
            "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token"}


@pytest.mark.slow
def test_ten_tokens_of_an_identity_provider_lose_no_message(make_inboxd, oidc, provider, handler, own_streams, own_topic, own_inbox,
                                                            name):
    """librdkafka asks for the next one at 80 % of a life, and the broker ends each connection after a second."""
    own_streams.create(f"{name[:40]}.events", 1)
    provider.life_s = 2
    sidecar = make_inboxd(env=later_librdkafka(), kafka=oidc, outbox={"enabled": True}).start(ready=False)
    client = handler(sidecar, always(DONE))
    outbox = Outbox(own_inbox)
    sent = 0
    while len(provider.given) < 22:  # the consumer and the relay each have their own
        own_streams.events(own_topic, [f"e{sent + number}" for number in range(50)])
        outbox.emit(f"{name[:40]}.events", "k", str(sent // 50))
        sent += 50
        own_inbox.wait_processed(sent)
    assert values(own_streams.read(f"{name[:40]}.events", sent // 50)) == [str(number) for number in range(sent // 50)]
    assert sorted(delivery.event_id for delivery in client.deliveries) == sorted(f"e{number}" for number in range(sent))
    assert provider.SECRET not in sidecar.stderr
    assert not any(part in sidecar.stderr for text in provider.given for part in text.split(".") if len(part) > 30)


def reply(status, body):
    return lambda endpoint: endpoint.reply(status, body)


NO_TOKEN = {
    "refuses": (reply(401, b'{"error": "invalid_client"}'), "invalid_client"),
    "garbage": (reply(200, b"<html>hush</html>"), "JSON"),
    "no token": (reply(200, b'{"hush": 1}'), "access_token"),
    "is closed": (lambda endpoint: endpoint.connection.close(), "Failed to acquire"),
}


@pytest.mark.slow
def test_check_says_why_an_identity_provider_gives_no_token(make_inboxd, oidc, provider, secure_kafka):
    sidecar = make_inboxd(env=later_librdkafka(), kafka=oidc)
    for what, (answer, words) in NO_TOKEN.items():
        provider.answer = answer
        found = row(sidecar.command("check"), "kafka")
        assert words in found and "the identity provider gives no token: correct the settings kafka.sasl.oauthbearer.*" in found, what
        assert "hush" not in found
    provider.answer, provider.forged = None, True
    assert "the broker refuses the token of the identity provider" in row(sidecar.command("check"), "kafka")
    provider.forged = False
    assert row(sidecar.command("check"), "kafka").startswith("ok "), "a token"
    assert "client_credentials&scope=events" in provider.asked[-1]
    jwt = make_inboxd(env=later_librdkafka(), kafka={
        **oidc, "sasl.oauthbearer.client.secret": None, "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "sasl.oauthbearer.assertion.private.key.file": provider.key, "sasl.oauthbearer.assertion.claim.iss": USER,
        "sasl.oauthbearer.assertion.claim.aud": provider.url})
    found = row(jwt.command("check"), "kafka")
    assert found.startswith("ok "), found
    assert "jwt-bearer&assertion=ey" in provider.asked[-1]


@pytest.mark.slow
def test_an_identity_provider_that_hangs_delays_neither_a_stop_nor_its_return(make_inboxd, oidc, provider, handler, own_streams,
                                                                              own_topic, own_inbox):
    """librdkafka waits for an answer for 20 s, and asks again 10 s later. inboxd waits for librdkafka until shutdown_timeout."""
    closed = threading.Event()
    provider.answer = lambda endpoint: closed.wait(60)
    sidecar = make_inboxd(env=later_librdkafka(), kafka=oidc, inbox={"shutdown_timeout": "2s"}).start(ready=False)
    eventually(lambda: provider.asked)
    found = row(sidecar.command("check"), "kafka")
    assert "the identity provider may have sent no token in time" in found
    assert sidecar.stop() == 0
    sidecar.start(ready=False)
    handler(sidecar, always(DONE))
    own_streams.events(own_topic, ["a"])
    eventually(lambda: "the identity provider gives no token" in sidecar.stderr, timeout=60)
    provider.answer = None
    own_inbox.wait_processed(1, timeout=60)
    closed.set()


def test_scram_works_with_a_librdkafka_that_supports_it(make_inboxd, handler, own_streams, own_topic, own_inbox,
                                                        secure_kafka):
    secure_kafka.scram(FIRST)
    sidecar = make_inboxd(kafka={"sasl.mechanism": "SCRAM-SHA-256"})
    sidecar.env.update(later_librdkafka())
    sidecar.start()
    handler(sidecar, always(DONE))
    own_streams.events(own_topic, ["a"])
    own_inbox.wait_processed(1)
    assert says_no_secret(sidecar)


def test_the_password_of_scram_is_changed_while_it_runs(make_inboxd, secrets, handler, own_streams, own_topic,
                                                        own_inbox, secure_kafka):
    secure_kafka.scram(FIRST)
    sidecar = make_inboxd(kafka={"sasl.mechanism": "SCRAM-SHA-256"})
    sidecar.env.update(later_librdkafka())
    sidecar.start()
    handler(sidecar, always(DONE))
    secure_kafka.scram(SECOND)
    secrets.write("kafka", SECOND)
    eventually(lambda: "event=kafka_credentials_read" in sidecar.stderr)
    secure_kafka.restart()
    own_streams.events(own_topic, ["a"])
    own_inbox.wait_processed(1)
    assert says_no_secret(sidecar)


@pytest.mark.slow
def test_the_password_of_plain_is_changed_while_it_runs(make_inboxd, secrets, handler, own_streams, own_topic,
                                                        own_inbox, secure_kafka):
    sidecar = make_inboxd().start()
    handler(sidecar, always(DONE))
    secure_kafka.stop()
    secure_kafka.plain(SECOND)
    secure_kafka.start()
    eventually(lambda: "code=_AUTHENTICATION" in sidecar.stderr, timeout=60)
    secrets.write("kafka", SECOND)
    try:
        own_streams.events(own_topic, ["a"])
        own_inbox.wait_processed(1)
        assert says_no_secret(sidecar)
        assert "event=kafka_credentials_read" in sidecar.stderr
    finally:
        secure_kafka.stop()
        secure_kafka.plain(FIRST)
        secure_kafka.start()


@pytest.mark.slow
def test_the_dead_topic_producer_uses_the_new_password(make_inboxd, secrets, handler, own_streams, own_topic, own_inbox,
                                                       secure_kafka, name):
    own_streams.create(f"{name}.dead", 1)
    sidecar = make_inboxd(retry={"dead_topic": f"{name}.dead"}).start()
    handler(sidecar, always(dead()))
    own_streams.events(own_topic, ["a"])
    eventually(lambda: sidecar.metric("inboxd_dead_topic_produced_total") == 1)
    secure_kafka.stop()
    secure_kafka.plain(SECOND)
    secrets.write("kafka", SECOND)
    secure_kafka.start()
    try:
        own_streams.events(own_topic, ["b"])
        eventually(lambda: sidecar.metric("inboxd_dead_topic_produced_total") == 2, timeout=90)
    finally:
        secure_kafka.stop()
        secure_kafka.plain(FIRST)
        secure_kafka.start()


def test_the_password_of_postgresql_is_changed_while_it_runs(make_inboxd, secrets, handler, own_streams, own_topic,
                                                             own_inbox, secure_postgres):
    sidecar = make_inboxd().start()
    client = handler(sidecar, always(DONE))
    secure_postgres.password(SECOND)
    secrets.write("postgres", SECOND)
    ended = own_inbox.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s", [USER])
    assert ended > 0
    try:
        own_streams.events(own_topic, ["a", "b"])
        own_inbox.wait_processed(2)
        eventually(lambda: sidecar.get("/readyz")[0] == 200)
        assert len(client.deliveries) == 2
        assert says_no_secret(sidecar)
    finally:
        secure_postgres.password(FIRST)


@pytest.fixture
def alice(own_inbox):
    own_inbox.execute(f"CREATE ROLE alice LOGIN PASSWORD '{SECOND}' SUPERUSER")
    yield {"INBOXD_POSTGRES_USER": "alice"}
    own_inbox.execute("DROP ROLE alice")


def test_an_operator_can_set_an_own_password(make_inboxd, secrets, alice):
    """The configured one belongs to another user; with an empty one libpq uses its own sources."""
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    secrets.write("alice", SECOND)
    secrets.write("pgpass", f"*:*:*:alice:{SECOND}")
    os.chmod(secrets.path("pgpass"), 0o600)
    password = f"file:{secrets.path('alice')}"
    none = {**alice, "INBOXD_POSTGRES_PASSWORD": ""}
    refused = sidecar.command("status", env=alice)
    assert (refused.returncode, "INBOXD_POSTGRES_PASSWORD" in refused.stderr) == (3, True), refused.stderr
    for env in ({**alice, "INBOXD_POSTGRES_PASSWORD": password}, {**none, "PGPASSWORD": SECOND},
                {**none, "PGPASSFILE": secrets.path("pgpass")}):
        done = sidecar.command("status", env=env)
        assert done.returncode == 0, done.stderr
    done = sidecar.command("status", "--set", "postgres.user=alice", "--set", f"postgres.password={password}")
    assert done.returncode == 0, done.stderr


def test_init_logs_in_with_variables_of_the_environment(configuration, own_topic, tmp_path):
    """As a first-time user types it: INBOXD_POSTGRES_PASSWORD=file:… inboxd init …"""
    kafka, postgres = configuration["kafka"], configuration["postgres"]
    path = tmp_path / "inboxd.yaml"
    env = {**{key: value for key, value in os.environ.items() if not key.startswith("INBOXD_")},
           "INBOXD_POSTGRES_PASSWORD": postgres["password"], "INBOXD_KAFKA_SASL_PASSWORD": kafka["sasl.password"],
           "INBOXD_POSTGRES_PASWORD": "x"}
    sets = [f"kafka.{key}={kafka[key]}" for key in ("security.protocol", "sasl.mechanism", "sasl.username", "ssl.ca.location")]
    database = f"host=localhost port={postgres['port']} user={USER} dbname={postgres['dbname']}"
    done = subprocess.run([binary(), "init", "-c", path, own_topic, kafka["bootstrap.servers"], database,
                           *(word for one in sets for word in ("--set", one))],
                          capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning env INBOXD_POSTGRES_PASWORD: ignored" in done.stdout
    assert "The file lacks what these variables of the environment say; inboxd needs them later, too: " \
        "INBOXD_POSTGRES_PASSWORD (postgres.password), INBOXD_KAFKA_SASL_PASSWORD (kafka.sasl.password).\n" in done.stdout
    assert "password" not in "".join(line for line in path.read_text().splitlines() if not line.startswith("#"))


def test_a_start_waits_for_a_missing_password_file(make_inboxd, secrets, handler, own_streams, own_topic, own_inbox,
                                                   secure_postgres):
    sidecar = make_inboxd(log={"format": "json"}).start()
    handler(sidecar, always(DONE))
    secure_postgres.password(SECOND)
    try:
        own_inbox.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s", [USER])
        eventually(lambda: "28P01" in sidecar.stderr)
        secrets.write("postgres", SECOND)
        own_streams.events(own_topic, ["a"])
        own_inbox.wait_processed(1)
        said = next(line for line in map(json.loads, sidecar.stderr.splitlines()) if "28P01" in line.get("error", ""))
        assert "correct postgres.user and postgres.password" in said["error"]
    finally:
        secure_postgres.password(FIRST)


def test_a_reload_reports_that_a_changed_password_needs_no_restart(make_inboxd, secrets):
    sidecar = make_inboxd().start()
    secrets.write("postgres", FIRST + " ")
    secrets.write("kafka", FIRST + " ")
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: "event=reloaded need_restart=0" in sidecar.stderr)
    secrets.write("postgres", FIRST)
    secrets.write("kafka", FIRST)


CA = "{stranger}"
WRONG = {
    "the CA of PostgreSQL": ({"postgres": {"sslrootcert": CA}}, 3, "postgres",
                             "name the CA that signed the server's certificate in postgres.sslrootcert"),
    "the name of PostgreSQL": ({"postgres": {"host": "127.0.0.1"}}, 3, "postgres",
                               "use the name in the server's certificate for postgres.host"),
    "the password of PostgreSQL": ({"postgres": {"password": "wrong"}}, 3, "postgres",
                                   "correct postgres.user and postgres.password"),
    "the CA of Kafka": ({"kafka": {"ssl.ca.location": CA}}, 4, "kafka", "name its CA in kafka.ssl.ca.location"),
    "the password of Kafka": ({"kafka": {"sasl.password": "wrong"}}, 4, "kafka",
                              "correct kafka.sasl.username and kafka.sasl.password"),
}


@pytest.mark.parametrize("what", WRONG)
def test_check_names_the_fault_and_the_remedy(make_inboxd, stranger, what):
    overrides, code, check, words = WRONG[what]
    given = {section: {key: stranger.ca if value == CA else value for key, value in keys.items()}
             for section, keys in overrides.items()}
    done = make_inboxd(**given).command("check")
    assert done.returncode == code, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED") and line.split()[1] == check]
    assert words in line
    assert FIRST not in done.stdout + done.stderr


def test_check_reports_a_certificate_for_another_name(make_inboxd, secure_kafka):
    done = make_inboxd(kafka={"bootstrap.servers": f"127.0.0.1:{secure_kafka.secure_port}"}).command("check")
    assert done.returncode == 4
    assert "the broker's certificate is for another name" in done.stdout


@pytest.mark.parametrize("env", [dict, later_librdkafka], ids=["the installed one", "a later one"])
def test_check_reports_a_librdkafka_without_working_scram(make_inboxd, env):
    sidecar = make_inboxd(kafka={"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "wrong"})
    done = sidecar.command("check", env=env())
    old = not env() and installed_version() < (2, 6, 1)
    assert done.returncode == 4
    assert ("librdkafka before 2.6.1" in done.stdout) is old
    assert "correct kafka.sasl.username and kafka.sasl.password" in done.stdout


def test_a_running_sidecar_logs_a_certificate_error_and_reads_nothing(make_inboxd, stranger, own_streams, own_topic,
                                                                      own_inbox):
    sidecar = make_inboxd(kafka={"ssl.ca.location": stranger.ca}).start(ready=False)
    eventually(lambda: "name its CA in kafka.ssl.ca.location" in sidecar.stderr)
    own_streams.events(own_topic, ["a"])
    eventually(lambda: sidecar.get("/readyz")[0] == 503)
    assert own_inbox.count() == 0


# --- Privileges for topics of the outbox ---

@pytest.mark.parametrize("revoked", [[AclOperation.WRITE], [AclOperation.WRITE, AclOperation.DESCRIBE]],
                         ids=["WRITE", "WRITE and DESCRIBE"])
def test_a_revoked_privilege_holds_the_events_of_its_topic(start_inboxd, secure_kafka, own_streams, own_inbox, name, revoked):
    """Without DESCRIBE_CONFIGS, which the user never has for this topic."""
    permitted, other = f"{name}.permitted", f"{name}.other"
    for topic in (permitted, other):
        own_streams.create(topic, 1)
    secure_kafka.permit(permitted, AclOperation.ALL, user="others")
    secure_kafka.permit(permitted, AclOperation.WRITE, AclOperation.DESCRIBE)
    outbox = Outbox(own_inbox)
    sidecar = start_inboxd(outbox={"enabled": True})
    outbox.emit(permitted, "a", "1")
    assert values(own_streams.read(permitted, 1)) == ["1"]
    eventually(lambda: outbox.count() == 0)
    secure_kafka.revoke(permitted, *revoked)
    with outbox.transaction() as emit:
        for number in (2, 3):
            emit(permitted, "a", str(number))
        emit(other, "a", "1")
    assert values(own_streams.read(other, 1)) == ["1"]
    eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 1)
    (line, *_) = eventually(lambda: [line for line in sidecar.stderr.splitlines() if "event=outbox_topic_held " in line])
    assert f"topic={permitted} " in line and "uthoriz" in line
    states = eventually(lambda: len(states := outbox.states()) == 2 and states["3"][0] is not None and states)
    assert states["2"][1:] == (0, "TOPIC") and states["3"] == (INFINITY, 0, None)
    assert "uthoriz" in sidecar.command("outbox", "list", "--status", "retrying").stdout
    outbox.emit(other, "a", "2")
    assert values(own_streams.read(other, 2)) == ["1", "2"]
    secure_kafka.permit(permitted, *revoked)
    assert values(own_streams.read(permitted, 3)) == ["1", "2", "3"]
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_held_topics") == 0)
    assert sidecar.metric("inboxd_outbox_refused_total") == 0


def row(done, name):
    """The lines of one check of `inboxd check`."""
    return re.search(rf"^\S+ +{name} .*(?:\n {{19}}.*)*", done.stdout, re.M)[0]


def test_check_names_a_broker_that_cannot_be_reached_where_it_is_advertised(make_inboxd, secure_kafka, group):
    checked = make_inboxd().command("check")
    assert row(checked, "kafka").startswith("ok "), checked.stdout
    assert f"group {group}: its coordinator answers" in row(checked, "kafka")
    lost = make_inboxd(kafka={"bootstrap.servers": f"127.0.0.1:{secure_kafka.lost_port}", "security.protocol": "plaintext"})
    checked = lost.command("check")
    found = row(checked, "kafka")
    assert checked.returncode == 4 and found.startswith("FAILED"), checked.stdout
    assert f"broker 1 cannot be reached at the address that it advertises, 127.0.0.1:{secure_kafka.dead_port}: " in found
    assert "Connection refused" in found and "correct advertised.listeners" in found


def test_check_names_each_setting_that_the_consumer_protocol_refuses(make_inboxd):
    refused = {"session.timeout.ms": 20000, "heartbeat.interval.ms": 3000, "partition.assignment.strategy": "range",
               "group.protocol.type": "consumer"}
    sidecar = make_inboxd(kafka={"group.protocol": "consumer", **refused})
    sidecar.env.update(later_librdkafka())
    found = row(sidecar.command("check"), "kafka")
    assert found.startswith("FAILED")
    for name in refused:
        assert f'kafka.{name}: kafka.group.protocol is "consumer", which refuses this setting' in found
    assert "group.consumer.session.timeout.ms" in found


def documented_access():
    """{kind of the resource and its first word: the operations} of docs/deployment.md."""
    text = pathlib.Path(__file__).parents[2].joinpath("docs/deployment.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (topic: \w+ \w+|group|transactional id).* \| ([A-Z_, ]+) \|$", text, re.M)
    return {what: [AclOperation[word] for word in words.split(", ")] for what, words in rows}


@pytest.mark.slow
def test_the_access_of_the_documentation_is_enough(make_inboxd, handler, secure_kafka, own_streams, own_topic, own_inbox, group, name):
    """Every resource has an ACL of somebody else, so it is closed."""
    dead_topic, events, transactions = f"{name[:40]}.dead", f"{name[:40]}.events", f"inboxd-outbox.inbox.{group}"
    for topic in (dead_topic, events):
        own_streams.create(topic, 1)
    kinds = {"topic: each one": (ResourceType.TOPIC, own_topic), "topic: the dead": (ResourceType.TOPIC, dead_topic),
             "topic: each topic": (ResourceType.TOPIC, events), "group": (ResourceType.GROUP, group),
             "transactional id": (ResourceType.TRANSACTIONAL_ID, transactions)}
    access = documented_access()
    assert set(access) == set(kinds)
    cluster = (ResourceType.BROKER, "kafka-cluster")
    try:
        for resource in (*kinds.values(), cluster):
            secure_kafka.allow(*resource, AclOperation.ALL, user="others")
        sidecar = make_inboxd(retry={"dead_topic": dead_topic}, outbox={"enabled": True, "producer": "transactional"})
        assert sidecar.command("check").returncode != 0, "everything is closed"
        for what, resource in sorted(kinds.items(), key=lambda each: each[0] == "group"):
            if what == "group":
                eventually(lambda: "grant READ on the group" in sidecar.command("check").stdout)
            secure_kafka.allow(*resource, *access[what])
        eventually(lambda: "ok     kafka" in sidecar.command("check").stdout)
        sidecar.start()
        handler(sidecar, always(dead(reason="no")))
        own_streams.events(own_topic, ["a"])
        assert len(own_streams.read(dead_topic, 1)) == 1
        Outbox(own_inbox).emit(events, "k", "e")
        assert values(own_streams.read(events, 1)) == ["e"]
        assert sidecar.command("verify", "--topic", own_topic).returncode == 0
        assert sidecar.command("seek", own_topic, "0", "0", "--dry-run").returncode == 0
        refused = [line for line in sidecar.stderr.splitlines() if "uthoriz" in line]
        assert all("event=retention_unknown " in line for line in refused), refused
        assert "retention unknown" in sidecar.command("check").stdout
        secure_kafka.allow(ResourceType.TOPIC, own_topic, AclOperation.DESCRIBE_CONFIGS)
        eventually(lambda: "retention unknown" not in sidecar.command("check").stdout)
    finally:
        secure_kafka.forget(*cluster)


def test_a_refused_event_ends_the_producer_of_the_others_once(start_inboxd, secure_kafka, own_streams, own_inbox, name):
    """Without DESCRIBE_CONFIGS, the relay does not know that the topic is compacted."""
    compacted = f"{name[:40]}.compacted"
    own_streams.create(compacted, 1, cleanup_policy="compact")
    secure_kafka.permit(compacted, AclOperation.WRITE, AclOperation.DESCRIBE)
    outbox = Outbox(own_inbox)
    sidecar = start_inboxd(outbox={"enabled": True, "max_attempts": 3})
    outbox.emit(compacted, None, "unkeyed")
    row = eventually(lambda: next((row for row in outbox.rows() if row["dead_at"] is not None), None))
    assert (row["retry_count"], row["error_code"]) == (3, "REFUSED")
    assert "a compacted topic, for example, takes no record without a key" in row["error"]
    assert sidecar.stderr.count("facility=FATAL") == 1, "the later tries are alone"
