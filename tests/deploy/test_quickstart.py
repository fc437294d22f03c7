"""Parts of the quickstart; a separate suite runs all of it."""

import os
import re
import subprocess

import pytest

from support.wait import eventually

EXAMPLES = ["", "consumers", "outbox"]

# What a reader does by looking: waits for the end of the example handler, and for the message before Ctrl-C.
PATIENT = r"""until_gone() { while inboxd handlers | grep -q '^totals .*connected'; do sleep 0.1; done; }
until_order() {
	python3 "$@" >"$QUICKSTART/own" 2>&1 & local own=$!
	for n in {1..600}; do ! grep -q order.created "$QUICKSTART/own" || break; sleep 0.1; done
	kill $own; wait $own; cat "$QUICKSTART/own"
}"""


def sourced(root, script, **env):
    """Runs a script with the quickstart's functions."""
    return subprocess.run(["bash", "-c", f'source "{root}/deploy/quickstart.sh"; {script}'], capture_output=True,
                          text=True, timeout=300, check=False, env={**os.environ, **env})


def test_environment_variables_of_another_inboxd_are_removed(root):
    done = sourced(root, "env", INBOXD_SOCKET_PATH="/nonexistent/x", INBOXD_CONFIG="/nonexistent/y")
    assert "PATH=" in done.stdout and "/nonexistent" not in done.stdout


def test_waiting_ends_when_the_process_ends(root, tmp_path):
    done = sourced(root, f"dir={tmp_path}; start dud sh -c 'echo why; exit 3'; wait_for dud 200 false")
    assert done.returncode == 1 and "dud has ended; its log:\nwhy\n" in done.stderr


def test_a_slow_start_is_reported(root, tmp_path):
    done = sourced(root, f"dir={tmp_path}; trap 'kill \"${{pids[@]}}\"' EXIT; start slow sleep 50; wait_for slow 1 false")
    assert done.returncode == 1 and "slow did not start in time" in done.stderr


def rows(output):
    """[(what it shows, command)] of the table at the end of the output."""
    table = output.rstrip("\n").rpartition("\n\n")[2].splitlines()
    assert re.fullmatch(r" +what it shows +command", table[0]), output
    found = [re.fullmatch(r"  (\d)  (\S.*?)  +(\S.*)", line) for line in table[1:]]
    assert [one[1] for one in found] == ["1", "2", "3", "4", "5"]
    return [(one[2], one[3]) for one in found]


def test_the_script_says_what_it_does_while_it_builds(root, tmp_path):
    done = sourced(root, f"""dir={tmp_path}; tick_seconds=1; exec 2>"$dir/said"
        until_said() {{ until grep -q "$1" "$dir/said"; do sleep 0.1; done; }}
        install_all() {{ until_said installing,; }}
        build_release() {{ until_said configuring,; echo '[1/230] a.c'; echo '[57/230] Compiling b.c'; until_said 57; }}
        prepare""")
    said = (tmp_path / "said").read_text()
    assert done.returncode == 0, said
    assert re.search(r"""
== 1 of 5: installing the packages that are missing
(?:   installing, which can take minutes, \d+ s
)+   packages: done in \d+ s

== 2 of 5: building into build-release; the log is .*/build.log
(?:   configuring, \d+ s
)+(?:   compiling: 57 of 230 files, \d+ s
)+   build: done in \d+ s
""", said), said


def test_the_log_of_a_failed_build_stays(root, tmp_path):
    done = sourced(root, f"""dir={tmp_path}/own; mkdir "$dir"; trap stop_all EXIT
        build_release() {{ echo why; return 1; }}
        stage build compiling compile""", TMPDIR=str(tmp_path))
    assert done.returncode == 1 and "the build failed:\nwhy\n" in done.stderr
    log, = re.findall(r"the whole log is in (\S+)", done.stderr)
    assert open(log, encoding="utf-8").read() == "why\n"


def test_the_servers_alone_are_for_an_inboxd_of_your_own(terminal):
    first = terminal("deploy/quickstart.sh", "--servers-only", "--topic", "payments")
    eventually(lambda: "inboxd run --migrate" in first.output or not first.is_running(), timeout=800, what="the servers")
    environment, = re.findall(r"^  (\. \S+/environment)\r?$", first.output, re.M)
    second = terminal()
    second.run(environment)
    listed = second.run("kcat -L -b $KAFKA_BOOTSTRAP")
    assert 'topic "orders"' in listed and 'topic "payments"' in listed
    init, = re.findall(r"^  (inboxd init .*?9464|inboxd init .*?:\d+)\r?$", first.output, re.M | re.S)
    assert init.startswith("inboxd init payments ")
    assert "\nwrote " in second.run(init.replace("\r", ""))
    assert second.run("inboxd migrate --roles >/dev/null; echo CODE $?").strip().endswith("CODE 0")
    assert first.is_running()
    assert first.close() == 0


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_output_ends_with_a_table_of_five_things_to_try(root, tmp_path, example):
    part = f'. "$root/examples/{example}/quickstart.sh"; ' if example else ""
    done = sourced(root, f"dir={tmp_path}; arguments=(--once --example '{example}'); once=yes; {part}next_steps")
    assert len(rows(done.stdout)) == 5, done.stderr
    assert f"\n  deploy/quickstart.sh --example {example or repr('')}\n" in done.stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_command_of_the_table_works(terminal, example):
    options = ["--example", example] if example else []
    first = terminal("deploy/quickstart.sh", *options)
    eventually(lambda: re.search(r"^  5  .*\n", first.output, re.M) or not first.is_running(), timeout=800,
               what="the quick start")  # the first time it builds
    environment, = re.findall(r"^  (\. \S+/environment)$", first.output, re.M)
    second = terminal()
    second.run(environment)
    second.run(PATIENT)
    for what, command in rows(first.output):
        own = "minimal.py" in command  # ends with Ctrl-C
        got = second.run(f"{command.replace('python3', 'until_order').replace('sleep 1; inboxd handlers', 'until_gone; inboxd handlers')};"
                         " echo CODE $?")
        assert not re.search(r"Traceback|^inboxd: |ERROR:|not found|No such", got, re.M), f"{what}: {command}\n{got}"
        assert not own or "order.created" in got, f"{what}: {command}\n{got}"
        assert own or len(got.splitlines()) > 2 and got.endswith("CODE 0\n"), f"{what}: {command}\n{got}"
    assert first.is_running()
    assert first.close() == 0
