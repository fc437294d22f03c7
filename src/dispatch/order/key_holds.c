/* See key_holds.h. The rows are in an array, in the order in which the partitions were acquired. */
#include "dispatch/order/key_holds.h"

#include <stdlib.h>

#include "base/log.h"
#include "dispatch/order/order.h"

#define CHECK_EVERY_MS 200
#define CHECK_MOST     1000 /* rows in one check */

void key_holds_fini(struct key_holds *holds)
{
	free(holds->items);
	*holds = (struct key_holds){ NULL };
}

static int make_room(struct key_holds *holds, size_t more)
{
	size_t room = holds->count + more;
	struct held_row *items;

	if (room <= holds->room)
		return 0;
	items = realloc(holds->items, room * sizeof(*items));
	if (items == NULL)
		return FAULT_MEMORY;
	holds->items = items;
	holds->room = room;
	return 0;
}

static void report_no_memory(struct order *order)
{
	struct err err = ERR_INIT;

	(void)err_memory(&err);
	supervision_report_fault(order->context->options.supervision, &err);
}

void key_holds_add(struct order *order, const struct handover *handover)
{
	struct key_holds *holds = &order->key_holds;

	if (handover->held_count > 0 && make_room(holds, handover->held_count) < 0) {
		report_no_memory(order);
		return;
	}
	for (size_t i = 0; i < handover->held_count; i++) {
		const struct held_row *row = &handover->held[i];

		if (lanes_hold(&order->lanes, row->stream, row->key_hash) < 0)
			report_no_memory(order);
		else
			holds->items[holds->count++] = *row;
	}
}

void key_holds_drop(struct order *order)
{
	struct key_holds *holds = &order->key_holds;
	size_t kept = 0;

	for (size_t i = 0; i < holds->count; i++) {
		const struct held_row *row = &holds->items[i];

		if (admission_get(order->context->options.admission, row->stream).assigned)
			holds->items[kept++] = *row;
		else
			lanes_unhold(&order->lanes, row->stream, row->key_hash, -1);
	}
	holds->count = kept;
}

static int by_value(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a;
	int64_t second = *(const int64_t *)b;

	return (first > second) - (first < second);
}

size_t key_holds_to_check(struct order *order, int64_t now_ms, int64_t **seqs)
{
	struct key_holds *holds = &order->key_holds;
	size_t count = holds->count < CHECK_MOST ? holds->count : CHECK_MOST;

	if (count == 0 || now_ms < holds->check_at_ms)
		return 0;
	holds->check_at_ms = now_ms + CHECK_EVERY_MS;
	*seqs = calloc(count, sizeof(**seqs));
	if (*seqs == NULL)
		return 0;
	for (size_t i = 0; i < count; i++)
		(*seqs)[i] = holds->items[(holds->next + i) % holds->count].seq;
	holds->next = (holds->next + count) % holds->count;
	qsort(*seqs, count, sizeof(**seqs), by_value);
	return count;
}

static enum other_claims_state state_of(const struct other_claims_rows *rows, int64_t seq)
{
	const int64_t *at = bsearch(&seq, rows->seqs, rows->count, sizeof(*rows->seqs), by_value);

	return at == NULL ? OTHER_CLAIMS_HELD : rows->states[at - rows->seqs];
}

bool key_holds_checked(struct order *order, const struct other_claims_rows *rows)
{
	struct key_holds *holds = &order->key_holds;
	bool any_waits = false;
	size_t kept = 0;

	for (size_t i = 0; i < holds->count; i++) {
		const struct held_row row = holds->items[i];
		enum other_claims_state state = state_of(rows, row.seq);
		bool waits = state == OTHER_CLAIMS_WAITING;

		if (state == OTHER_CLAIMS_HELD) {
			holds->items[kept++] = row;
			continue;
		}
		/* A row that waits makes the stream dirty: the INSERT of later rows of the key must check the table
		 * for older rows. */
		if (waits)
			admission_dirty(order->context->options.admission, row.stream);
		lanes_unhold(&order->lanes, row.stream, row.key_hash, waits ? row.offset : -1);
		any_waits |= waits;
	}
	if (kept == 0 && holds->count > 0)
		log_info("keys_released", LOG_STR("next", "no other sidecar holds messages of the "
							  "partitions of this one any more"));
	holds->count = kept;
	return any_waits;
}
