"""One sidecar whose fault points a test arms while it runs, as fleet.Instance does for a fleet."""

import os
import time

from support.wait import eventually

EAGER = {"partition.assignment.strategy": "range"}  # of the fixture `rebalance`


class Armed:
    """start_inboxd's sidecar with a file of fault points, which is empty at first."""

    def __init__(self, sidecar):
        self.sidecar = sidecar
        self.file = os.path.join(sidecar.directory, "faults")
        sidecar.env["INBOXD_FAULTPOINTS"] = self.file

    def arm(self, *rules):
        """Each rule is `[THREAD:]NAME ACTION [NTH]`; replaces what was armed. A point that holds continues without its rule."""
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            file.write("".join(f"{rule}\n" for rule in rules))
        os.replace(self.file + ".new", self.file)

    def wait_hit(self, name, times=1):
        """Waits until the point has fired. A hit is recorded before its action."""
        eventually(lambda: self.hits(name) >= times, every=0.01,
                   what=f"fault point {name} to be hit {times} times")

    def wait_pause(self, name, seconds=0.5):
        """Waits until an armed point has not fired for so long. A hello is saved in the table, for example, and its
        notice makes one more claim a moment later."""
        deadline = time.monotonic() + 30
        hits, since = self.hits(name), time.monotonic()
        while time.monotonic() - since < seconds:
            assert time.monotonic() < deadline, f"fault point {name} fires without a pause"
            time.sleep(0.05)
            if self.hits(name) != hits:
                hits, since = self.hits(name), time.monotonic()

    def hits(self, name):
        """How often the point has fired."""
        try:
            with open(self.file + ".hits", encoding="utf-8") as file:
                return [line.split()[0] for line in file].count(name)
        except FileNotFoundError:
            return 0
