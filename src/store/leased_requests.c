/* Implements leased_requests.h. */
#include "store/leased_requests.h"

#include <string.h>

#include "queries.h"
#include "store/pg/db.h"

static const enum query queries[] = {
	[LEASED_BEGIN] = QUERY_REQUEST_BEGIN,
	[LEASED_COMPLETE] = QUERY_REQUEST_COMPLETE,
	[LEASED_FAIL] = QUERY_REQUEST_FAIL,
	[LEASED_EXTEND] = QUERY_REQUEST_EXTEND,
	[LEASED_RESULT] = QUERY_RESULT_GET,
};

/* The outcome of a statement that failed, or the fault `r` if the database cannot be used. */
static int outcome_of(const struct db *db, int r, struct err *err)
{
	if (r != FAULT_DATABASE || !db_is_open(db))
		return r;
	if (strcmp(err->state, "IB010") == 0)
		return LEASED_WRONG;
	if (strcmp(err->state, "IB011") == 0)
		return LEASED_LOST;
	switch (db_error_kind(err)) {
	case PG_ERROR_DATA:
		return db_error_is_data(db, err) ? LEASED_WRONG : LEASED_REFUSED;
	case PG_ERROR_BUSY:
	case PG_ERROR_SLOW:
	case PG_ERROR_STALE:
		return LEASED_AGAIN;
	case PG_ERROR_REFUSED:
		(void)err_advise(
			err, "grant the role inboxd_service to the database user of inboxd");
		return LEASED_REFUSED;
	case PG_ERROR_OTHER:
		return LEASED_REFUSED;
	case PG_ERROR_LOST:
	case PG_ERROR_RESOURCES:
	case PG_ERROR_READ_ONLY:
	case PG_ERROR_KINDS:
		break;
	}
	return r;
}

int leased_requests_call(struct db *db, enum leased_method method, struct bytes params,
	char **result, struct err *err)
{
	CLEANUP(params_fini) struct params values = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_begin(db, err);

	params_jsonb(&values, params);
	if (r == 0)
		r = db_queue(db, QUERY_SET_LOCK_TIMEOUT, NULL, NULL, err);
	if (r == 0)
		r = db_queue(db, queries[method], &values, &rows, err);
	if (r == 0)
		r = db_commit(db, err);
	if (r == DB_COMMIT_UNKNOWN)
		return FAULT_DATABASE;
	if (r != 0)
		return outcome_of(db, r, err);
	*result = strdup(rows_text(rows, 0, 0));
	return *result == NULL ? err_memory(err) : LEASED_DONE;
}
