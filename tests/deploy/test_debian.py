"""The Debian packages: built like Debian packages, installed into a separate directory, and run."""

import gzip
import json
import os
import pathlib
import re
import socket
import subprocess

import pytest

from deploy.tools import call
from support.scripts import always, DONE
from support.wait import eventually


@pytest.fixture
def packaged(installed, monkeypatch):
    """Sidecars of the test are the program of the package."""
    monkeypatch.setenv("INBOXD_BINARY", str(installed / "usr/bin/inboxd"))


def test_three_packages_are_built(packages):
    assert set(packages) == {"inboxd", "libinboxhandler0", "libinboxhandler-dev"}


def test_the_version_is_that_of_the_program(packages, installed, root):
    version = re.search(r"version: '([^']+)'", (root / "meson.build").read_text())[1]
    assert call("dpkg-deb", "-f", packages["inboxd"], "Version").strip() == version
    assert call(installed / "usr/bin/inboxd", "version").startswith(f"inboxd {version}\n")


def test_the_package_has_the_librdkafka_of_the_project(packages, installed, shipped_version):
    """The package names the libraries that it calls as dependencies, so that the distribution updates them."""
    assert f"\nlibrdkafka {shipped_version} (static: " in call(installed / "usr/bin/inboxd", "version")
    depends = call("dpkg-deb", "-f", packages["inboxd"], "Depends")
    assert "librdkafka" not in depends
    for library in ("libssl", "libcurl", "libzstd", "liblz4", "libsasl2"):
        assert re.search(rf"\b{library}", depends), depends
    doc = installed / "usr/share/doc/inboxd"
    assert [part["name"] for part in json.loads((doc / "inboxd.cdx.json").read_text())["components"]] == ["librdkafka"]
    assert "Confluent" in gzip.decompress((doc / "librdkafka-LICENSES.txt.gz").read_bytes()).decode()


def test_the_packages_have_all_files(installed):
    page = gzip.decompress((installed / "usr/share/man/man1/inboxd.1.gz").read_bytes()).decode()
    assert ".TH" in page and "migrate" in page
    assert "_inboxd" in (installed / "usr/share/bash-completion/completions/inboxd.bash").read_text()
    assert (installed / "usr/share/zsh/site-functions/_inboxd").read_text().startswith("#compdef inboxd")
    assert (installed / "etc/inboxd").is_dir()
    (unit,) = [path for path in installed.rglob("inboxd.service") if "/lib/systemd/system/" in str(path)]
    assert not unit.is_symlink()
    assert re.search(r"^inboxd:x:\d+:\d+:.*nologin$", (installed / "etc/passwd").read_text(), re.M)


def verify(unit, text):
    unit.write_text(text)
    return subprocess.run(["systemd-analyze", "--man=no", "verify", str(unit)], capture_output=True, text=True,
                          timeout=60, check=False)


def test_systemd_accepts_the_unit(installed, tmp_path):
    (unit,) = installed.rglob("lib/systemd/system/inboxd.service")
    text = unit.read_text().replace("=/usr/bin/inboxd", f"={installed}/usr/bin/inboxd")
    done = verify(tmp_path / "inboxd.service", text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert verify(tmp_path / "inboxd.service", text.replace("Restart=", "Restrat=")).stderr


def test_the_service_is_neither_enabled_nor_started_without_a_configuration(installed):
    assert not list((installed / "etc").rglob("inboxd.service"))


def test_a_handler_in_c_can_be_built_with_the_development_package(installed, root, tmp_path):
    (pc,) = installed.rglob("inboxhandler.pc")
    env = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(installed)}
    flags = call("pkg-config", "--cflags", "--libs", "inboxhandler", env=env).split()
    flags = [f"-I{installed}/usr/include", f"-L{pc.parents[1]}", *flags]
    call("gcc", str(root / "examples/minimal.c"), "-o", str(tmp_path / "minimal"), *flags)
    needed = call("ldd", tmp_path / "minimal", env={**os.environ, "LD_LIBRARY_PATH": str(pc.parents[1])})
    assert str(pathlib.Path(pc.parents[1], "libinboxhandler.so.0")) in needed


def test_check_passes_with_a_configuration(packaged, make_inboxd):
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    done = sidecar.command("check")
    assert done.returncode == 0, done.stdout + done.stderr


def allowed(service):
    """The system calls that the unit's filters allow."""
    listed = call("systemd-analyze", "--no-pager", "syscall-filter")
    sets = {}
    for line in listed.splitlines():
        name = line.strip()
        if line.startswith("@"):
            members = sets.setdefault(name, set())
        elif name and not name.startswith("#"):
            members.add(name)

    def expand(name):
        return set().union(*map(expand, sets[name])) if name.startswith("@") else {name}

    calls = set()
    for words in re.findall(r"^SystemCallFilter=(.*)$", service, re.M):
        named = set().union(*map(expand, words.lstrip("~").split()))
        calls = calls - named if words.startswith("~") else calls | named
    return calls


def test_the_unit_allows_every_system_call_of_a_message(installed, deploy, start_inboxd, handler, streams, topic, inbox,
                                                        monkeypatch, tmp_path):
    assert "\nCPUSchedulingPolicy=batch\n" in (deploy / "systemd/inboxd.service").read_text()
    traced, program = tmp_path / "traced", tmp_path / "inboxd"
    program.write_text(f'#!/bin/sh\nexec chrt --batch 0 strace -D -f -qq -o {traced} {installed}/usr/bin/inboxd "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("INBOXD_BINARY", str(program))
    sidecar = start_inboxd()
    handler(sidecar, always(DONE))
    streams.events(topic, ["a", "b", "a"])
    inbox.wait_processed(2)
    assert sidecar.stop() == 0
    used = set(re.findall(r"^\d+ +(\w+)\(", traced.read_text(), re.M))
    assert {"execve", "epoll_wait", "sendto"} <= used
    assert used - allowed((deploy / "systemd/inboxd.service").read_text()) == set()


@pytest.fixture
def manager(tmp_path):
    """systemd's end of NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.settimeout(30)
        yield end


def test_the_installed_program_runs_and_notifies_systemd(packaged, start_inboxd, handler, manager, streams, topic,
                                                         inbox):
    sidecar = start_inboxd(env={"NOTIFY_SOCKET": manager.getsockname()})
    assert b"READY=1" in manager.recv(4096)
    handler(sidecar, always(DONE))
    streams.events(topic, ["a", "b", "a"])
    inbox.wait_processed(2)
    eventually(lambda: sidecar.metric("inboxd_duplicates_total", topic=topic) == 1)
    assert sidecar.stop() == 0
    assert b"STOPPING=1" in manager.recv(4096)
