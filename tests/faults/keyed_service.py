"""A service that serves requests with idempotency keys, as a process that tests stop and kill. PG* variables name the database.

	keyed_service.py leased KEY NAME DIRECTORY     one request with a lease of a second

It has an effect in the table `effects`, in the transaction that completes the request. What it prints is for the tests.
"""

import os
import pathlib
import sys
import time

import psycopg

BEGIN = "SELECT verdict, token, attempt, point, convert_from(body, 'UTF8') FROM inbox.request_begin({})"


def finish(connection, token, key, name):
    """The last transaction: the effect and the response."""
    connection.execute("INSERT INTO effects (key, name) VALUES (%s, %s)", [key, name])
    connection.execute("SELECT inbox.emit('effects', %s, 'made', to_jsonb(%s::text))", [key, name])
    connection.execute("SELECT inbox.request_complete(%s, 201, %s)", [token, name.encode()])


def leased(key, name, directory):
    """Waits before its last transaction for the file `NAME goes on`."""
    connection = psycopg.connect(autocommit=True)

    def begin():
        row = connection.execute(BEGIN.format("%s, 'f', lease => '1 second'"), [key]).fetchone()
        print("begin", row[0], *row[2:], flush=True)
        return row

    verdict, token, _, point, _ = begin()
    if verdict == "started":
        if point is None:
            connection.execute("SELECT inbox.request_extend(%s, point => 'charged')", [token])
        print("waits", flush=True)
        while not pathlib.Path(directory, f"{name} goes on").exists():
            time.sleep(0.01)
        try:
            with connection.transaction():
                finish(connection, token, key, name)
            print("completed", flush=True)
        except psycopg.Error as error:
            print("refused", error.sqlstate, flush=True)
        begin()


if __name__ == "__main__":
    os.environ.setdefault("PGAPPNAME", "keyed_service")
    {"leased": leased}[sys.argv[1]](*sys.argv[2:])
