"""What someone meets who uses inboxd for the first time."""

import base64
import contextlib
import json
import os
import pathlib
import re
import subprocess

import psycopg
import pytest

from support import pooler
from support.fixtures import create_migrated_database
from support.sidecar import binary
from support.wait import eventually
from support.wire import Wire, hello_params

pytestmark = pytest.mark.empty_database

LARGE = 200_000  # more than the 64 KiB at which a scanner of Go stops


def test_no_delivery_comes_before_the_reply_to_hello(inboxd, streams, topic, inbox):
    streams.events(topic, [f"e{number}" for number in range(300)])
    inbox.wait_stored(300)
    for number in range(20):
        with Wire(inboxd.socket_path) as wire:
            wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello_params(handler="demo")})
            first, second = wire.read_line(), wire.read_line()
            assert first["id"] == 1 and first["result"]["protocol"] == 1, f"connection {number}"
            assert second["method"] == "deliver"


def test_a_small_handler_gets_data_that_is_not_json_and_lines_longer_than_a_scanner_of_go(inboxd, produce, topic, inbox):
    produce(topic, b"\x00\x01Avro", headers=[("id", "bytes")])
    produce(topic, None, headers=[("id", "tombstone")])
    produce(topic, json.dumps({"text": "x" * LARGE}).encode(), headers=[("id", "large")])
    inbox.wait_stored(3)
    with Wire(inboxd.socket_path) as wire:
        wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello_params(handler="demo")})
        assert wire.read_line()["id"] == 1
        events = {}
        for _ in range(3):
            line = wire.read_line()
            event = line["params"]["event"]
            events[event["id"]] = event
            verdict = {"status": "done"} if "data" in event else {"status": "dead", "reason": "the data is not JSON"}
            wire.send_line({"jsonrpc": "2.0", "id": line["id"], "result": verdict})
        assert base64.b64decode(events["bytes"]["data_base64"]) == b"\x00\x01Avro" and "data" not in events["bytes"]
        assert "data" not in events["tombstone"] and "data_base64" not in events["tombstone"]
        assert len(events["large"]["data"]["text"]) == LARGE
        eventually(lambda: {row["event_id"]: row["status"] for row in inbox.messages()} ==
                   {"bytes": "dead", "tombstone": "dead", "large": "processed"})


def test_wrong_names_in_a_hello_are_explained(inboxd, topic):
    with Wire(inboxd.socket_path) as wire:
        wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello_params(handler="demo", consumer="billing")})
        assert wire.read_line()["error"]["message"] == (
            'there is no consumer "billing": name one of those under consumers in the configuration, which lists none')
        for number, subscribe in enumerate([[{"topic": topic}, {"types": ["x"]}], [{"topic": "order"}, {"topic": "orders"}]]):
            with Wire(inboxd.socket_path) as other:
                other.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello",
                                 "params": hello_params(handler=f"demo-{number}", subscribe=subscribe)})
                assert other.read_line()["result"]["protocol"] == 1
    (line,) = eventually(lambda: [line for line in inboxd.stderr.splitlines() if "event=subscription_unread" in line])
    assert "topic=order count=2 handler=demo-1 " in line and "add the topic to kafka.topics" in line


def test_a_first_migration_logs_each_of_its_steps(make_inboxd):
    """There are more of them than lines that pass about one thing."""
    done = make_inboxd().command("migrate")
    count = int(re.search(r"(\d+) migrations applied now", done.stdout)[1])
    for event in "migration_begun", "migration_applied":
        assert len(re.findall(rf"event={event} migration=", done.stderr)) == count > 10


@pytest.fixture
def first_inbox(postgres_server, migrated_database):
    """No other database of the server has an inbox with roles."""
    postgres_server.drop_database(migrated_database)
    yield
    create_migrated_database(postgres_server)


def roles(sidecar, prefix=None):
    result = sidecar.command("migrate", "--roles" if prefix is None else f"--roles={prefix}")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.usefixtures("first_inbox")
def test_migrate_roles_says_which_it_made_and_what_to_grant(make_inboxd, db):
    sidecar = make_inboxd()
    db.execute("DROP ROLE IF EXISTS inboxd_reader")
    assert "role inboxd_reader    made now, privileges granted; nobody has it" in roles(sidecar)
    again = roles(sidecar)
    assert "role inboxd_reader    existed, privileges granted" in again
    assert "role inboxd_sidecar   existed, privileges granted; granted to billing_inbox" in again
    grant = next(line.strip() for line in again.splitlines() if "GRANT inboxd_reader" in line)
    db.execute(grant.replace("READER", "billing_inbox"))
    db.execute("REVOKE inboxd_reader FROM billing_inbox")


@pytest.fixture
def two_schemas(make_inboxd, postgres_server, database, name):
    """Sidecars of two services with schemas of their own in one database: (schema, prefix of its roles, sidecar) each."""
    made = [(schema, f"{name[:40]}_{schema}", make_inboxd(inbox={"schema": schema})) for schema in ("shop", "bank")]
    yield made
    with postgres_server.connect(database) as connection:
        for _, prefix, _ in made:
            for role in connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE %s", [prefix + "%"]).fetchall():
                connection.execute(f"DROP OWNED BY {role[0]}")
                connection.execute(f"DROP ROLE {role[0]}")


def login(db, postgres_server, database, user, role):
    """A connection of a new user who has this role."""
    db.execute(f"CREATE ROLE {user} LOGIN IN ROLE {role}")
    return psycopg.connect(postgres_server.conninfo(database), user=user, autocommit=True)


def test_the_service_of_one_schema_can_do_nothing_in_another_one(two_schemas, db, postgres_server, database):
    for schema, prefix, sidecar in two_schemas:
        done = sidecar.command("migrate", f"--roles={prefix}")
        assert done.returncode == 0, done.stderr
        assert f"role {prefix}_service made now, privileges granted; nobody has it" in done.stdout
        assert f"GRANT {prefix}_service TO SERVICE_USER;" in done.stdout and "may also use" not in done.stdout
    (shop, prefix, sidecar), (bank, _, _) = two_schemas
    with login(db, postgres_server, database, f"{prefix}_user", f"{prefix}_service") as service:
        service.execute(f"SELECT {shop}.emit('t', 'k', 't', '{{}}')")
        for call in ("emit('t', 'k', 't', '{}')", "request_begin('k', NULL)", "result('t', 'i')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                service.execute(f"SELECT {bank}.{call}")
    assert "inboxd_" not in roles(sidecar), "later, the schema has its roles"
    db.execute(f"GRANT {prefix}_reader TO {prefix}_user")
    check = sidecar.command("check", "--set", f"postgres.user={prefix}_user")
    assert f"GRANT {prefix}_sidecar to the user" in check.stderr + check.stdout
    db.execute(f"REVOKE {prefix}_reader FROM {prefix}_user")
    db.execute(f"GRANT {prefix}_sidecar TO {prefix}_user")
    for line, role in (("audit", "reader"), ("consumers rename old new", "operator"), ("pause", "operator")):
        lacks = sidecar.command(*line.split(), "--set", f"postgres.user={prefix}_user")
        assert (lacks.returncode, f"GRANT {prefix}_{role} TO {prefix}_user, or set" in lacks.stderr) == (3, True), lacks.stderr


@pytest.fixture
def three_databases(make_inboxd, postgres_server, name):
    """Three services with a database each on one server, and for each a user of its sidecar and one of its service:
    {what: (database, sidecar, user of the sidecar, user of the service)}."""
    made = {}
    with postgres_server.connect() as connection:
        for what in ("shop", "bank", "mail"):
            dbname = postgres_server.create_database(f"{what}_{name}")
            made[what] = (dbname, make_inboxd(postgres={"dbname": dbname}), f"{dbname}_in", f"{dbname}_app")
            for user in made[what][2:]:
                connection.execute(f"CREATE ROLE {user} LOGIN")
        yield made
        for dbname, *_ in made.values():
            postgres_server.drop_database(dbname)
        for role, in connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE %s", [f"%_{name[:40]}%"]).fetchall():
            connection.execute(f"DROP ROLE {role}")


def members(*grants):
    return [word for grant in grants for word in ("--grant", grant)]


@pytest.mark.usefixtures("first_inbox")
def test_three_services_on_one_server_cannot_act_in_the_inboxes_of_the_others(three_databases, postgres_server, name):
    (shop, first, shop_in, shop_app), (bank, second, bank_in, bank_app), (mail, third, mail_in, mail_app) = three_databases.values()
    assert first.command("migrate", "--roles=inboxd", *members(f"sidecar={shop_in}", f"service={shop_app}")).returncode == 0

    refused = second.command("migrate", "--roles")
    assert (refused.returncode, f"are those of the database {shop} already" in refused.stderr) == (1, True), refused.stderr
    assert "give schema \"inbox\" roles of its own with --roles=PREFIX" in refused.stderr
    done = second.command("migrate", f"--roles=bank_{name[:40]}", *members(f"sidecar={bank_in}", f"service={bank_app}"))
    assert (done.returncode, "may also use" in done.stdout) == (0, False), done.stderr
    assert f"role bank_{name[:40]}_service made now, privileges granted; granted to {bank_app}" in done.stdout
    assert re.findall(r"GRANT bank_\S+_(\w+) TO", done.stdout) == ["handler", "operator", "reader"], "--grant has done the others"
    on_purpose = third.command("migrate", "--roles=inboxd", *members(f"sidecar={mail_in}", f"service={mail_app}"))
    assert f"may also use the database {shop}" in on_purpose.stdout, on_purpose.stderr

    begin = "SELECT inbox.request_begin('k', NULL)"
    with psycopg.connect(postgres_server.conninfo(bank), user=shop_app) as stranger:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute(begin)
    with psycopg.connect(postgres_server.conninfo(mail), user=shop_app) as stranger:
        assert stranger.execute(begin), "the roles are shared"

    def check(port):
        found = third.command("check", "--set", f"postgres.port={port}", "--set", f"postgres.user={mail_in}")
        assert found.returncode == 0, found.stdout
        return found.stdout

    with contextlib.closing(pooler.Pooler(postgres_server.port, "transaction", login=mail_in)) as bouncer:
        assert f"users of the database {shop} can act in this inbox; this user can act in the inbox of the database {shop};" in check(bouncer.port)
        with postgres_server.connect() as owner:
            owner.execute(f"REVOKE CONNECT ON DATABASE {mail} FROM PUBLIC")
            assert f"PUBLIC; the same for {shop}" in check(bouncer.port) and "in this inbox" not in check(bouncer.port)
            owner.execute(f"REVOKE CONNECT ON DATABASE {shop} FROM PUBLIC")
        assert "warning" not in check(bouncer.port)
    psycopg.connect(postgres_server.conninfo(mail), user=mail_app).close()  # --grant has given it CONNECT
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(postgres_server.conninfo(mail), user=shop_app)
    assert "GRANT CONNECT ON DATABASE" in third.command("check", "--set", f"postgres.user={shop_app}").stdout


@pytest.mark.usefixtures("first_inbox")
def test_a_wrong_grant_is_refused(make_inboxd):
    sidecar = make_inboxd()
    for arguments, code, words in (
            (["--roles", *members("sidecar=nobody_at_all")], 3, 'there is no user "nobody_at_all": create it'),
            (["--roles", *members("janitor=postgres")], 1, "--grant janitor=postgres: write ROLE=USER"),
            (["--roles", *members("sidecar=")], 1, "--grant sidecar=: write ROLE=USER"),
            (members("sidecar=postgres"), 1, "--grant needs --roles")):
        done = sidecar.command("migrate", *arguments)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_user_with_the_name_of_a_role_gets_no_privileges(two_schemas, db):
    (schema, prefix, sidecar), _ = two_schemas
    user = f"{prefix}_operator"
    db.execute(f"CREATE ROLE {user} LOGIN")
    refused = sidecar.command("migrate", f"--roles={prefix}")
    assert (refused.returncode, f'role "{user}" exists and can log in' in refused.stderr) == (1, True), refused.stderr
    assert "another --roles=PREFIX, or rename the user" in refused.stderr
    assert not db.execute("SELECT to_regnamespace(%s)", [schema]).fetchone()["to_regnamespace"], "nothing was changed"
    assert sidecar.command("migrate").returncode == 0
    script = (pathlib.Path(__file__).parents[2] / "sql" / "roles.sql").read_text().replace("inboxd_", f"{prefix}_").replace("inbox.", f"{schema}.")
    with pytest.raises(psycopg.errors.RaiseException, match=f'"{user}" exists and can log in'):
        db.execute(script)
    db.execute(f"ALTER ROLE {user} RENAME TO {prefix}_person")
    assert f"role {user} made now, privileges granted; nobody has it" in roles(sidecar, prefix)


def test_users_can_move_to_roles_of_their_own(two_schemas, db, postgres_server, database):
    """The schema of an earlier version has the roles that all schemas share."""
    (shop, prefix, sidecar), (bank, _, other) = two_schemas
    assert other.command("migrate", "--roles=inboxd").returncode == 0
    shared = roles(sidecar, "inboxd")
    assert "may also use" in shared and f"the schema {bank}" in shared and "--roles=PREFIX" in shared
    with login(db, postgres_server, database, f"{prefix}_user", "inboxd_service") as service:
        emit = f"SELECT {shop}.emit('t', 'k', 't', '{{}}')"
        moving = sidecar.command("migrate", f"--roles={prefix}").stdout
        service.execute(emit)
        assert "inboxd_service" in roles(sidecar) and f"{prefix}_service" in roles(sidecar), "both until it is over"
        revokes = [line.strip() for line in moving.splitlines() if line.startswith("  REVOKE ")]
        assert len(revokes) == 4
        for statement in revokes:
            db.execute(statement)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            service.execute(emit)
        db.execute(f"GRANT {prefix}_service TO {prefix}_user")
        service.execute(emit)
        service.execute(f"SELECT {bank}.emit('t', 'k', 't', '{{}}')")
    assert "inboxd_" not in roles(sidecar)


@pytest.mark.usefixtures("first_inbox")
def test_the_name_of_a_role_is_no_part_of_a_statement(two_schemas, db):
    """Whoever may rename a role must not run statements as the user of `migrate`."""
    (_, prefix, sidecar), _ = two_schemas
    sidecar.command("migrate", f"--roles={prefix}")
    other = "public; CREATE TABLE public.made (); --"
    for old, new in ((prefix, other), (other, prefix)):
        for role in ("sidecar", "handler", "service", "operator", "reader"):
            db.execute(f'ALTER ROLE "{old}_{role}" RENAME TO "{new}_{role}"')
        roles(sidecar)
        assert db.execute("SELECT to_regclass('public.made') AS made").fetchone()["made"] is None


@pytest.mark.parametrize("prefix", ["", "Shop", "a b", "1a", "pg_x", "a" * 55, "a;b"])
def test_a_prefix_that_is_no_name_is_refused(make_inboxd, prefix):
    done = make_inboxd().command("migrate", f"--roles={prefix}")
    assert (done.returncode, done.stderr.startswith("inboxd: --roles")) == (1, True), done.stderr


def init(path, *arguments):
    return subprocess.run([binary(), "init", "-c", str(path), *arguments], capture_output=True, text=True, timeout=60, check=False)


def command(path, *arguments):
    return subprocess.run([binary(), *arguments, "-c", str(path)], capture_output=True, text=True, timeout=60, check=False)


def test_init_writes_a_file_with_which_check_reaches_both_servers(kafka, postgres, streams, topic, tmp_path, monkeypatch):
    path = tmp_path / "inboxd.yaml"
    database = postgres.conninfo() + " password=hunter2"
    assert init(path, topic, kafka.bootstrap, database).returncode == 0
    assert "hunter2" not in path.read_text() and topic in path.read_text()
    before = path.read_text()
    refused = init(path, "other", kafka.bootstrap, database)
    assert refused.returncode == 1 and "was not changed" in refused.stderr and path.read_text() == before
    checked = subprocess.run([binary(), "check", "-c", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert "ok     kafka" in checked.stdout and "ok     postgres" in checked.stdout
    assert "env PGUSER" not in checked.stdout
    path.write_text(re.sub(r"\n  user: .*", "", before))
    monkeypatch.setenv("PGUSER", "postgres")
    assert 'postgres    reachable as user "postgres" (env PGUSER)' in command(path, "check").stdout


def test_init_writes_what_it_checked_and_the_file_works(make_inboxd, kafka, postgres, streams, make_topic, tmp_path, database):
    path, first, second = tmp_path / "inboxd.yaml", make_topic(), make_topic()
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    conninfo = f"{postgres.conninfo(database)} password=hunter2"
    sets = ["retry.max_attempts=7", f"topics.{first}.id=header:id,key", "inbox.schema=mine", "kafka.sasl.password=hunter2",
            f"kafka.ssl.key.password=file:{secret}", "kafka.client.id=it's", f"socket.path={tmp_path}/inbox.sock", "http.listen="]
    made = init(path, f"{first},{second}", kafka.bootstrap, conninfo, *(word for one in sets for word in ("--set", one)))
    assert made.returncode == 0, made.stdout + made.stderr
    text = path.read_text()
    assert "hunter2" not in text and f"  topics: ['{first}', '{second}']\n" in text
    assert "Secrets were not written: kafka.sasl.password, postgres.password." in made.stdout
    checked = command(path, "check", "--json")
    found = {line["key"]: line["value"] for line in json.loads(checked.stdout)["configuration"]}
    assert {key: found[key] for key in ("retry.max_attempts", "inbox.schema", "kafka.topics", "kafka.client.id", f"topics.{first}.id")} == {
        "retry.max_attempts": "7", "inbox.schema": "mine", "kafka.topics": f"[{first}, {second}]", "kafka.client.id": "it's",
        f"topics.{first}.id": "[header:id, key]"}
    assert found["kafka.ssl.key.password"] == "***" and "kafka.sasl.password" not in found


def test_check_and_run_work_with_the_file_that_init_writes(kafka, postgres, topic, tmp_path, database):
    path = tmp_path / "inboxd.yaml"
    path.write_text("old")
    path.chmod(0o600)
    arguments = (topic, kafka.bootstrap, postgres.conninfo(database), "--set", f"socket.path={tmp_path}/inbox.sock", "--set", "http.listen=")
    assert init(path, *arguments).returncode == 1 and path.read_text() == "old"
    made = init(path, *arguments, "--force")
    assert made.returncode == 0 and "CREATE ROLE SIDECAR_USER LOGIN PASSWORD '…' IN ROLE inboxd_sidecar;" in made.stdout
    assert "PREFIX_sidecar" in made.stdout
    assert path.stat().st_mode & 0o777 == 0o600 and os.listdir(tmp_path) == ["inboxd.yaml"]
    assert command(path, "migrate").returncode == 0
    checked = command(path, "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "warning: this user owns the schema, which is more than a sidecar needs" in checked.stdout
    with subprocess.Popen([binary(), "run", "-c", str(path)], stderr=subprocess.PIPE, text=True) as run:
        assert any("event=started " in line for line in run.stderr)
        run.terminate()
        assert run.wait(30) == 0


def test_init_leaves_out_the_examples_of_sections_that_it_writes(kafka, postgres, topic, tmp_path, database):
    path = tmp_path / "inboxd.yaml"
    arguments = (topic, kafka.bootstrap, postgres.conninfo(database))
    assert init(path, *arguments).returncode == 0
    assert all(f"\n# {section}:\n" in path.read_text() for section in ("topics", "socket", "http"))
    sets = (f"topics.{topic}.id=key", f"socket.path={tmp_path}/inbox.sock", "http.listen=")
    assert init(path, *arguments, *(word for one in sets for word in ("--set", one)), "--force").returncode == 0
    assert not any(f"# {section}:\n" in path.read_text() for section in ("topics", "socket", "http"))


def test_init_names_the_variables_that_take_precedence_over_its_file(kafka, postgres, topic, tmp_path, database, monkeypatch):
    monkeypatch.setenv("INBOXD_SOCKET_PATH", f"{tmp_path}/other.sock")
    result = init(tmp_path / "inboxd.yaml", topic, kafka.bootstrap, postgres.conninfo(database))
    assert result.returncode == 0
    assert "\nThese variables of the environment take precedence over the file: INBOXD_SOCKET_PATH (socket.path).\n" in result.stdout
    monkeypatch.delenv("INBOXD_SOCKET_PATH")
    result = init(tmp_path / "inboxd.yaml", topic, kafka.bootstrap, postgres.conninfo(database), "--force")
    assert result.returncode == 0 and "precedence" not in result.stdout


def test_init_writes_no_file_without_the_topic_unless_it_is_forced(kafka, postgres, tmp_path, database):
    path = tmp_path / "inboxd.yaml"
    arguments = ("missing-topic", "127.0.0.1:1", postgres.conninfo(database))
    refused = init(path, *arguments)
    assert refused.returncode == 4 and "FAILED kafka" in refused.stdout and not path.exists()
    forced = init(path, *arguments, "--force")
    assert forced.returncode == 0 and "FAILED kafka" in forced.stdout and path.exists()


def test_the_help_of_init_names_its_own_file():
    text = subprocess.run([binary(), "init", "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "/etc/inboxd" not in text and "the file to write; default: INBOXD_CONFIG, otherwise inboxd.yaml" in text


def test_init_leaves_nothing_behind_when_it_cannot_write(kafka, postgres, topic, tmp_path, database):
    path = tmp_path / "directory"
    path.mkdir()
    result = init(path, topic, kafka.bootstrap, postgres.conninfo(database), "--force")
    assert result.returncode == 1 and f"cannot write {path}: " in result.stderr
    assert os.listdir(tmp_path) == ["directory"]


def test_init_says_what_is_wrong_and_writes_nothing(kafka, topic, tmp_path):
    path = tmp_path / "inboxd.yaml"
    result = init(path, topic, kafka.bootstrap, "postgres://nobody@127.0.0.1:1/none")
    assert result.returncode == 3 and "FAILED postgres" in result.stdout and not path.exists()
    assert "no file was written" in result.stdout
