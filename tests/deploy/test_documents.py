"""The program accepts the commands of the documentation."""

import re
import shlex

import pytest

from deploy.tools import call

DOCUMENTS = ("README.md", "docs/operations.md", "docs/administration.md", "docs/runbooks.md", "docs/deployment.md")

NOWHERE = """
kafka:
  topics: [orders]
  bootstrap.servers: 127.0.0.1:1
  group.id: billing
postgres:
  host: 127.0.0.1
  port: 1
  dbname: billing
"""


def commands(text):
    """Lines of console blocks that call inboxd, without commands that never end or that work without a database."""
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            match = re.match(r"(?:\$ )?inboxd (\w+.*)", line)
            if match and not match[1].startswith(("run", "check", "init", "migrate", "exec", "forward", "config")):
                yield shlex.split(match[1], comments=True)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_program_accepts_every_documented_command(installed, root, document, tmp_path):
    (tmp_path / "inboxd.yaml").write_text(NOWHERE)
    found = list(commands((root / document).read_text()))
    assert found or document == "docs/deployment.md"
    for words in found:
        call(str(installed / "usr/bin/inboxd"), *words, "-c", str(tmp_path / "inboxd.yaml"), expected=3)


def test_an_unknown_command_is_found(installed):
    call(str(installed / "usr/bin/inboxd"), "replay", "--stauts", "dead", expected=1)
