"""A temporary certificate authority, made with openssl, for servers with certificates."""

import os
import subprocess

from support import process


class Authority:
    """One CA in its own directory; `ca` is its certificate."""

    def __init__(self, name="test"):
        self.directory = process.scratch("ca")
        self.ca = os.path.join(self.directory, "ca.pem")
        self._key = os.path.join(self.directory, "ca.key")
        os.chmod(self.directory, 0o755)
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-days", "2", "-subj", f"/CN={name} CA", "-keyout", self._key, "-out", self.ca)

    def issue(self, *names):
        """(certificate, key) files of a server with these names: "DNS:localhost", "IP:127.0.0.1"."""
        start = os.path.join(self.directory, names[0].replace(":", "-"))
        extensions = f"{start}.ext"
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={','.join(names)}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-subj", "/CN=server", "-keyout", f"{start}.key", "-out", f"{start}.csr")
        self._openssl("x509", "-req", "-in", f"{start}.csr", "-CA", self.ca, "-CAkey", self._key,
                      "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", f"{start}.pem")
        return f"{start}.pem", f"{start}.key"

    def _openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise process.StartFailed(f"openssl {arguments[0]}: {done.stderr}")
