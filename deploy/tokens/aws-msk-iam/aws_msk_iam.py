"""Tokens for Amazon MSK with IAM, by the signer library of AWS. AWS_REGION is the region of the cluster. The role comes from the usual
places: IRSA or Pod Identity of EKS, the task of ECS, the instance, or AWS_ACCESS_KEY_ID."""

import os

import botocore.session
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

import token_file


def make():
    region = os.environ.get("AWS_REGION", "")
    if not region:
        raise ValueError("AWS_REGION is not set: name the region of the cluster, for example eu-central-1")
    if botocore.session.Session().get_credentials() is None:
        raise ValueError("there are no AWS credentials: give the service account of the pod a role (IRSA or Pod Identity)")
    token, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, expires_at_ms, "inboxd"


if __name__ == "__main__":
    token_file.run(make)
