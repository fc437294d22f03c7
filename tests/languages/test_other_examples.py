"""The other examples of the libraries, with a real sidecar."""

import pytest

from languages.libraries import OTHERS
from system import test_examples as shared


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_an_example_handles_messages_and_stops_cleanly(example, orders, inbox, name):
    ids = orders(20)
    program = example(name)
    shared.wait_processed(inbox, ids)
    assert program.stop() == 0, program.output
