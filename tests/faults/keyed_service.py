"""A service that serves requests with idempotency keys, as a process that tests stop and kill. PG* variables name the database.

	keyed_service.py leased KEY NAME DIRECTORY     one request with a lease of a second
	keyed_service.py all FILE COUNT PART           many requests, each until it has an answer

Both have an effect in the table `effects`, in the transaction that completes the request. What they print is for the tests.
"""

import os
import pathlib
import sys
import time
import uuid

import psycopg

BEGIN = "SELECT verdict, token, attempt, point, convert_from(body, 'UTF8') FROM inbox.request_begin({})"
PARTS, COPIES = 4, 2  # how many processes share the keys, and how many of them have each key


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


def serve(connection, number, leases):
    """The answer to one copy of a request; None: it is busy. Each attempt would answer something else."""
    key, name = f"k{number}", str(uuid.uuid4())
    if leases:
        verdict, token, _, _, body = connection.execute(BEGIN.format("%s, 'f', lease => '1 second'"), [key]).fetchone()
        if verdict == "started":
            with connection.transaction():
                finish(connection, token, key, name)
        return name if verdict == "started" else body
    with connection.transaction():
        verdict, token, _, _, body = connection.execute(BEGIN.format("%s, 'f'"), [key]).fetchone()
        if verdict == "started":
            finish(connection, token, key, name)
    return name if verdict == "started" else body


def answers_in(path):
    """[(key, answer)] of the file of a process, without the half line that a killed one has left."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines() if os.path.exists(path) else []
    return [tuple(line.split()) for line in lines if line.startswith("k") and len(line.partition(" ")[2]) == 36]


def serve_all(path, count, part):
    """Appends the answers to the file. A process that is started again has those of the earlier ones. One request in four is
    leased. All processes have the same order, so that copies of a request meet."""
    known = {key for key, _ in answers_in(path)}
    wanted = [number for number in reversed(range(int(count))) if (int(part) - number) % PARTS < COPIES and f"k{number}" not in known]
    connection = None
    with open(path, "a", encoding="utf-8") as answers:
        answers.write("\n")  # a killed process may have left half a line
        while wanted:
            number = wanted.pop()
            try:
                connection = connection or psycopg.connect(autocommit=True, connect_timeout=5)
                answer = serve(connection, number, number % 4 == 0)
            except psycopg.Error as error:
                if error.sqlstate == "IB011":  # it was slower than its lease
                    answer = None
                elif isinstance(error, psycopg.OperationalError):  # the database is away
                    connection, answer = None, None
                    time.sleep(0.05)
                else:
                    raise
            if answer is None:
                wanted.insert(0, number)
            else:
                answers.write(f"k{number} {answer}\n")
                answers.flush()
            time.sleep(0.002)  # so that there is time for kills


if __name__ == "__main__":
    os.environ.setdefault("PGAPPNAME", "keyed_service")
    {"leased": leased, "all": serve_all}[sys.argv[1]](*sys.argv[2:])
