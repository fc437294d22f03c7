"""A PostgreSQL and a Kafka that accept only TLS with a password, listeners of this Kafka that accept only tokens, and an identity
provider that issues them."""

import base64
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time

from confluent_kafka.admin import (AclBinding, AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType,
                                   ResourceType, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion)

from support import process
from support.kafka import Kafka, QUICK
from support.postgres import Postgres, unprivileged_user
from support.wait import eventually

USER = "billing"
# After this time the broker ends a connection that was made with a token, unless the client has logged in again. librdkafka does so
# after 90 % of it, and a second log-in within a second is an error.
SESSION_MS = 1500


def _encode(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(life_s, user=USER):
    """An unsigned JSON Web Token. A negative life: it has ended, and the broker refuses it."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now - 3600, "exp": now + life_s, "jti": os.urandom(4).hex()})
    return ".".join(_encode(json.dumps(part).encode()) for part in parts) + "."


class IdentityProvider:
    """An HTTP server with a token endpoint for client credentials (`/token`) and with its public key (`/keys`). `answer` replaces
    tokens: a function that gets the handler of the request. The signature of a `forged` token is wrong. `given` has every token, and `asked` every body of a request."""

    AUDIENCE, ISSUER, SECRET = "kafka", "https://idp.example", "client-secret-51d0"

    def __init__(self):
        self.key = os.path.join(process.scratch("idp"), "key.pem")
        self._openssl("genrsa", "-out", self.key, "2048")
        self.life_s, self.forged, self.answer = 600, False, None
        self.given, self.asked = [], []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._make_class())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def reset(self):
        self.life_s, self.forged, self.answer = 600, False, None
        self.given.clear()
        self.asked.clear()

    @staticmethod
    def _openssl(*arguments, data=None):
        return subprocess.run(["openssl", *arguments], input=data, capture_output=True, timeout=30, check=True).stdout

    def _keys(self):
        modulus = self._openssl("rsa", "-in", self.key, "-modulus", "-noout").decode().strip().partition("=")[2]
        return {"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "e": "AQAB",
                          "n": _encode(bytes.fromhex(modulus))}]}

    def _token(self):
        now = int(time.time())
        claims = {"iss": self.ISSUER, "aud": self.AUDIENCE, "sub": USER, "iat": now, "exp": now + self.life_s,
                  "jti": os.urandom(4).hex()}
        text = ".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one"}, claims))
        signature = self._openssl("dgst", "-sha256", "-sign", self.key, data=(text + "x" * self.forged).encode())
        self.given.append(f"{text}.{_encode(signature)}")
        return {"access_token": self.given[-1], "token_type": "Bearer", "expires_in": self.life_s}

    def _make_class(self):
        provider = self

        class Endpoint(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, json.dumps(provider._keys()).encode())

            def do_POST(self):
                provider.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                if provider.answer is not None:
                    provider.answer(self)
                else:
                    self.reply(200, json.dumps(provider._token()).encode())

            def reply(self, status, body):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Endpoint


class SecurePostgres:
    """Its certificate is for the name localhost only. Superusers connect to the Unix socket."""

    def __init__(self, authority):
        self.server = Postgres(settings=self._settings(authority))
        self.server.start()
        self.server.hba("hostssl all all 127.0.0.1/32 scram-sha-256")

    def _settings(self, authority):
        certificate, key = authority.issue("DNS:localhost")
        directory = process.scratch("pgkeys")
        os.chmod(directory, 0o755)
        files = {}
        for setting, source in (("ssl_cert_file", certificate), ("ssl_key_file", key)):
            files[setting] = os.path.join(directory, os.path.basename(source))
            shutil.copy(source, files[setting])
            os.chmod(files[setting], 0o600)
            process.give_to(files[setting], unprivileged_user())
        return {"ssl": "on", **files}

    def conninfo(self, dbname="postgres"):
        """The connection string of the superuser on the Unix socket."""
        return f"host={self.server.directory} port={self.server.port} user=postgres dbname={dbname}"

    def password(self, password):
        """Creates the user or changes its password."""
        import psycopg

        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            exists = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [USER]).fetchone() is not None
            connection.execute(f"{'ALTER' if exists else 'CREATE'} ROLE {USER} LOGIN PASSWORD '{password}'")

    def database(self, name):
        import psycopg

        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" OWNER {USER}')
        return name

    def stop(self):
        self.server.stop()


class SecureKafka(Kafka):
    """One open listener for tests, one with TLS, PLAIN and SCRAM, whose certificate is for localhost only, and one with
    OAUTHBEARER, which ends connections after SESSION_MS. Another one accepts only tokens of the identity provider. A topic with an ACL is open only to those whom its ACLs permit; the tests
    are superusers. A last listener is open and advertises a port at which nobody listens."""

    def __init__(self, authority, password, provider):
        self.secure_port = process.free_port()
        self.token_port, self.oidc_port = process.free_port(), process.free_port()
        self.lost_port, self.dead_port = process.free_port(), process.free_port()
        port = process.free_port()
        controller = process.free_port()
        super().__init__(port=port, options=(*QUICK, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/keys"), properties={
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{self.secure_port},"
                         f"TOKEN://127.0.0.1:{self.token_port},LOST://127.0.0.1:{self.lost_port},"
                         f"OIDC://127.0.0.1:{self.oidc_port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://localhost:{self.secure_port},"
                                    f"TOKEN://127.0.0.1:{self.token_port},LOST://127.0.0.1:{self.dead_port},"
                                    f"OIDC://127.0.0.1:{self.oidc_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,LOST:PLAINTEXT,"
                                              "TOKEN:SASL_PLAINTEXT,OIDC:SASL_PLAINTEXT",
            "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.token.oauthbearer.connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.token.oauthbearer.sasl.jaas.config":
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            "listener.name.token.oauthbearer.sasl.server.callback.handler.class":
                "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
            "listener.name.oidc.sasl.enabled.mechanisms": "OAUTHBEARER",
            **{f"listener.name.oidc.oauthbearer.{name}": value for name, value in {
                "connections.max.reauth.ms": str(SESSION_MS),
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
                "sasl.server.callback.handler.class":
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            }.items()},
            # The default of Kafka 4.1 checks no signature.
            "listener.name.oidc.sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
            "listener.name.oidc.sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
            "listener.name.oidc.sasl.oauthbearer.expected.audience": provider.AUDIENCE,
            "listener.name.oidc.sasl.oauthbearer.expected.issuer": provider.ISSUER,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.secure.scram-sha-256.sasl.jaas.config":
                "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": self._keystore(authority),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true", "super.users": "User:ANONYMOUS",
        })
        self.plain(password)

    def _keystore(self, authority):
        certificate, key = authority.issue("DNS:localhost")
        path = os.path.join(process.scratch("kafkakeys"), "server.pem")
        pathlib.Path(path).write_text(pathlib.Path(key).read_text() + pathlib.Path(certificate).read_text())
        return path

    def plain(self, password):
        """Gives the user this password for PLAIN, from the next start on."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        with open(self._properties, "a", encoding="utf-8") as file:  # the last one counts
            file.write(f'listener.name.secure.plain.sasl.jaas.config={module} required user_{USER}="{password}";\n')

    def allow(self, kind, name, *operations, user=USER):
        """An ACL for a resource of any kind."""
        bindings = [AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
                    for operation in operations]
        for done in self.admin().create_acls(bindings).values():
            done.result(30)

    def forget(self, kind, name):
        everybody = AclBindingFilter(kind, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY)
        for done in self.admin().delete_acls([everybody]).values():
            done.result(30)

    def permit(self, topic, *operations, user=USER):
        bindings = [self._acl(AclBinding, topic, user, operation, AclPermissionType.ALLOW) for operation in operations]
        for done in self.admin().create_acls(bindings).values():
            done.result(30)
        eventually(lambda: self._permitted(topic, user) >= set(operations), what=f"the ACLs of {topic}")

    def revoke(self, topic, *operations):
        filters = [self._acl(AclBindingFilter, topic, USER, operation, AclPermissionType.ANY) for operation in operations]
        for done in self.admin().delete_acls(filters).values():
            done.result(30)
        eventually(lambda: not self._permitted(topic, USER) & set(operations), what=f"the ACLs of {topic} to be gone")

    def _permitted(self, topic, user):
        found = self.admin().describe_acls(self._acl(AclBindingFilter, topic, user, AclOperation.ANY, AclPermissionType.ANY))
        return {acl.operation for acl in found.result(30)}

    @staticmethod
    def _acl(kind, topic, user, operation, permission):
        return kind(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)

    def scram(self, password):
        """Creates the user for SCRAM or changes its password."""
        change = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode())
        self.admin().alter_user_scram_credentials([change])[USER].result(30)


class CertificateKafka(Kafka):
    """One open listener for tests, and one with TLS that wants a certificate of a client."""

    def __init__(self, authority):
        self.tls_port = process.free_port()
        port, controller = process.free_port(), process.free_port()
        directory = process.scratch("kafkakeys")
        self._trusted = pathlib.Path(directory, "trusted.pem")
        keystore = pathlib.Path(directory, "server.pem")
        certificate, key = authority.issue("DNS:localhost")
        keystore.write_text(pathlib.Path(key).read_text() + pathlib.Path(certificate).read_text())
        super().__init__(port=port, properties={
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},TLS://127.0.0.1:{self.tls_port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},TLS://localhost:{self.tls_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            **{f"listener.name.tls.ssl.{name}": value for name, value in {
                "client.auth": "required", "keystore.type": "PEM", "keystore.location": keystore, "truststore.type": "PEM",
                "truststore.location": self._trusted}.items()},
        })

    def trust(self, *authorities):
        """Accepts clients of these authorities, from the next start on."""
        self._trusted.write_text("".join(pathlib.Path(authority.ca).read_text() for authority in authorities))
