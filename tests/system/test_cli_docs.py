"""The man page and the completions from the build of the binary."""

import pathlib
import shutil
import subprocess

import pytest

from support.sidecar import binary

TOOLS = pathlib.Path(binary()).parents[1] / "tools"


def complete(*words):
    """The completions of bash for the last word."""
    script = (f'source "{TOOLS}/inboxd.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _inboxd;'
              ' printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("words, offered", [
    (["inboxd", "di"], ["discard"]),
    (["inboxd", "list", "--status", "d"], ["dead", "discarded"]),
    (["inboxd", "replay", "--status", ""], ["dead", "processed", "discarded"]),
    (["inboxd", "discard", "--status", ""], ["waiting", "retrying", "parked", "dead"]),
    (["inboxd", "list", "--config", "/etc/host.co"], ["/etc/host.conf"]),
    (["inboxd", "purge", "--o"], ["--older-than"]),
    (["inboxd", "--json", "purge", "--o"], ["--older-than"]),
    (["inboxd", "show", "--payload", ""], ["pretty", "hex", "raw"]),
    (["inboxd", "run", "--dry"], []),
    (["inboxd", "run", "--js"], []),
    (["inboxd", "discard", "--cod"], ["--code"]),
])
def test_bash_completes_commands_options_and_choices(words, offered):
    assert complete(*words) == offered


def test_every_command_and_option_of_the_help_is_in_the_man_page_and_in_zsh():
    page = (TOOLS / "inboxd.1").read_text().replace("\\-", "-")
    zsh = (TOOLS / "_inboxd").read_text()
    usage = subprocess.run([binary(), "--help"], capture_output=True, text=True, check=True).stdout
    commands = [line.split()[0] for line in usage.partition("Commands:")[2].splitlines()
                if line.startswith("  ") and line.strip()]
    assert {"run", "replay", "adopt"} <= set(commands)
    for command in commands:
        assert f"inboxd {command} " in page and f"'{command}:" in zsh
        text = subprocess.run([binary(), command, "--help"], capture_output=True, text=True, check=True).stdout
        for word in text.split():
            if word.startswith("--"):
                assert word.rstrip(",") in page, word


def test_the_man_page_explains_event_ids_that_begin_with_a_minus():
    page = (TOOLS / "inboxd.1").read_text().replace("\\-", "-")
    assert "inboxd show -- -1" in page and "It changes nothing for run and migrate." in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_is_good_roff():
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", TOOLS / "inboxd.1"], capture_output=True, text=True,
                          check=True)
    assert done.stderr == ""
