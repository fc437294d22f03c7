"""The examples of the handler libraries. Those of COMMANDS make an invoice for each order, exactly once.

They have the table of examples/exactly_once.py, subscribe to the topic orders, and read the PG… variables. handlers/LANGUAGE/check
prepares what its command needs. The program in C comes from the build of the sidecar under test.
"""

import pathlib

from support.sidecar import binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".cache/languages/python/bin/python")
JAVA = ROOT / "handlers/java/target/classpath"
SPRING = ROOT / "handlers/java/spring/target/classpath"
# The class path has JPA for other programs.
WITHOUT_JPA = "--spring.autoconfigure.exclude=" + ",".join(f"org.springframework.boot.autoconfigure.{name}AutoConfiguration" for name in (
    "orm.jpa.HibernateJpa", "data.jpa.JpaRepositories"))


def _python(name):
    return [PYTHON, str(ROOT / "handlers/python/examples" / name)]


def _node(name):
    return ["node", str(ROOT / "handlers/node/examples" / name)]


def _go(name):
    return [str(ROOT / ".cache/languages/go" / name)]


def java(name):
    """The command of a program of handlers/java."""
    return ["java", "-XX:+UseSerialGC", f"@{JAVA}", name]


def spring(name):
    """The command of a program of handlers/java/spring."""
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"@{SPRING}", name]


COMMANDS = {
    "c-libpq": [str(pathlib.Path(binary()).parents[1] / "examples/exactly_once")],
    "python-psycopg": _python("exactly_once.py"),
    "python-asyncpg": _python("exactly_once_asyncpg.py"),
    "python-batch": _python("exactly_once_batch.py"),
    "python-psycopg2": _python("exactly_once_psycopg2.py"),
    "python-sqlalchemy": _python("exactly_once_sqlalchemy.py"),
    "python-sqlalchemy-async": _python("exactly_once_sqlalchemy_async.py"),
    "python-django": _python("exactly_once_django.py"),
    "node-pg": _node("exactly-once.js"),
    "node-batch": _node("exactly-once-batch.js"),
    "go-pgx": _go("exactly_once"),
    "go-sql": _go("exactly_once_sql"),
    "go-batch": _go("exactly_once_batch"),
    "java-jdbc": java("ExactlyOnce"),
    "java-batch": java("ExactlyOnceBatch"),
    "java-jooq": spring("Jooq"),
    "java-hibernate": spring("HibernateSession"),
    "java-spring-template": spring("SpringTemplate"),
    "java-spring-jooq": spring("SpringJooq"),
    "java-spring-boot": [*spring("springboot.Invoices"), WITHOUT_JPA],
    "java-spring-jpa": spring("springjpa.Invoices"),
}
EACH = sorted(COMMANDS)
# Other examples that read the topic orders: they handle messages, and stop on SIGTERM.
OTHERS = {
    "python-minimal": _python("minimal.py"),
    "python-service": _python("service.py"),
    "node-minimal": _node("minimal.js"),
    "node-service": _node("service.js"),
    "go-minimal": _go("minimal"),
    "go-service": _go("service"),
    "java-minimal": java("Minimal"),
    "java-service": java("Service"),
}
# Examples that decode Avro with a schema registry.
DECODERS = {
    "python": _python("schema_registry.py"),
    "node": _node("schema-registry.js"),
    "go": _go("schema_registry"),
    "java": java("SchemaRegistry"),
}
# Examples that answer messages of the type order.paid with an event for the topic shipments.
EMITTERS = {
    "python-emit": _python("emit.py"),
}
