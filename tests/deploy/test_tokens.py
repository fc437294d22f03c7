"""The programs of deploy/tokens, without any cloud: signatures are computed again, and the identity provider is of the test."""

import base64
import hashlib
import hmac
import http.server
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import pytest
import yaml
from dockerfile_parse import DockerfileParser

from deploy.tools import call
from support.maven import cache
from support.sidecar import binary
from support.wait import eventually

pytestmark = pytest.mark.timeout(300)  # pip downloads the libraries once
PROGRAMS = {"aws-msk-iam": "aws_msk_iam.py", "gcp": "gcp.py"}
KEY, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+1"
AWS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SESSION, "AWS_REGION": "eu-central-1"}
EMAIL = "billing@example.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def place(root):
    return root / "deploy/tokens"


@pytest.fixture(scope="module")
def libraries(place):
    """libraries(cloud) -> the directory with what its requirements name, installed once into the cache."""
    def install(cloud):
        requirements = place / cloud / "requirements.txt"
        digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
        target = cache() / f"tokens-{cloud}-{digest}"
        if not target.is_dir():
            part = tempfile.mkdtemp(prefix="part-", dir=target.parent)
            call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", part, "-r", str(requirements))
            try:
                os.rename(part, target)
            except OSError:  # another process was faster
                shutil.rmtree(part)
        return target

    return install


@pytest.fixture
def start(place, libraries, tmp_path):
    """start(cloud, argument…, **environment) -> the running program, with nothing of this machine's clouds."""
    def run(cloud, *arguments, **env):
        paths = f"{libraries(cloud)}:{place}"
        return subprocess.Popen([sys.executable, place / cloud / PROGRAMS[cloud], *arguments], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env={
                                    "PATH": os.environ["PATH"], "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1",
                                    "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true",
                                    "TOKEN_FILE": str(tmp_path / "token"), **env})

    return run


@pytest.fixture
def google(tmp_path):
    """The environment of a service account whose token endpoint is this server's."""
    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            claims = json.loads(decoded(asked["assertion"][0].split(".")[1]))
            assert claims["iss"] == EMAIL and claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
            body = json.dumps({"access_token": "ya29.secret", "expires_in": 3600}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    key = call("openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-quiet")
    (tmp_path / "account.json").write_text(json.dumps({
        "type": "service_account", "client_email": EMAIL, "private_key": key, "private_key_id": "one", "project_id": "example",
        "token_uri": f"http://127.0.0.1:{server.server_address[1]}/token"}))
    yield {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json")}
    server.shutdown()
    server.server_close()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def quoted(text):
    return urllib.parse.quote(text, safe="-_.~")


def signature(url, secret, body):
    """Signature Version 4 in the query of a GET request, as AWS describes it. `body` stands for the body."""
    asked = dict(urllib.parse.parse_qsl(url.query))
    signed = {name: value for name, value in asked.items() if name not in ("X-Amz-Signature", "User-Agent")}
    query = "&".join(f"{quoted(name)}={quoted(signed[name])}" for name in sorted(signed))
    request = "\n".join(["GET", url.path, query, f"host:{url.netloc}", "", "host", body])
    scope = asked["X-Amz-Credential"].partition("/")[2]
    text = "\n".join(["AWS4-HMAC-SHA256", asked["X-Amz-Date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def test_the_test_computes_the_signature_that_aws_documents():
    """The presigned URL in "Authenticating Requests: Using Query Parameters" of the documentation of Amazon S3."""
    url = urllib.parse.urlsplit(
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524"
        "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host")
    assert signature(url, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "UNSIGNED-PAYLOAD") == \
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"


def test_a_token_for_msk_is_a_signed_request(start):
    out, err = start("aws-msk-iam", "--print", **AWS).communicate(timeout=60)
    made = json.loads(out)
    url = urllib.parse.urlsplit(decoded(made["token"]).decode())
    asked = dict(urllib.parse.parse_qsl(url.query))
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    assert asked["Action"] == "kafka-cluster:Connect" and asked["X-Amz-Security-Token"] == SESSION
    assert re.fullmatch(rf"{KEY}/\d{{8}}/eu-central-1/kafka-cluster/aws4_request", asked["X-Amz-Credential"])
    assert asked["X-Amz-Signature"] == signature(url, SECRET, hashlib.sha256(b"").hexdigest())
    assert made["expires_at_ms"] / 1000 - time.time() == pytest.approx(900, abs=60) and asked["X-Amz-Expires"] == "900"
    assert err == ""


def test_a_token_for_google_has_the_access_token_as_its_signature(start, google):
    out, _ = start("gcp", "--print", **google).communicate(timeout=60)
    made = json.loads(out)
    header, claims, access_token = map(decoded, made["token"].split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"} and access_token == b"ya29.secret"
    claims = json.loads(claims)
    assert (claims["iss"], claims["scope"], claims["sub"], made["principal"]) == ("Google", "kafka", EMAIL, EMAIL)
    assert claims["exp"] * 1000 == pytest.approx(made["expires_at_ms"], abs=1)
    assert claims["exp"] - time.time() == pytest.approx(3600, abs=60)


@pytest.mark.parametrize("cloud", PROGRAMS)
def test_the_file_is_written_and_accepted_by_inboxd(start, google, tmp_path, cloud):
    env = {**AWS, **google}
    assert start(cloud, "--check", **env).wait(60) == 1
    running = start(cloud, **env)
    file = tmp_path / "token"
    try:
        eventually(file.exists, timeout=60)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert start(cloud, "--check", **env).wait(60) == 0
    finally:
        running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    token = json.loads(file.read_text())["token"]
    assert running.returncode == 0 and "event=token_written" in err and token[:40] not in err
    assert not list(tmp_path.glob("*.new"))
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "topics": "t", "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "OAUTHBEARER", "oauth_token_file": file}
    done = subprocess.run([binary(), "check", *(word for name, value in settings.items() for word in ("--set", f"kafka.{name}={value}"))],
                          capture_output=True, text=True, timeout=60, check=False)
    assert "Connection refused" in done.stdout and "token cannot be used" not in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("cloud, env, words", [
    ("aws-msk-iam", {}, "AWS_REGION is not set"), ("aws-msk-iam", {"AWS_REGION": "eu-central-1"}, "there are no AWS credentials"),
    ("gcp", {"GOOGLE_APPLICATION_CREDENTIALS": "/none"}, "/none")], ids=["region", "aws", "gcp"])
def test_a_failure_says_what_is_missing_and_when_the_next_try_is(start, cloud, env, words):
    running = start(cloud, **env)
    line = running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 0
    assert "level=warn event=token_failed" in line and words in line and "retry_in_s=" in line and "token_left_s=0" in line
    running.communicate()


class Clock:
    """In place of the event that ends the program: notes each wait, and ends after the third."""

    def __init__(self):
        self.waits = []

    def is_set(self):
        return len(self.waits) == 3

    def wait(self, seconds):
        self.waits.append(seconds)


def test_a_token_is_renewed_at_80_percent_of_its_life_and_stays_when_the_next_one_fails(place, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("token_file", place / "token_file.py")
    token_file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(token_file)
    made = [("secret-one", (time.time() + 900) * 1000, "a"), OSError("no route"), ("secret-two", (time.time() + 10) * 1000, "a")]

    def make():
        if isinstance(made[0], Exception):
            raise made.pop(0)
        return made.pop(0)

    clock = Clock()
    token_file.keep(str(tmp_path / "token"), make, clock)
    assert clock.waits[0] == pytest.approx(720, abs=1) and all(0.5 <= wait <= 4 for wait in clock.waits[1:])
    assert json.loads((tmp_path / "token").read_text())["token"] == "secret-one"
    said = capsys.readouterr().err
    assert "OSError: no route" in said and "check the clock" in said and "secret" not in said


@pytest.mark.parametrize("cloud", PROGRAMS)
def test_the_image_is_not_root_has_a_health_check_and_what_it_runs(place, cloud):
    steps = {step["instruction"]: step["value"] for step in DockerfileParser(path=str(place / cloud / "Dockerfile")).structure}
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", steps["USER"])
    assert f"/app/{PROGRAMS[cloud]}" in steps["ENTRYPOINT"] and "--check" in steps["HEALTHCHECK"]
    assert all((place / source).exists() for source in steps["COPY"].split()[:-1])
    call(str(pathlib.Path(sys.executable).parent / "hadolint"), str(place / cloud / "Dockerfile"))


def test_the_values_of_the_chart_use_the_directory_of_the_image(deploy, place):
    values = yaml.safe_load((deploy / "helm/token.yaml").read_text())
    (container,) = values["pod"]["containers"]
    file = yaml.safe_load(values["config"])["kafka"]["oauth_token_file"]
    assert f'"TOKEN_FILE", "{file}"' in (place / "token_file.py").read_text()
    for mount in (*container["volumeMounts"], *values["sidecar"]["volumeMounts"]):
        assert file.startswith(mount["mountPath"] + "/") and mount["name"] == values["pod"]["volumes"][0]["name"]
