/*
 * Effects exactly once, in C with libpq: an invoice for each order.
 *
 *	exactly_once [SOCKET]
 *
 * The database is that of the inbox; the PG* variables of libpq select it. The program reconnects to the
 * database and to inboxd. While the database cannot be reached, a message is delivered again every
 * second and spends no attempt.
 */
#include <inboxd/handler.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

/* Errors that are not caused by the message: connection, standby, deadlock, no resources, a lock of others, shutdown. */
static bool is_away(const char *code)
{
	static const char *const away[] = { "08", "25006", "40", "53", "55006", "55P03", "57P" };

	for (size_t i = 0; i < sizeof(away) / sizeof(away[0]); i++) {
		if (strncmp(code, away[i], strlen(away[i])) == 0)
			return true;
	}
	return false;
}

/* Executes one statement. False: `code` has its SQLSTATE, or 08006 if the server sent none. */
static bool execute(PGconn *db, const char *sql, const char *value, char code[6])
{
	PGresult *result = PQexecParams(db, sql, value != NULL, NULL, &value, NULL, NULL, 0);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool ok = PQresultStatus(result) == PGRES_COMMAND_OK ||
		  PQresultStatus(result) == PGRES_TUPLES_OK;

	snprintf(code, 6, "%s", ok ? "" : state != NULL ? state : "08006");
	PQclear(result);
	return ok;
}

static bool make_invoice(PGconn *db, const struct inbox_delivery *delivery, char code[6])
{
	const struct inbox_bytes order = inbox_delivery_data(delivery);

	return execute(db, "BEGIN", NULL, code) &&
	       execute(db,
		       "INSERT INTO invoices (order_id, cents) SELECT (o ->> 'order')::bigint,"
		       " (o ->> 'cents')::bigint FROM CAST($1 AS jsonb) AS o",
		       order.data == NULL ? "null" : order.data, code) &&
	       execute(db, "SELECT inbox.complete($1)", inbox_delivery_claim(delivery), code) &&
	       execute(db, "COMMIT", NULL, code);
}

static void handle(struct inbox_delivery *delivery, void *arg)
{
	PGconn **db = arg;
	char code[6] = "08006";

	if (*db == NULL)
		*db = PQconnectdb("connect_timeout=5");
	if (PQstatus(*db) == CONNECTION_OK && make_invoice(*db, delivery, code)) {
		inbox_delivery_settled(delivery);
		return;
	}
	fputs(PQerrorMessage(*db), stderr);
	if (is_away(code)) /* also if the COMMIT took place: a snooze does not change a completed message */
		inbox_delivery_snooze_with(delivery, 1000, PQerrorMessage(*db), code);
	else if (strcmp(code, "IB001") == 0) /* the claim is lost; nothing was committed here */
		inbox_delivery_settled(delivery);
	else
		inbox_delivery_retry(delivery, -1, PQerrorMessage(*db), code);
	PQfinish(*db); /* an open transaction is rolled back; the next message connects again */
	*db = NULL;
}

int main(int argc, char **argv)
{
	static const struct inbox_subscription orders = { .topic = "orders" };
	const struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "invoices",
		.socket = argc > 1 ? argv[1] : NULL,
		.subscribe = &orders,
		.subscribe_count = 1,
	};
	PGconn *db = NULL;
	const int status = inbox_handler_serve(&options, handle, &db);

	PQfinish(db);
	return status;
}
