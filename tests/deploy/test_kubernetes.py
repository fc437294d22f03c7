"""The manifests from kustomize: valid for Kubernetes' schemas, and fitting the program."""

import re
import shutil

import kubernetes_validate
import pytest
import yaml

from deploy.tools import call
from support import kustomize

# Keywords of libpq, which the documentation of the configuration does not repeat.
LIBPQ = {"INBOXD_POSTGRES_USER", "INBOXD_POSTGRES_PASSWORD"}

VERSIONS = ("1.30", "1.33", "1.37")  # native sidecars and `sleep` are on by default from the first on


@pytest.fixture(scope="module", params=["base", "migrate", "example", "consumers"])
def objects(request, deploy):
    return list(yaml.safe_load_all(kustomize.build(deploy / "kubernetes" / request.param)))


@pytest.fixture(scope="module")
def example(deploy):
    made = yaml.safe_load_all(kustomize.build(deploy / "kubernetes/example"))
    return {(item["kind"], item["metadata"]["name"]): item for item in made}


@pytest.fixture(scope="module")
def pod(example):
    return example["Deployment", "billing"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def sidecar(pod):
    (container,) = pod["initContainers"]
    return container


def test_the_component_adds_its_objects_to_an_overlay(deploy, tmp_path):
    """The overlay is beside a copy of the others."""
    shutil.copytree(deploy / "kubernetes", tmp_path / "kubernetes")
    overlay = tmp_path / "kubernetes/mine"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text("resources: [../example]\ncomponents: [../production]\nnamespace: billing\n")
    made = list(yaml.safe_load_all(kustomize.build(overlay)))
    assert {"Service", "ServiceMonitor", "NetworkPolicy", "PodDisruptionBudget"} <= {item["kind"] for item in made}
    (pod,) = [item["spec"]["template"]["metadata"]["labels"] for item in made if item["kind"] == "Deployment"]
    for item in made:
        if item["apiVersion"] != "monitoring.coreos.com/v1":
            kubernetes_validate.validate(item, "1.37", strict=True)
        if item["kind"] == "PodDisruptionBudget":
            assert item["spec"]["selector"]["matchLabels"].items() <= pod.items()


def pods(objects):
    return [item["spec"]["template"]["spec"] for item in objects if item["kind"] in ("Deployment", "Job")]


def containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def default(root, key):
    text = (root / "docs/configuration.md").read_text().partition(f"### `{key}`")[2]
    return re.search(r"- Default: `([^`]+)`", text)[1]


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_accept_them(objects, version):
    for item in objects:
        kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_refuse_misspelt_keys(example, version):
    item = yaml.safe_load(yaml.safe_dump(example["Deployment", "billing"]))
    item["spec"]["template"]["spec"]["initContainers"][0]["startupProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(item, version, strict=True)


def test_every_container_is_locked_down(objects):
    for spec in pods(objects):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for container in containers(spec):
            context = container["securityContext"]
            assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"],
                    context["capabilities"]) == (False, True, {"drop": ["ALL"]})
            assert {"memory"} <= set(container["resources"]["limits"])


def test_the_user_is_that_of_the_image(objects, deploy):
    user = re.search(r"^USER (\d+):(\d+)$", (deploy / "docker/Dockerfile").read_text(), re.M)
    for spec in pods(objects):
        context = spec["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == tuple(map(int, user.groups()))
        assert context["fsGroup"] == context["runAsGroup"]


def test_images_name_no_registry(objects):
    for spec in pods(objects):
        for container in containers(spec):
            assert "/" not in container["image"]


def test_it_is_a_native_sidecar_that_shares_its_socket(pod, sidecar, root):
    assert sidecar["restartPolicy"] == "Always"
    (service,) = pod["containers"]
    path = default(root, "socket.path")
    mounts = [{mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
              for container in (sidecar, service)]
    directory = path.rpartition("/")[0]
    assert mounts[0][directory] == mounts[1][directory]
    assert {"name": "INBOXD_SOCKET_PATH", "value": path} in service["env"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == mounts[0][directory]]
    assert "emptyDir" in volume


def test_probes_use_paths_of_the_program(sidecar, root):
    routes = set(re.findall(r'\{ "(/\w+)", answer_', (root / "src/http/http.c").read_text()))
    asked = {kind: sidecar[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["path"] for probe in asked.values()} <= routes
    assert [asked[kind]["path"] for kind in asked] == ["/livez", "/livez", "/readyz"]
    (port,) = sidecar["ports"]
    assert {probe["port"] for probe in asked.values()} == {port["name"]}
    (listen,) = [item["value"] for item in sidecar["env"] if item["name"] == "INBOXD_HTTP_LISTEN"]
    assert listen == f"0.0.0.0:{port['containerPort']}"


def test_the_grace_period_is_longer_than_a_stop(pod, root):
    (service,) = pod["containers"]
    handlers = service["lifecycle"]["preStop"]["sleep"]["seconds"]
    shutdown = seconds(default(root, "inbox.shutdown_timeout"))
    assert pod["terminationGracePeriodSeconds"] >= handlers + 2 * shutdown + 2


def test_environment_variables_are_known_to_the_program(objects, root):
    text = (root / "docs/configuration.md").read_text()
    for spec in pods(objects):
        for container in containers(spec):
            for item in container.get("env", []):
                known = item["name"] in text or item["name"] in LIBPQ
                assert known, item["name"]


@pytest.mark.parametrize("overlay", ["example", "consumers"])
def test_the_program_accepts_the_configuration(installed, deploy, overlay, tmp_path):
    made = yaml.safe_load_all(kustomize.build(deploy / "kubernetes" / overlay))
    (config,) = [item["data"]["inboxd.yaml"] for item in made if item["kind"] == "ConfigMap"]
    assert ("consumers" in yaml.safe_load(config)) == (overlay == "consumers")
    check_configuration(installed, config, tmp_path)


@pytest.mark.parametrize("path", ["compose/inboxd.yaml", "systemd/inboxd.yaml"])
def test_the_program_accepts_the_other_configurations(installed, deploy, path, tmp_path):
    check_configuration(installed, (deploy / path).read_text(), tmp_path)


def check_configuration(installed, text, tmp_path):
    """`status` reads the whole configuration. It must fail because there is no database, and not with exit code 2."""
    (tmp_path / "password").write_text("secret")
    text = re.sub(r"file:\S+", f"file:{tmp_path}/password", text)
    (tmp_path / "inboxd.yaml").write_text(re.sub(r"(?<=host: ).*", "127.0.0.1\n  port: 1", text))
    call(str(installed / "usr/bin/inboxd"), "status", "-c", str(tmp_path / "inboxd.yaml"), "--set",
         "postgres.host=127.0.0.1", "--set", "postgres.port=1", expected=3)


def test_an_upgrade_starts_with_everything_except_the_deployment(root, example):
    """The selector of the runbook excludes the Deployment, and the Job has everything that it needs."""
    label, value = re.search(r"kubectl apply -k OVERLAY -l '([^']+)!=([^']+)'",
                             (root / "docs/runbooks.md").read_text()).groups()
    first = {kind: item for (kind, _), item in example.items() if item["metadata"].get("labels", {}).get(label) != value}
    assert {kind for kind, _ in example} - set(first) == {"Deployment"}
    (container,) = first["Job"]["spec"]["template"]["spec"]["containers"]
    assert re.fullmatch(r"inboxd:\S+", container["image"])
    volumes = first["Job"]["spec"]["template"]["spec"]["volumes"]
    assert first["ConfigMap"]["metadata"]["name"] in [volume.get("configMap", {}).get("name") for volume in volumes]
    assert {item["metadata"]["namespace"] for item in first.values()} == {"billing"}
