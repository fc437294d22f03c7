#!/bin/sh
# Makes an invoice of each order, exactly once: the invoice and the completion of the message are one transaction.
#
#   inboxd exec --handler invoices --topic orders --settled -- ./command.sh
#
# The table: CREATE TABLE invoices (event_id text, "order" jsonb). psql reads PGHOST, PGDATABASE and so on.
exec psql -qXAt -v ON_ERROR_STOP=1 -v claim="$CE_INBOXCLAIM" -v event="$(cat)" <<'END'
BEGIN;
INSERT INTO invoices SELECT e->>'id', e->'data' FROM (SELECT :'event'::jsonb) AS event (e);
SELECT inbox.complete(:'claim');
COMMIT;
END
