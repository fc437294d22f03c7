"""The image without a container engine: the Dockerfile is linted, its build stage is run with a copy of its context,
and the program is run in the resulting file system as its user.
"""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from dockerfile_parse import DockerfileParser

DOCKERFILE = "deploy/docker/Dockerfile"
SHELLS = {"sh", "bash", "dash", "busybox", "apt", "dpkg", "perl", "python3"}


@pytest.fixture(scope="module")
def steps(root):
    parser = DockerfileParser(path=str(root / DOCKERFILE), cache_content=True)
    return [(step["instruction"], step["value"]) for step in parser.structure if step["instruction"] != "COMMENT"]


@pytest.fixture(scope="module")
def stages(steps):
    """The steps of the stage that builds, and of the image."""
    starts = [number for number, (instruction, _) in enumerate(steps) if instruction == "FROM"]
    assert len(starts) == 2
    return steps[:starts[1]], steps[starts[1]:]


def values(steps, instruction):
    return [value for name, value in steps if name == instruction]


def sources(stage):
    """The files copied from the context."""
    return [source for value in values(stage, "COPY") for source in value.split()[:-1]]


def as_root(*command):
    return command if os.geteuid() == 0 else ("sudo", "-n", *command)


@pytest.fixture(scope="module")
def rootfs(checkout, stages, librdkafka, tmp_path_factory):
    """The image's file system, made by the commands of the build stage except apt-get, with directories of the test. The
    script that builds librdkafka finds it built."""
    place = tmp_path_factory.mktemp("image")
    context, build, result = place / "src", place / "build", place / "rootfs"
    for source in sources(stages[0]):
        target = context / source
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (checkout / source).is_dir() else shutil.copy2
        copy(checkout / source, target)
    for command in values(stages[0], "RUN"):
        if command.startswith("apt-get"):
            continue
        for path, target in ((r"/rootfs\b(?!\.)", result), (r"/build\b(?!\.)", build), (r"/librdkafka\b", librdkafka)):
            command = re.sub(r"(?<![\w./])" + path, str(target), command)
        done = subprocess.run(as_root("sh", "-ec", command), cwd=context, capture_output=True, text=True,
                              timeout=850, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    os.chmod(place, 0o755)
    return result


def inside(rootfs, stages, *arguments):
    """Runs the image's entry point as the image's user."""
    user = values(stages[1], "USER")[0]
    (program,) = re.findall(r'"([^"]+)"', values(stages[1], "ENTRYPOINT")[0])
    return subprocess.run(as_root("chroot", f"--userspec={user}", str(rootfs), program, *arguments),
                          env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False)


def test_hadolint_finds_nothing(root):
    hadolint = pathlib.Path(sys.executable).parent / "hadolint"
    said = subprocess.run([hadolint, root / DOCKERFILE], capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stdout) == (0, "")


def test_copied_files_exist_and_are_not_ignored(checkout, stages):
    allowed = [line[1:] for line in (checkout / f"{DOCKERFILE}.dockerignore").read_text().splitlines()
               if line.startswith("!")]
    for source in sources(stages[0]):
        assert (checkout / source).exists(), source
        assert any(source == path or fnmatch.fnmatch(source, f"{path}/*") for path in allowed), source


def test_installed_packages_exist(stages):
    (command,) = [value for value in values(stages[0], "RUN") if value.startswith("apt-get")]
    words = re.search(r"install\s+(.*?)&&", command.replace("\\\n", " "), re.S)[1].split()
    packages = [word for word in words if not word.startswith("-")]
    assert len(packages) > 10
    for package in packages:
        known = [subprocess.run([*command, package], capture_output=True, timeout=60, check=False).returncode
                 for command in (("apt-cache", "show"), ("dpkg-query", "--status"))]
        assert 0 in known, package


def test_the_image_runs_as_a_numeric_user_that_is_not_root(stages):
    (user,) = values(stages[1], "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_the_image_has_only_the_program_and_its_libraries(rootfs):
    names = {path.name for path in rootfs.rglob("*") if path.is_file()}
    assert not names & SHELLS
    programs = [path for path in (rootfs / "usr/bin").iterdir()]
    assert [path.name for path in programs] == ["inboxd"]
    total = sum(path.stat().st_size for path in rootfs.rglob("*") if path.is_file())
    assert total < 40 << 20


def test_the_program_runs_in_the_image(rootfs, stages, checkout):
    version = re.search(r"version: '([^']+)'", (checkout / "meson.build").read_text())[1]
    done = inside(rootfs, stages, "version")
    assert (done.returncode, done.stdout.partition("\n")[0]) == (0, f"inboxd {version}"), done.stderr


def test_the_image_has_the_librdkafka_of_the_project(rootfs, stages, shipped_version):
    """In the program, and it can do what its users need from it; the libraries that it calls are files of the distribution."""
    said = json.loads(inside(rootfs, stages, "version", "--json").stdout)["libraries"]["librdkafka"]
    assert (said["version"], said["origin"]) == (shipped_version, "static")
    needed = {"ssl", "sasl_gssapi", "sasl_scram", "sasl_oauthbearer", "oidc", "zstd", "lz4", "snappy", "gzip"}
    assert needed <= set(said["features"].split(","))
    names = {path.name.partition(".so")[0] for path in rootfs.rglob("*.so*")}
    assert {"libssl", "libcrypto", "libcurl", "libzstd", "liblz4", "libsasl2"} <= names
    assert not any(name.startswith("librdkafka") for name in names)
    assert "Confluent" in (rootfs / "usr/share/doc/inboxd/librdkafka-LICENSES.txt").read_text()


def test_the_bill_of_materials_of_the_image_names_every_library(rootfs, shipped_version):
    bill = json.loads((rootfs / "usr/share/doc/inboxd/inboxd.cdx.json").read_text())
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["librdkafka"]["version"] == shipped_version
    assert parts["librdkafka"]["externalReferences"][0]["hashes"][0]["alg"] == "SHA-256"
    for package in ("libssl3", "libcurl4", "libpq5", "libc6", "zlib1g"):
        assert re.fullmatch(rf"pkg:deb/\w+/{package}@[^:?@+]+\?arch=\w+&distro=[\w.-]+", parts[package]["purl"])
    assert {entry["ref"] for entry in bill["dependencies"]} == {"inboxd"}


def test_the_program_can_connect_from_the_image(rootfs, stages):
    """Kafka, PostgreSQL and TLS are linked and loaded: `check` fails only because no server answers."""
    done = inside(rootfs, stages, "check", "--set", "kafka.topics=orders", "--set", "kafka.group.id=billing",
                  "--set", "kafka.bootstrap.servers=localhost:1", "--set", "kafka.security.protocol=ssl",
                  "--set", "postgres.host=localhost", "--set", "postgres.port=1", "--set", "postgres.dbname=billing")
    assert done.returncode in (3, 4), done.stdout + done.stderr
    assert "localhost" in done.stdout + done.stderr
    assert "/run/inboxd" not in done.stderr  # the socket's directory is there, and its own


def test_the_image_has_the_settings_of_current_clouds(rootfs, stages):
    """librdkafka asks for a setting that OIDC needs. That of Debian 12 refuses the method, and does not know the others."""
    settings = {"topics": "orders", "group.id": "billing", "bootstrap.servers": "localhost:1", "security.protocol": "sasl_ssl",
                "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "billing",
                "sasl.oauthbearer.client.secret": "x", "sasl.oauthbearer.grant.type": "client_credentials",
                "metadata.recovery.strategy": "rebootstrap", "group.protocol": "classic"}
    sets = [word for name, value in settings.items() for word in ("--set", f"kafka.{name}={value}")]
    done = inside(rootfs, stages, "check", *sets, "--set", "postgres.host=localhost", "--set", "postgres.port=1",
                  "--set", "postgres.dbname=billing")
    assert "does not list this name" not in done.stderr
    (line,) = re.findall(r"^FAILED kafka .*", done.stdout, re.M)
    assert "`sasl.oauthbearer.token.endpoint.url` is mandatory" in line


def test_only_the_directory_of_the_socket_is_writable(rootfs, stages):
    user, group = map(int, values(stages[1], "USER")[0].split(":"))
    writable = [path for path in rootfs.rglob("*") if not path.is_symlink()
                and ((path.stat().st_uid, path.stat().st_gid) == (user, group) or path.stat().st_mode & 0o002)]
    assert writable == [rootfs / "run/inboxd"]
