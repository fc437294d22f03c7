/*
 * Transactions take seqs and ids in any order the input asks for, and commit, roll back or stay open. A reader uses the
 * holes as the relay does. Every committed seq is found, at most once while no holes were joined, and nothing that
 * can still commit is given up.
 */
#include "demand.h"
#include "model/outbox/holes.h"

#define MOST 64 /* transactions, each with one seq */

enum state { NOT_BEGUN, HAS_ID, HAS_SEQ, COMMITTED, ROLLED_BACK };

struct transaction {
	enum state state;
	int64_t id;
	int64_t seq;
	bool found;
};

struct world {
	struct transaction transactions[MOST];
	int64_t next_id;
	int64_t relay_id; /* of the latest transaction of the relay, which has ended */
	int64_t next_seq;
	int64_t tip;
	struct holes holes;
};

/* As GetSnapshotData() does it: ids behind the latest completed one are not in the snapshot. */
static int64_t xmin(const struct world *world)
{
	int64_t completed = world->relay_id;
	int64_t lowest;

	for (int i = 0; i < MOST; i++) {
		const struct transaction *one = &world->transactions[i];

		if (one->state >= COMMITTED && one->id > completed)
			completed = one->id;
	}
	lowest = completed + 1;
	for (int i = 0; i < MOST; i++) {
		const struct transaction *one = &world->transactions[i];

		if ((one->state == HAS_ID || one->state == HAS_SEQ) && one->id < lowest)
			lowest = one->id;
	}
	return lowest;
}

static struct transaction *committed_with(struct world *world, int64_t seq)
{
	for (int i = 0; i < MOST; i++) {
		struct transaction *one = &world->transactions[i];

		if (one->state == COMMITTED && one->seq == seq)
			return one;
	}
	return NULL;
}

static void ask(struct world *world)
{
	struct hole asked[2 * MOST];
	size_t count = world->holes.count;
	int64_t horizon = xmin(world);

	demand(count <= sizeof(asked) / sizeof(asked[0]));
	if (count == 0)
		return;
	memcpy(asked, world->holes.items, count * sizeof(asked[0]));
	for (size_t i = 0; i < count; i++) {
		for (int64_t seq = asked[i].first; seq <= asked[i].last; seq++) {
			struct transaction *one = committed_with(world, seq);

			if (one != NULL)
				one->found = true;
			if (one != NULL)
				holes_fill(&world->holes, seq);
		}
	}
	holes_give_up(&world->holes, horizon, asked[0].first, asked[count - 1].last);
}

static void read_new(struct world *world)
{
	int64_t before = world->tip;

	for (int64_t seq = world->tip + 1; seq < world->next_seq; seq++) {
		struct transaction *one = committed_with(world, seq);

		if (one == NULL)
			continue;
		one->found = true;
		demand(holes_add(&world->holes, before + 1, seq - 1) == 0);
		before = seq;
	}
	world->tip = before;
	/* the transaction that records what was read */
	world->relay_id = world->next_id++;
	holes_bound(&world->holes, world->relay_id);
}

static void check(const struct world *world)
{
	for (size_t i = 0; i < world->holes.count; i++) {
		demand(world->holes.items[i].first <= world->holes.items[i].last);
		demand(i == 0 || world->holes.items[i - 1].last < world->holes.items[i].first);
	}
}

static void step(struct world *world, uint8_t command)
{
	struct transaction *one = &world->transactions[command % MOST];

	switch (command / MOST) {
	case 0: /* the next step of this transaction */
		if (one->state == NOT_BEGUN) {
			one->id = world->next_id++;
			one->state = HAS_ID;
		} else if (one->state == HAS_ID) {
			one->seq = world->next_seq++;
			one->state = HAS_SEQ;
		} else if (one->state == HAS_SEQ) {
			one->state = COMMITTED;
		}
		break;
	case 1:
		if (one->state == HAS_SEQ)
			one->state = ROLLED_BACK;
		break;
	case 2:
		ask(world);
		break;
	default:
		read_new(world);
	}
	check(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world world = { .next_id = 1, .next_seq = 1, .holes = HOLES_INIT };

	if (size > 0)
		world.holes.most = 2 + data[0] % MOST;
	for (size_t i = 1; i < size && i < 1000; i++)
		step(&world, data[i]);
	for (int i = 0; i < MOST; i++) {
		if (world.transactions[i].state == HAS_SEQ)
			world.transactions[i].state = COMMITTED;
	}
	ask(&world);
	read_new(&world);
	for (int i = 0; i < MOST; i++)
		demand(world.transactions[i].state != COMMITTED || world.transactions[i].found);
	holes_fini(&world.holes);
	return 0;
}
