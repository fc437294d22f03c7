"""Keeps the file of kafka.oauth_token_file up to date. The program of each cloud calls run() with the function that makes a token.

    (no argument)  writes the file, and again when 80 % of the life of the token are over, until SIGTERM
    --check        ends with exit code 0 if the file has a token that is valid: the health check of the image
    --print        prints a token once: the program can be kafka.oauth_token_command

TOKEN_FILE is the path of the file. After a failure it tries again, after 1 to 60 s; the file keeps the last token. No line of the log
has a part of a token.
"""

import json
import os
import random
import signal
import sys
import threading
import time

LIFE = 0.8
VALID_S = 30  # inboxd accepts no token that ends earlier
PAUSE_S = 1, 60


def log(level, event, **fields):
    words = "".join(f" {name}={json.dumps(value) if isinstance(value, str) else value}" for name, value in fields.items())
    print(f"level={level} event={event}{words}", file=sys.stderr, flush=True)


def text_of(made):
    token, expires_at_ms, principal = made
    return json.dumps({"token": token, "expires_at_ms": int(expires_at_ms), "principal": principal})


def left_s(path):
    """How long the token in the file is valid; 0 without one."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["expires_at_ms"] / 1000 - time.time()
    except (OSError, ValueError, KeyError):
        return 0


def write(path, text):
    """A reader finds the earlier token or the new one, whole. The group of the pod may read it, others not."""
    part = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.remove(part)
        raise


def renew(path, make):
    """Returns the time until the next token, in seconds."""
    made = make()
    valid_s = made[1] / 1000 - time.time()
    if valid_s < VALID_S:
        raise ValueError(f"the token is valid for {valid_s:.0f} s only: check the clock")
    write(path, text_of(made))
    log("info", "token_written", file=path, valid_for_s=int(valid_s))
    return valid_s * LIFE


def keep(path, make, stopping):
    failures = 0
    while not stopping.is_set():
        try:
            pause_s, failures = renew(path, make), 0
        except Exception as error:  # pylint: disable=broad-exception-caught  # the libraries have no common class
            failures += 1
            pause_s = min(PAUSE_S[0] * 2 ** failures, PAUSE_S[1]) * random.uniform(0.5, 1)
            log("warn", "token_failed", error=f"{type(error).__name__}: {error}", retry_in_s=round(pause_s, 1),
                token_left_s=max(0, int(left_s(path))), next="the file keeps the last token until it ends")
        stopping.wait(pause_s)


def run(make):
    """`make` returns (token, its end in milliseconds since 1970, the name of the client). It has time limits of its own."""
    path = os.environ.get("TOKEN_FILE", "/run/tokens/kafka")
    mode = sys.argv[1:] or [""]
    if mode == ["--check"]:
        sys.exit(0 if left_s(path) > VALID_S else 1)
    if mode == ["--print"]:
        print(text_of(make()))
        return
    if mode != [""]:
        sys.exit(f"usage: {sys.argv[0]} [--check | --print]")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # process 1 has no default for them
        signal.signal(number, lambda *_: stopping.set())
    keep(path, make, stopping)
