/*
 * The consumer `billing`: an invoice for each order, exactly once. One statement makes the invoice and completes
 * the message, so PostgreSQL commits both or neither.
 *
 *	billing [SOCKET]
 *
 * The database is that of the inbox; the PG* variables of libpq select it. ../exactly_once.c shows a
 * transaction of several statements, and which errors of a database are not caused by the message.
 */
#include <inboxd/handler.h>

#include <libpq-fe.h>
#include <string.h>

static const char make_invoice[] =
	"WITH invoice AS (INSERT INTO invoices (order_id, cents)"
	" SELECT (o ->> 'order')::bigint, (o ->> 'cents')::bigint FROM CAST($2 AS jsonb) AS o"
	" RETURNING id)"
	" SELECT inbox.complete($1, jsonb_build_object('invoice', id)) FROM invoice";

/* Answers a message whose statement failed. */
static void answer_failure(struct inbox_delivery *delivery, PGconn *db, const PGresult *result)
{
	const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (PQstatus(db) != CONNECTION_OK) {
		inbox_delivery_snooze(delivery, 1000); /* spends no attempt */
		PQreset(db);
	} else if (code != NULL && strcmp(code, "IB001") == 0) {
		inbox_delivery_settled(delivery); /* the claim is lost; nothing was committed */
	} else {
		inbox_delivery_retry(delivery, -1, PQerrorMessage(db), code);
	}
}

static void handle(struct inbox_delivery *delivery, void *arg)
{
	PGconn *db = arg;
	const struct inbox_bytes order = inbox_delivery_data(delivery);
	const char *values[] = { inbox_delivery_claim(delivery), order.data };
	PGresult *result = PQexecParams(db, make_invoice, 2, NULL, values, NULL, NULL, 0);

	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		inbox_delivery_settled(delivery);
	else
		answer_failure(delivery, db, result);
	PQclear(result);
}

int main(int argc, char **argv)
{
	/* No consumer is named, so it is the one with the name of the handler. */
	const struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "billing",
		.socket = argc > 1 ? argv[1] : NULL,
	};
	PGconn *db = PQconnectdb("connect_timeout=5");
	const int status = inbox_handler_serve(&options, handle, db);

	PQfinish(db);
	return status;
}
