"""Tokens for the Managed Service for Apache Kafka of Google Cloud, by Google's library, from the application default credentials: a
workload identity, the instance, or the file of GOOGLE_APPLICATION_CREDENTIALS.

The token has the form of a JSON Web Token whose signature is the access token:
https://cloud.google.com/managed-service-for-apache-kafka/docs/authentication-kafka
"""

import base64
import datetime
import json
import time

import google.auth
import google.auth.transport.requests

import token_file

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


def encode(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def kafka_token(access_token, expires_at, email, now):
    """`expires_at` and `now` are seconds since 1970."""
    header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    claims = {"exp": expires_at, "iat": now, "iss": "Google", "scope": "kafka", "sub": email}
    return ".".join(encode(part) for part in (json.dumps(header), json.dumps(claims), access_token))


def make():
    credentials, _ = google.auth.default(scopes=SCOPES)
    credentials.refresh(google.auth.transport.requests.Request())
    email = getattr(credentials, "service_account_email", None)
    if not email:
        raise ValueError("the credentials are not of a service account: use a workload identity, or the key of a service account")
    expires_at = credentials.expiry.replace(tzinfo=datetime.timezone.utc).timestamp()
    return kafka_token(credentials.token, expires_at, email, time.time()), expires_at * 1000, email


if __name__ == "__main__":
    token_file.run(make)
