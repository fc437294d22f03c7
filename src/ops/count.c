/*
 * Counts the messages that match a filter. See op.h.
 */
#include <string.h>

#include "ops/op.h"

#define PAGE 100000

static void add_states(struct params *params, const char *states)
{
	int array = params_array(params, ARRAY_TEXT);
	char word[16];

	for (const char *at = states; *at != '\0'; at += strspn(at, " ")) {
		int length = (int)strcspn(at, " ");

		(void)snprintf(word, sizeof(word), "%.*s", length, at);
		array_text(params, array, word);
		at += length;
	}
}

struct position {
	int64_t after;
	int64_t count;
	bool over;
};

static int count_page(const struct op *op, const struct op_counting *what,
	struct position *position, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t left = what->most - position->count;
	int r;

	params_text(&params, what->name);
	params_jsonb(&params, (struct bytes){ what->filter->data, what->filter->length });
	add_states(&params, what->states);
	params_int(&params, (int32_t)(left < PAGE ? left : PAGE));
	params_bigint(&params, position->after);
	params_bool(&params, what->dropped);
	r = db_run(op->db, QUERY_OP_COUNT, &params, &rows, err);
	if (r != 0)
		return r;
	position->count += rows_int(rows, 0, 0);
	position->over = rows_is_null(rows, 0, 1);
	position->after = rows_int(rows, 0, 1);
	return 0;
}

int op_count(const struct op *op, const struct op_counting *what, int64_t *out, struct err *err)
{
	struct position position = { .after = op->cli->after };
	int r = 0;

	while (r == 0 && !position.over && position.count < what->most)
		r = count_page(op, what, &position, err);
	*out = position.count;
	return r;
}
