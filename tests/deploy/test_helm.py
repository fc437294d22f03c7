"""The chart: Helm creates the same objects as kustomize creates from the base and the example."""

import copy
import json
import os
import re
import shutil

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy.tools import call
from support import gomodule, helm, kustomize

pytestmark = pytest.mark.timeout(gomodule.BUILD_SECONDS)  # the first one may build Helm

# What Helm adds or names in its own way.
LABELS = {"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/name"}
ANNOTATIONS = {"helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy", "checksum/config"}

EVERYTHING = """
config: "kafka: {}"
files: {kafka-ca.pem: certificate}
secrets: {sidecar: a, owner: b}
image: {repository: registry/inboxd, tag: "1"}
labels: {team: payments}
sidecar:
  env: {INBOXD_LOG_FORMAT: logfmt, SECRET: {valueFrom: {secretKeyRef: {name: s, key: k}}}}
  readiness: false
  resources: {limits: {memory: 1Gi}}
  volumeMounts: [{name: more, mountPath: /more}]
service:
  image: {repository: registry/billing, tag: "2"}
  replicas: 5
  env: {A: b}
  preStopSeconds: 10
  resources: {limits: {memory: 2Gi}}
  securityContext: {runAsUser: 1000}
  volumeMounts: [{name: more, mountPath: /more}]
  container: {args: [serve], ports: [{name: http, containerPort: 8080}]}
pod:
  annotations: {a: b}
  terminationGracePeriodSeconds: 90
  securityContext: {fsGroup: 1000660000}
  volumes: [{name: more, emptyDir: {}}]
  containers: [{name: more, image: more}]
  spec: {nodeSelector: {disk: fast}, imagePullSecrets: [{name: pull}]}
serviceAccount: {annotations: {a: b}}
migrate:
  roles: shop
  grants: {sidecar: [shop_inbox], service: [shop, web]}
  env: {INBOXD_POSTGRES_USER: owner}
  resources: {limits: {memory: 128Mi}}
  spec: {imagePullSecrets: [{name: pull}]}
serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
networkPolicy:
  enabled: true
  scrapers: [{podSelector: {matchLabels: {app: prometheus}}}]
  ingress: [{ports: [{port: 8080}]}]
podDisruptionBudget: {enabled: true, maxUnavailable: 2}
"""


@pytest.fixture(scope="module")
def chart(deploy):
    return deploy / "helm/inboxd"


def example_of(deploy, overlay):
    return ["-f", deploy / "helm/example.yaml", "--set-file", f"config={deploy}/kubernetes/{overlay}/inboxd.yaml"]


@pytest.fixture(scope="module")
def example(deploy):
    """The arguments of the example."""
    return example_of(deploy, "example")


@pytest.fixture
def everything(tmp_path):
    (tmp_path / "values.yaml").write_text(EVERYTHING)
    return ["-f", tmp_path / "values.yaml"]


def template(chart, *arguments):
    done = helm.run("template", "billing", chart, "--kube-version", "1.30", *arguments)
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def one(objects, kind):
    (found,) = [item for item in objects if item["kind"] == kind and not temporary(item)]
    return found


def temporary(item):
    """The ConfigMap that exists while the migration runs."""
    return item["kind"] == "ConfigMap" and "helm.sh/hook" in item["metadata"].get("annotations", {})


def names(objects):
    """{(kind, name of an object): a name that does not depend on the tool}. There is one object of each kind."""
    return {(item["kind"], item["metadata"]["name"]): f"the {item['kind']}" for item in objects}


def normal(objects):
    """{kind: the object, without the differences between the two tools}."""
    known = names(objects)
    made = {}
    for item in copy.deepcopy(objects):
        if temporary(item):
            assert item["data"] == one(objects, "ConfigMap")["data"]
            continue
        item["metadata"]["name"] = known[item["kind"], item["metadata"]["name"]]
        item["metadata"].pop("namespace", None)
        drop(item["metadata"], "labels", LABELS)
        drop(item["metadata"], "annotations", ANNOTATIONS)
        if "template" in item.get("spec", {}):
            pod = item["spec"]["template"]
            drop(item["spec"].get("selector", {}), "matchLabels", LABELS)
            drop(pod.setdefault("metadata", {}), "labels", LABELS)
            drop(pod["metadata"], "annotations", ANNOTATIONS)
            normal_pod(pod["spec"], known)
        assert item["kind"] not in made
        made[item["kind"]] = item
    return made


def drop(holder, key, unwanted):
    left = {name: value for name, value in holder.pop(key, {}).items() if name not in unwanted}
    if left:
        holder[key] = left


def normal_pod(spec, known):
    if "serviceAccountName" in spec:
        spec["serviceAccountName"] = known["ServiceAccount", spec["serviceAccountName"]]
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        container["env"] = {variable.pop("name"): variable for variable in container["env"]}
    for volume in spec["volumes"]:
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            volume["configMap"]["name"] = known.get(("ConfigMap", name), name)


def kustomized(deploy, *directories):
    return [item for name in directories for item in yaml.safe_load_all(kustomize.build(deploy / "kubernetes" / name))]


def without_version(objects, version):
    """The base leaves the tag of the image to the overlay."""
    return yaml.safe_load_all(yaml.safe_dump_all(objects).replace(f"image: inboxd:{version}\n", "image: inboxd\n"))


def test_the_defaults_equal_the_kustomize_base_and_migration(chart, deploy):
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    made = list(without_version(template(chart), version))
    assert normal(made) == normal(kustomized(deploy, "base", "migrate"))


@pytest.mark.parametrize("overlay", ["example", "consumers"])
def test_the_example_equals_the_kustomize_example(chart, deploy, overlay):
    assert normal(template(chart, *example_of(deploy, overlay))) == normal(kustomized(deploy, overlay))


@pytest.mark.parametrize("change", [
    "sidecar.resources.limits.memory=1Gi", "sidecar.readiness=false", "service.replicas=1", "secrets.owner=other",
    "configMap=other", "labels.team=a", "pod.annotations.a=b", "migrate.enabled=false", "sidecar.env.INBOXD_LOG_FORMAT=text",
    "pod.securityContext.fsGroup=1", "service.image.repository=other", "pod.terminationGracePeriodSeconds=61",
])
def test_the_comparison_sees_a_difference(chart, change):
    assert normal(template(chart, "--set", change)) != normal(template(chart))


def test_helm_lint_finds_nothing(chart, example, everything):
    for arguments in ([], example, everything):
        done = helm.run("lint", "--strict", chart, *arguments)
        assert done.returncode == 0 and "[WARNING]" not in done.stdout, done.stdout + done.stderr


def test_the_schemas_of_kubernetes_accept_every_option(chart, everything):
    for item in template(chart, *everything):
        if item["apiVersion"] != "monitoring.coreos.com/v1":  # of an operator
            kubernetes_validate.validate(item, "1.37", strict=True)


def test_every_option_is_used(chart, everything):
    """Without any one of them the result differs."""
    values = yaml.safe_load(EVERYTHING)
    everything_made = template(chart, *everything)
    for path in paths(values):
        # `files` need a configuration.
        fewer = without(values, path) if path != ("config",) else without(without(values, path), ("files",))
        everything[1].write_text(yaml.safe_dump(fewer))
        assert template(chart, *everything) != everything_made, path


def test_every_value_has_a_test(chart):
    default = yaml.safe_load((chart / "values.yaml").read_text())
    untried = {path[:2] for path in paths(default)} - {path[:2] for path in paths(yaml.safe_load(EVERYTHING))}
    assert untried == {("configMap",), ("service", "enabled"), ("migrate", "enabled")}  # by other tests


def paths(values):
    """The paths of values with one and with two levels."""
    for key, value in values.items():
        if isinstance(value, dict) and key not in ("files", "labels"):
            yield from ((key, inner) for inner in value)
        else:
            yield (key,)


def without(values, path):
    fewer = copy.deepcopy(values)
    holder = fewer
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return fewer


@pytest.mark.parametrize("wrong", [
    "imag.tag=1", "service.replicas=many", "sidecar.env.A.b=c", "sidecar.env.INBOXD_INBOX_INSTANCE=a", "files.a=b",
    "pod.spec.containers=a", "service.container.image=a", "service.image.repository=",
])
def test_the_schema_refuses_wrong_values(chart, wrong):
    done = helm.run("template", "billing", chart, "--kube-version", "1.30", "--set", wrong)
    assert done.returncode == 1 and "values don't meet the specifications of the schema" in done.stderr


def test_the_schema_is_valid_and_describes_every_value(chart):
    schema = json.loads((chart / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    described = set(schema["properties"]) - {"global"}  # Helm's own
    assert described == set(yaml.safe_load((chart / "values.yaml").read_text()))


def test_the_migration_uses_the_new_configuration_before_other_changes(chart, example):
    objects = template(chart, *example)
    job = one(objects, "Job")
    hooks = [item for item in objects if "helm.sh/hook" in item["metadata"].get("annotations", {})]
    assert {item["metadata"]["annotations"]["helm.sh/hook"] for item in hooks} == {"pre-install,pre-upgrade"}
    weights = {item["kind"]: int(item["metadata"]["annotations"].get("helm.sh/hook-weight", 0)) for item in hooks}
    assert weights["ConfigMap"] < weights["Job"]
    spec = job["spec"]["template"]["spec"]
    used = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
    assert used == [item["metadata"]["name"] for item in hooks if item["kind"] == "ConfigMap"]
    assert "serviceAccountName" not in spec  # it does not exist yet


def test_the_optional_objects_equal_the_kustomize_component(chart, deploy):
    """Apart from names and labels."""
    made = {item["kind"]: item["spec"] for item in template(chart, "-f", deploy / "helm/secure.yaml")
            if item["kind"] in ("Service", "ServiceMonitor", "NetworkPolicy", "PodDisruptionBudget")}
    files = [deploy / f"kubernetes/production/{name}.yaml" for name in ("servicemonitor", "networkpolicy", "poddisruptionbudget")]
    wanted = {item["kind"]: item["spec"] for file in files for item in yaml.safe_load_all(file.read_text())}
    assert set(made) == {"Service", "ServiceMonitor", "NetworkPolicy", "PodDisruptionBudget"}
    assert without_release(made) == wanted


def without_release(value):
    if isinstance(value, list):
        return [without_release(item) for item in value]
    if not isinstance(value, dict):
        return "service" if value == "billing" else value
    return {key: without_release(item) for key, item in value.items() if key != "app.kubernetes.io/instance"}


def test_the_optional_objects_are_those_of_its_own_pods(chart, deploy):
    objects = template(chart, "-f", deploy / "helm/secure.yaml")
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert one(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= labels
    assert one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    service = one(objects, "Service")
    assert service["spec"]["selector"].items() <= labels
    assert one(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_the_migration_grants_the_roles(chart, everything):
    (container,) = one(template(chart, *everything), "Job")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["migrate", "--roles=shop", "--grant=service=shop", "--grant=service=web", "--grant=sidecar=shop_inbox"]


def test_the_migration_needs_no_secret_of_kafka(chart, deploy, installed, tmp_path):
    """With TLS and passwords: the Job has the secret of the owner only. It must fail because there is no database (3), not with 2."""
    objects = template(chart, "-f", deploy / "helm/secure.yaml")
    (container,) = one(objects, "Job")["spec"]["template"]["spec"]["containers"]
    (tmp_path / "owner-password").write_text("secret")
    here = one(objects, "ConfigMap")["data"]["inboxd.yaml"].replace("/run/secrets/inboxd", str(tmp_path))
    (tmp_path / "inboxd.yaml").write_text(here.replace("postgres.billing.svc", "127.0.0.1\n  port: 1"))
    env = {item["name"]: item["value"].replace("/run/secrets/inboxd", str(tmp_path)) for item in container["env"]}
    call(str(installed / "usr/bin/inboxd"), *container["args"], "-c", str(tmp_path / "inboxd.yaml"), expected=3, env={**os.environ, **env})
    sidecar = call(str(installed / "usr/bin/inboxd"), "check", "-c", str(tmp_path / "inboxd.yaml"), expected=2)
    assert "ok" not in sidecar


def test_the_deployment_selects_only_its_own_pods(chart, example):
    objects = template(chart, *example)
    deployment, job = one(objects, "Deployment"), one(objects, "Job")
    selected = deployment["spec"]["selector"]["matchLabels"].items()
    assert selected <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert not selected <= job["spec"]["template"]["metadata"]["labels"].items()


def test_a_changed_configuration_replaces_the_pods(chart):
    pods = [one(template(chart, "--set", change), "Deployment")["spec"]["template"]
            for change in ("config=a", "config=b", "config=a,files.c=d")]
    assert pods[0] != pods[1] and pods[0] != pods[2]


def test_a_long_release_name_gives_valid_kubernetes_names(chart):
    done = helm.run("template", "a" * 53, chart, "--kube-version", "1.30", "--set", "config=a")
    for item in yaml.safe_load_all(done.stdout):
        assert len(item["metadata"]["name"]) <= 63


def blocks(text):
    return re.findall(r"```(\w+)\n(.*?)```", text, re.S)


def test_a_parent_chart_creates_the_same_pod(chart, deploy, tmp_path):
    """The parent chart of the README."""
    for _, block in blocks((chart / "README.md").read_text()):
        if block.startswith("# "):
            file = tmp_path / "billing" / block.partition("\n")[0].removeprefix("# ")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block)
    with open(tmp_path / "billing/Chart.yaml", "a", encoding="utf-8") as file:
        file.write("apiVersion: v2\nname: billing\nversion: 1.0.0\n")
    shutil.copytree(chart, tmp_path / "inboxd")
    done = helm.run("dependency", "update", "--skip-refresh", tmp_path / "billing")
    assert done.returncode == 0, done.stderr
    objects = template(tmp_path / "billing", "--set", "inboxd.config=a")
    assert sorted(item["kind"] for item in objects) == ["ConfigMap", "ConfigMap", "Deployment", "Job"]
    made = normal(objects)["Deployment"]["spec"]["template"]["spec"]
    base = normal(kustomized(deploy, "base"))["Deployment"]["spec"]["template"]["spec"]
    assert made["volumes"][1].pop("configMap") == {"name": "the ConfigMap"}
    assert base["volumes"][1].pop("configMap") == {"name": "inboxd-config"}
    made["initContainers"][0]["image"] = made["initContainers"][0]["image"].partition(":")[0]
    for part in ("initContainers", "volumes", "securityContext", "terminationGracePeriodSeconds"):
        assert made[part] == base[part]
    for part in ("env", "volumeMounts"):
        assert made["containers"][0][part] == base["containers"][0][part]


def test_the_commands_of_the_readme_work(chart, root, monkeypatch):
    """Without a cluster."""
    monkeypatch.chdir(root)
    shell = "".join(block for kind, block in blocks((chart / "README.md").read_text()) if kind == "sh")
    commands = [line.split() for line in shell.replace("\\\n", " ").splitlines() if line.startswith("helm ")]
    assert [words[1] for words in commands] == ["install", "upgrade"]
    for words in commands:
        done = helm.run("template", *words[2:], "--kube-version", "1.30")
        assert done.returncode == 0, done.stderr


def test_the_values_for_a_token_add_a_container_and_its_volume(chart, deploy, example):
    objects = template(chart, *example[:2], "-f", deploy / "helm/token.yaml")
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["service", "token"]
    assert "token" in [mount["name"] for mount in pod["initContainers"][0]["volumeMounts"]]
    for item in objects:
        kubernetes_validate.validate(item, "1.37", strict=True)
