"""A hot standby of a support.postgres server, created with pg_basebackup. It streams asynchronously unless the
primary's synchronous_standby_names names it."""

import os

from support import process
from support.postgres import Postgres
from support.wait import eventually


class Standby(Postgres):
    """start() copies the primary and follows it; promote() makes it a primary."""

    def __init__(self, primary, settings=None):
        super().__init__(settings={**primary.settings, **(settings or {}),
                                   "synchronous_standby_names": ""})
        self.primary = primary

    def promote(self):
        with self.connect() as own:
            assert own.execute("SELECT pg_promote(true, 30)").fetchone()[0]

    def stop_following(self):
        """Stops the replication from the primary."""
        self._wait_replayed()
        with self.connect() as own:
            own.execute("ALTER SYSTEM SET primary_conninfo = ''")
            own.execute("SELECT pg_reload_conf()")
            eventually(lambda: own.execute("SELECT count(*) FROM pg_stat_wal_receiver"
                                           " WHERE pid IS NOT NULL").fetchone()[0] == 0)

    def _wait_replayed(self):
        with self.primary.connect() as there, self.connect() as here:
            place = there.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
            eventually(lambda: here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn",
                                            [place]).fetchone()[0])

    def _initialise(self):
        os.makedirs(self.directory, exist_ok=True)
        process.give_to(self.directory, self.user)
        copy = process.spawn([f"{self.clients}/pg_basebackup", "-D", self.data, "-R", "-c", "fast",
                              "-X", "stream", "-d", self.primary.conninfo()],
                             self.log, user=self.user, cwd=self.directory)
        if copy.wait(60) != 0:
            raise process.StartFailed(f"pg_basebackup failed:\n{process.tail(self.log)}")
