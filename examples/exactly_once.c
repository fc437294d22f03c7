/*
 * Effects exactly once, in C with libpq: an invoice for each order.
 *
 *	exactly_once [SOCKET]
 *
 * The database is the one of the inbox; PG* variables name it. Connects again by itself, to it and to
 * inboxd; while it is away, messages come again every second and spend no attempt.
 */
#include <inboxd/handler.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

/* Not the message's fault: the connection, a standby, a deadlock, no room, a shutdown. */
static bool is_away(const char *code)
{
	static const char *const away[] = { "08", "25006", "40", "53", "57P" };

	for (size_t i = 0; i < sizeof(away) / sizeof(away[0]); i++) {
		if (strncmp(code, away[i], strlen(away[i])) == 0)
			return true;
	}
	return false;
}

/* Runs one statement. True, or its SQLSTATE is in `code`: 08006 when the server did not give one. */
static bool run(PGconn *db, const char *sql, const char *value, char code[6])
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

	return run(db, "BEGIN", NULL, code) &&
	       run(db,
		       "INSERT INTO invoices (order_id, cents) SELECT (o ->> 'order')::bigint,"
		       " (o ->> 'cents')::bigint FROM CAST($1 AS jsonb) AS o",
		       order.data == NULL ? "null" : order.data, code) &&
	       run(db, "SELECT inbox.complete($1)", inbox_delivery_claim(delivery), code) &&
	       run(db, "COMMIT", NULL, code);
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
	if (is_away(code)) /* also in the middle of COMMIT: inboxd snoozes only what is not completed */
		inbox_delivery_snooze(delivery, 1000);
	else if (strcmp(code, "IB001") == 0) /* it is in other hands, and nothing happened here */
		inbox_delivery_settled(delivery);
	else
		inbox_delivery_retry(delivery, -1, PQerrorMessage(*db), code);
	PQfinish(*db); /* what it had open is rolled back; the next message connects anew */
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
