"""Files for the hosting platform: workflows, forms and templates; and the notes of a release."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from deploy.tools import call

SCHEMAS = {
    "workflows/ci.yml": "vendor.github-workflows",
    "workflows/nightly.yml": "vendor.github-workflows",
    "workflows/release.yml": "vendor.github-workflows",
    "workflows/upstream.yml": "vendor.github-workflows",
    "ISSUE_TEMPLATE/bug.yml": "vendor.github-issue-forms",
    "ISSUE_TEMPLATE/feature.yml": "vendor.github-issue-forms",
    "ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    "dependabot.yml": "vendor.dependabot",
}
LIBRARIES = ("python", "node", "go", "java")


@pytest.fixture(scope="module")
def github(root):
    return root / ".github"


@pytest.fixture(scope="module")
def workflows(github):
    """{name: workflow}. YAML 1.1 reads the key `on` as true."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in (github / "workflows").iterdir()}


def jobs(workflows):
    return [job for workflow in workflows.values() for job in workflow["jobs"].values()]


def steps(workflows):
    return [step for job in jobs(workflows) for step in job["steps"]]


def scripts(workflow):
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def check_schema(schema, path):
    return subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)],
                          capture_output=True, text=True, timeout=60, check=False)


def test_a_warning_ends_a_build_only_in_ci(root):
    """A user's compiler may warn about more than those of CI. CI passes -Dwerror=true itself."""
    options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", str(root / "meson.build")],
                                        capture_output=True, text=True, timeout=60, check=True).stdout)
    assert next(option["value"] for option in options if option["name"] == "werror") is False


def test_every_file_has_a_schema(github):
    there = {str(path.relative_to(github)) for path in github.rglob("*.yml")}
    assert there == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_accepts_the_file(github, name):
    done = check_schema(SCHEMAS[name], github / name)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name, right, wrong", [
    ("workflows/ci.yml", "runs-on:", "run-on:"), ("ISSUE_TEMPLATE/bug.yml", "type: dropdown", "type: menu"),
])
def test_the_schema_refuses_misspelt_keys(github, tmp_path, name, right, wrong):
    text = (github / name).read_text()
    assert right in text
    (tmp_path / "wrong.yml").write_text(text.replace(right, wrong))
    assert check_schema(SCHEMAS[name], tmp_path / "wrong.yml").returncode == 1


def test_ci_runs_the_local_script(workflows):
    assert workflows["ci"][True] == {"push": {"branches": ["main"]}, "pull_request": None}
    assert ".ci/run" in scripts(workflows["ci"])


def suites_of(path, variable):
    """The words of an array of a shell script."""
    return set(re.search(rf"^{variable}=\((.*)\)$", path.read_text(), re.M)[1].split())


def test_each_suite_runs_for_each_change_or_nightly(workflows, root):
    """All but the benchmark, which needs a quiet machine."""
    default = suites_of(root / "tests/run.sh", "default_suites")
    every = (suites_of(root / "tests/run.sh", "all_suites") | default) - {'"${default_suites[@]}"'}
    of_each_change = set(re.search(r"^\tset -- (.*)$", (root / ".ci/run").read_text(), re.M)[1].split())
    nightly = workflows["nightly"]["jobs"]["suite"]
    assert nightly["steps"][-1]["run"] == ".ci/run ${{ matrix.suite }}"
    assert every - of_each_change - set(nightly["strategy"]["matrix"]["suite"]) == {"bench"}
    assert workflows["nightly"][True]["schedule"]


def test_a_tag_builds_everything_before_it_is_published(workflows):
    release = workflows["release"]
    assert release[True]["push"] == {"tags": ["v*"]}
    publish = release["jobs"]["publish"]
    assert set(publish["needs"]) == set(release["jobs"]) - {"publish"}
    assert publish["if"] == "github.ref_type == 'tag'"


def test_a_release_is_built_as_documented(workflows, root):
    document = (root / "docs/deployment.md").read_text()
    text = "\n".join(scripts(workflows["release"]))
    for command in ("docker build -f deploy/docker/Dockerfile -t inboxd:", "dpkg-buildpackage -us -uc -b"):
        assert command in text and command in document


def test_only_one_job_can_write_and_only_releases(workflows):
    assert [workflow["permissions"] for workflow in workflows.values()] == [{"contents": "read"}] * len(workflows)
    asking = {name: job["permissions"] for workflow in workflows.values() for name, job in workflow["jobs"].items()
              if "permissions" in job}
    assert asking == {"publish": {"contents": "write"}}
    for step in steps(workflows):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_actions_are_pinned_to_a_commit_with_its_version(github):
    pins = {}
    for path in (github / "workflows").iterdir():
        used = re.findall(r"^ *- uses: (.*)$", path.read_text(), re.M)
        assert used
        for line in used:
            action, commit, version = re.fullmatch(r"([\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", line).groups()
            assert pins.setdefault(action, (commit, version)) == (commit, version)


def test_files_named_in_scripts_exist(workflows, root):
    named = set()
    for workflow in workflows.values():
        for script in scripts(workflow):
            call("bash", "-n", "-c", script)
            named |= set(re.findall(r"(?<![\w./$-])(?!dist/)\.?[\w-]+(?:/[\w.-]+)+", script))
    assert {".ci/run", ".ci/release-notes", "deploy/docker/Dockerfile", "deploy/helm/inboxd"} <= named
    for name in named:
        assert (root / name).exists(), name
        assert not name.startswith(".ci/") or os.access(root / name, os.X_OK), name


def test_jobs_have_a_time_limit(workflows):
    for name, workflow in workflows.items():
        assert all(job["timeout-minutes"] <= (300 if name == "nightly" else 60) for job in workflow["jobs"].values())


def test_files_named_in_forms_exist(github, root):
    for path in github.rglob("*"):
        if path.is_file():
            for name in re.findall(r"\b[A-Z]+\.md\b|docs/[\w/.]*\w", path.read_text()):
                assert (root / name).exists(), f"{path.name}: {name}"


@pytest.fixture(scope="module")
def version(root):
    return re.search(r"version: '([^']+)'", (root / "meson.build").read_text())[1]


@pytest.fixture
def release(checkout, version, tmp_path):
    """A tree whose CHANGELOG has a section for its version."""
    target = tmp_path / "inboxd"
    for name in (".ci", "debian", "deploy", "docs", "handlers"):
        shutil.copytree(checkout / name, target / name)
    shutil.copy2(checkout / "meson.build", target)
    (target / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [{version}] - 2026-01-02\n\n"
                                         "### Added\n\n- This.\n\n## [0.0.1] - 2026-01-01\n\n- Before.\n")
    for library in LIBRARIES:
        changelog = target / "handlers" / library / "CHANGELOG.md"
        changelog.write_text(f"# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2026-01-02\n\n- This.\n")
    return target


def notes(release, tag):
    return subprocess.run([release / ".ci/release-notes", tag], capture_output=True, text=True, timeout=60, check=False)


def test_the_notes_of_a_release_are_its_section_of_the_changelog(release, version):
    done = notes(release, f"v{version}")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "### Added\n\n- This.", "")


@pytest.mark.parametrize("tag", ["v9.9.9", "9.9.9", "v9.9", "v9.9.9-rc1", ""])
def test_another_tag_is_refused(release, tag):
    done = notes(release, tag)
    assert done.returncode == 1 and done.stdout == ""


@pytest.mark.parametrize("file", [
    "meson.build", "debian/changelog", "deploy/docker/Dockerfile", "deploy/compose/compose.yaml", "docs/deployment.md",
    "deploy/kubernetes/example/kustomization.yaml", "deploy/helm/inboxd/Chart.yaml", "deploy/helm/inboxd/README.md",
    "handlers/python/src/inboxd/_version.py", "handlers/node/package.json", "handlers/node/src/version.ts", "handlers/go/version.go",
    "handlers/go/README.md", "handlers/java/pom.xml", "handlers/java/README.md", "handlers/java/modules.xml", "handlers/java/spring/pom.xml",
    "handlers/java/src/main/java/io/inboxd/Version.java", "CHANGELOG.md",
    *[f"handlers/{library}/CHANGELOG.md" for library in LIBRARIES],
])
def test_a_file_of_another_version_is_named(release, version, file):
    text = (release / file).read_text()
    assert version in text
    (release / file).write_text(text.replace(version, "9.9.9"))
    done = notes(release, f"v{version}")
    assert done.returncode == 1 and file in done.stderr and done.stdout == ""
