"""Output of commands: a closed pipe, a full disk, a closed stdout."""

import os
import subprocess

import pytest

from support.scripts import always, DONE
from support.sidecar import binary


def start(sidecar, *arguments, stdout, **options):
    return subprocess.Popen([binary(), *arguments, "-c", sidecar.config_file], env=sidecar.env, stdout=stdout,
                            stderr=subprocess.PIPE, text=True, **options)


def ended(child):
    """(exit code, stderr) of a command."""
    words = child.communicate(timeout=60)[1]
    return child.returncode, words


@pytest.fixture
def processed(inboxd, handler, streams, topic, inbox):
    """A sidecar with more processed messages than a pipe has room for."""
    handler(inboxd, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(1200)])
    inbox.wait_processed(1200, timeout=60)
    return inboxd


LISTS = [["list", "--limit", "1200"], ["list", "--limit", "1200", "--json"], ["status"], ["check"], ["check", "--json"],
         ["--help"], ["version"]]


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_a_full_disk_is_reported_with_exit_code_74(processed, arguments):
    with open("/dev/full", "w", encoding="utf-8") as full:
        code, words = ended(start(processed, *arguments, stdout=full))
    assert code == 74
    (line,) = words.strip().splitlines()
    assert line.startswith("inboxd: cannot write to stdout: No space left on device")


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_a_closed_pipe_is_no_error(processed, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        assert ended(start(processed, *arguments, stdout=gone)) == (0, "")


def test_a_pipe_closed_in_the_middle_is_no_error(processed):
    child = start(processed, "list", "--limit", "1200", stdout=subprocess.PIPE)
    assert child.stdout.readline().startswith("SEQ")
    child.stdout.close()
    child.stdout = None
    assert ended(child) == (0, "")


def test_a_replay_with_a_closed_pipe_is_completed(processed, inbox):
    reader, writer = os.pipe()
    os.close(reader)
    words = [f"e{number}" for number in range(600)]  # more than is kept before it is written
    with os.fdopen(writer, "w") as gone:
        assert ended(start(processed, "replay", *words, "--yes", stdout=gone)) == (0, "")
    assert inbox.value("SELECT sum(replay_count) FROM inbox.inbox_messages") == 600


def test_a_command_that_failed_keeps_its_exit_code(processed):
    with open("/dev/full", "w", encoding="utf-8") as full:
        code, words = ended(start(processed, "replay", "e0", "missing", "--yes", stdout=full))
    assert code == 6
    assert "missing" in words and "cannot write to stdout" in words


def test_a_closed_stdout_is_reported_and_its_number_is_not_reused(processed):
    """Otherwise the connection to PostgreSQL could get the number of stdout and receive the output."""
    code, words = ended(start(processed, "list", stdout=None, preexec_fn=lambda: os.close(1)))
    assert (code, "Bad file descriptor" in words) == (74, True), words
