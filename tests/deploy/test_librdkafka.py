"""The librdkafka that is shipped: which source is built, and who is told when it has a security release."""

import json
import re
import shutil
import subprocess

import pytest

BUILD = "deploy/librdkafka/build.sh"


def build(root, *arguments, **env):
    return subprocess.run([root / BUILD, *arguments], env=env or None, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["path", "url"])
def test_an_archive_with_another_digest_is_not_unpacked(root, tmp_path, scheme):
    archive = tmp_path / "librdkafka.tar.gz"
    archive.write_bytes(b"something else")
    done = build(root, tmp_path / "prefix", f"{scheme}{archive}")
    assert done.returncode == 1
    assert re.search(r"has the SHA-256 [0-9a-f]{64}, which is not listed in \S+/sources\. Nothing was built", done.stderr)
    assert not list((tmp_path / "prefix").iterdir())


def test_a_failed_download_names_the_way_without_a_network(root, tmp_path):
    done = build(root, tmp_path / "prefix", f"file://{tmp_path}/missing")
    assert done.returncode == 1 and "Give build.sh the path of an archive" in done.stderr


def test_a_finished_build_is_kept_until_the_sources_change(root, librdkafka, tmp_path):
    assert build(root, librdkafka, "/nonexistent").returncode == 0
    shutil.copytree(root / "deploy/librdkafka", tmp_path / "deploy/librdkafka")
    shutil.copytree(librdkafka, tmp_path / "prefix")
    with open(tmp_path / "deploy/librdkafka/sources", "a", encoding="utf-8") as file:
        file.write("# another one\n")
    assert build(tmp_path, tmp_path / "prefix", "/nonexistent").returncode == 1
    assert not (tmp_path / "prefix/built-with").exists()


@pytest.fixture
def looked_up(root, tmp_path):
    """Runs the scheduled script for these releases and advisories, with these lines in `sources`."""
    for name in (".ci", "deploy/librdkafka"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy2(root / ".ci/librdkafka-security", tmp_path / ".ci")

    def look_up(sources, releases=(), ranges=()):
        (tmp_path / "deploy/librdkafka/sources").write_text(sources)
        notes = [{"tag_name": tag, "body": body, "html_url": f"https://example.org/{tag}"} for tag, body in releases]
        advisories = [{"ghsa_id": "GHSA-1", "html_url": "https://example.org/1",
                       "vulnerabilities": [{"vulnerable_version_range": text} for text in ranges]}] if ranges else []
        (tmp_path / "releases").write_text(json.dumps(notes))
        (tmp_path / "advisories").write_text(json.dumps(advisories))
        return subprocess.run([tmp_path / ".ci/librdkafka-security", tmp_path / "releases", tmp_path / "advisories"],
                              capture_output=True, text=True, timeout=60, check=False)

    return look_up


@pytest.mark.parametrize("sources, releases, ranges, named", [
    ("version 2.15.1\n", [("v2.15.2", "Fixes CVE-2027-1"), ("v2.16.0", "Faster"), ("v2.15.0", "CVE-2026-1")], [], ["v2.15.2"]),
    ("version 2.15.1\n", [("v2.15.10", "A security release")], [], ["v2.15.10"]),
    ("version 2.15.1\nreviewed 2.15.2\n", [("v2.15.2", "CVE-2027-1"), ("v2.15.3", "CVE-2027-2")], [], ["v2.15.3"]),
    ("version 2.15.1\n", [("v2.16.0-RC1", "CVE-2027-1"), ("v2.16.0", None)], [], []),
    ("version 2.15.1\n", [], [">= 2.0.0, < 2.15.2"], ["GHSA-1"]),
    ("version 2.15.1\n", [], ["< 2.15.1"], []),
    ("version 2.15.1\n", [], ["< 2.0.0", "= 2.15.1"], ["GHSA-1"]),
    ("version 2.15.1\n", [], ["all of them"], ["GHSA-1"]),
])
def test_a_security_release_or_an_advisory_fails_the_scheduled_job(looked_up, sources, releases, ranges, named):
    done = looked_up(sources, releases, ranges)
    assert done.returncode == (1 if named else 0)
    assert re.findall(r"^librdkafka (\S+)", done.stderr, re.M) == named


@pytest.mark.parametrize("version, code", [(None, 0), ("999.0.0", 1)], ids=["shipped", "later"])
def test_the_scheduled_job_knows_the_version_that_is_shipped(root, shipped_version, tmp_path, version, code):
    release = {"tag_name": f"v{version or shipped_version}", "body": "CVE-2027-1", "html_url": "https://example.org"}
    (tmp_path / "releases").write_text(json.dumps([release]))
    (tmp_path / "advisories").write_text("[]")
    done = subprocess.run([root / ".ci/librdkafka-security", tmp_path / "releases", tmp_path / "advisories"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
