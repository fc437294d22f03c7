#include "store/foreign.h"

#include <stdlib.h>

#include "queries.h"
#include "store/claim_params.h"

#define BORN_WINDOW 20000 /* seqs looked at in one statement */
#define SLOW_WINDOW 20    /* claims looked at in one statement */
#define MOST        10000

void foreign_claims_fini(struct foreign_claims *claims)
{
	free(claims->items);
	*claims = (struct foreign_claims){ NULL, 0 };
}

/* A walk through the windows of one kind of one instance's claims. */
struct walk {
	enum query query;
	int32_t other;
	int64_t from;
	int64_t last;
	int64_t width;
};

struct finding {
	struct db *db;
	const struct foreign_request *request;
	struct foreign_claims found;
};

static void add_request(struct params *params, const struct finding *finding)
{
	int topic = params_array(params, ARRAY_TEXT);
	int partition = params_array(params, ARRAY_INT);

	for (size_t i = 0; i < finding->request->count; i++) {
		array_text(params, topic, finding->request->refs[i].topic);
		array_int(params, partition, finding->request->refs[i].partition);
	}
	params_int(params, (int)(MOST - finding->found.count + 1));
	params_bool(params, finding->request->ordering == ORDERING_PARTITION);
}

static void take_rows(struct finding *finding, const struct rows *rows)
{
	bool keyed = finding->request->ordering == ORDERING_KEY;

	for (int i = 0; i < rows_count(rows) && finding->found.count <= MOST; i++) {
		finding->found.items[finding->found.count++] = (struct foreign_claim){
			.ref = (size_t)rows_int(rows, i, 0) - 1,
			.seq = rows_int(rows, i, 1),
			.offset = rows_int(rows, i, 2),
			.key_hash = keyed ? hash_of(rows_bytes(rows, i, 3)) : 0,
		};
	}
}

static int walk_windows(struct finding *finding, const struct walk *walk, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t from = walk->from;
	int r = 0;

	for (; r == 0 && from <= walk->last && finding->found.count <= MOST; from += walk->width) {
		params_reset(&params);
		params_int(&params, walk->other);
		params_bigint(&params, from);
		params_bigint(&params, walk->width);
		add_request(&params, finding);
		r = db_run(finding->db, walk->query, &params, &rows, err);
		if (r == 0)
			take_rows(finding, rows);
	}
	return r;
}

static int find_of_all(struct finding *finding, const struct rows *others, struct err *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < rows_count(others); i++) {
		const struct walk born = { QUERY_FOREIGN_BORN, (int32_t)rows_int(others, i, 0),
			rows_int(others, i, 1), rows_int(others, i, 2), BORN_WINDOW };
		const struct walk slow = { QUERY_FOREIGN_SLOW, (int32_t)rows_int(others, i, 0),
			rows_int(others, i, 3), rows_int(others, i, 4), SLOW_WINDOW };

		r = walk_windows(finding, &born, err);
		if (r == 0)
			r = walk_windows(finding, &slow, err);
	}
	return r;
}

int foreign_find(struct db *db, const struct foreign_request *request, struct foreign_claims *out,
	struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *others = NULL;
	struct finding finding = { .db = db, .request = request };
	int r;

	*out = (struct foreign_claims){ NULL, 0 };
	if (request->ordering == ORDERING_NONE || request->count == 0)
		return 0;
	params_int(&params, request->instance);
	r = db_run(db, QUERY_LIST_OTHERS, &params, &others, err);
	if (r != 0 || rows_count(others) == 0)
		return r;
	finding.found.items = calloc(MOST + 1, sizeof(*finding.found.items));
	if (finding.found.items == NULL)
		return err_memory(err);
	r = find_of_all(&finding, others, err);
	if (r == 0 && finding.found.count > MOST)
		r = FOREIGN_MANY;
	if (r != 0)
		foreign_claims_fini(&finding.found);
	else
		*out = finding.found;
	return r;
}

static int by_value(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a;
	int64_t second = *(const int64_t *)b;

	return (first > second) - (first < second);
}

int foreign_look(struct db *db, int32_t instance, const struct foreign_rows *of, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int array;
	int r;

	params_int(&params, instance);
	array = params_array(&params, ARRAY_BIGINT);
	for (size_t i = 0; i < of->count; i++) {
		array_bigint(&params, array, of->seqs[i]);
		of->states[i] = FOREIGN_HELD;
	}
	r = db_run(db, QUERY_HOLD_STATES, &params, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		int64_t seq = rows_int(rows, i, 0);
		const int64_t *at = bsearch(&seq, of->seqs, of->count, sizeof(seq), by_value);

		if (at != NULL)
			of->states[at - of->seqs] =
				rows_bool(rows, i, 1) ? FOREIGN_WAITING : FOREIGN_OVER;
	}
	return r;
}
