/* The routing table: who gets what, and what two handlers may not share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "model/routing/routes.h"

#define UNNAMED(handler) ((struct handler_id){ "", handler })

/* Of the consumer without a name. */
static const char *finds(const struct routing *routing, const char *topic, const char *type)
{
	return routing_find(routing, &(struct routing_key){ "", topic, type });
}

static bool wants(const struct routing *routing, const char *topic, const char *type)
{
	return routing_wants(routing, &(struct routing_key){ "", topic, type });
}

static int setup(void **state)
{
	struct routing *routing = NULL;

	if (routing_new(&routing, NULL) != 0)
		return -1;
	*state = routing;
	return 0;
}

static int teardown(void **state)
{
	routing_free(*state);
	return 0;
}

static int subscribe(
	struct routing *routing, const char *handler, const char *topic, const char *type)
{
	const struct subscription sub = { topic, type };

	return routing_set(routing, UNNAMED(handler), &sub, 1, NULL);
}

static void assert_subscribed(
	struct routing *routing, const char *handler, const char *topic, const char *type)
{
	assert_int_equal(subscribe(routing, handler, topic, type), 0);
}

static void an_empty_table_routes_nothing(void **state)
{
	assert_null(finds(*state, "orders", "order.created"));
	assert_false(wants(*state, "orders", NULL));
	assert_int_equal(routing_count(*state), 0);
}

/* Handlers named by what they subscribed to; each row says who gets what. */
static void the_most_specific_subscription_wins(void **state)
{
	static const struct subscription subs[] = {
		{ NULL, NULL },
		{ "orders", NULL },
		{ NULL, "order.*" },
		{ "orders", "order.*" },
		{ "orders", "order.cre*" },
		{ NULL, "order.created" },
		{ "orders", "order.created" },
		{ NULL, "order.created*" },
	};
	static const char *const names[] = { "all", "topic", "prefix", "topic+prefix",
		"topic+longer", "type", "topic+type", "whole type as prefix" };
	static const struct {
		const char *topic;
		const char *type;
		const char *handler;
	} rows[] = {
		{ "payments", "paid", "all" },
		{ "payments", NULL, "all" },
		{ "orders", "other", "topic" },
		{ "orders", NULL, "topic" },
		{ "orders", "", "topic" },
		{ "payments", "order.", "prefix" },
		{ "payments", "order.paid", "prefix" },
		{ "orders", "order.paid", "topic+prefix" },
		{ "orders", "order.cremated", "topic+longer" },
		{ "payments", "order.created", "type" },
		{ "orders", "order.created", "topic+type" },
		{ "orders", "order.created.v2", "whole type as prefix" },
		{ "order", "x", "all" },
		{ "orders2", "x", "all" },
	};

	for (size_t i = 0; i < sizeof(subs) / sizeof(subs[0]); i++)
		assert_subscribed(*state, names[i], subs[i].topic, subs[i].type);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(finds(*state, rows[i].topic, rows[i].type), rows[i].handler);
}

static void an_exact_type_anywhere_beats_a_prefix_of_a_named_topic(void **state)
{
	assert_subscribed(*state, "prefix", "orders", "order.created*");
	assert_subscribed(*state, "exact", NULL, "order.created");
	assert_string_equal(finds(*state, "orders", "order.created"), "exact");
}

static void a_star_as_type_is_any_type(void **state)
{
	assert_subscribed(*state, "a", "orders", "*");
	assert_string_equal(finds(*state, "orders", NULL), "a");
	assert_int_equal(subscribe(*state, "b", "orders", NULL), ROUTING_OVERLAP);
}

static void a_message_without_a_type_goes_to_no_typed_subscription(void **state)
{
	assert_subscribed(*state, "a", NULL, "order.*");
	assert_null(finds(*state, "orders", NULL));
}

static void an_equal_subscription_of_another_handler_is_refused_by_name(void **state)
{
	const struct subscription subs[] = { { "payments", "p.*" }, { "orders", "order.*" } };
	struct err err = ERR_INIT;

	assert_subscribed(*state, "billing", "orders", "order.*");
	assert_int_equal(routing_set(*state, UNNAMED("audit"), subs, 2, &err), ROUTING_OVERLAP);
	assert_non_null(strstr(err.text, "\"billing\""));
	assert_non_null(strstr(err.text, "\"orders\""));
	assert_non_null(strstr(err.text, "\"order.*\""));
	assert_non_null(strstr(err.text, "list both as consumers"));
	assert_non_null(strstr(err.text, "takes its messages away"));
	assert_null(finds(*state, "payments", "p.q"));
	assert_int_equal(routing_count(*state), 1);
}

/* A connected handler has the first subscription, and another one connects with the second. */
static void a_more_specific_subscription_takes_messages(void **state)
{
	static const struct {
		struct subscription has;
		struct subscription new;
		bool takes;
	} rows[] = {
		{ { NULL, NULL }, { NULL, "invoice.created" }, true },
		{ { NULL, NULL }, { "orders", NULL }, true },
		{ { "orders", NULL }, { NULL, "order.*" }, true },
		{ { "orders", "order.*" }, { "payments", "order.paid" }, false },
		{ { "orders", "order.*" }, { "orders", "order.cre*" }, true },
		{ { "orders", "order.*" }, { NULL, "invoice.*" }, false },
		{ { NULL, "order.*" }, { "orders", "order.*" }, true },
		{ { "orders", "order.*" }, { NULL, "order.*" }, false },
		{ { "orders", "order.*" }, { "orders", NULL }, false },
		{ { NULL, "a" }, { "orders", "ab" }, false },
		{ { NULL, "a" }, { "orders", "a" }, true },
		{ { NULL, "a" }, { "orders", "a*" }, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *from;

		assert_int_equal(routing_set(*state, UNNAMED("mail"), &rows[i].has, 1, NULL), 0);
		from = routing_narrowed(*state, UNNAMED("audit"), &rows[i].new, 1);
		assert_int_equal(from != NULL && strcmp(from, "mail") == 0, rows[i].takes);
		assert_null(routing_narrowed(
			*state, (struct handler_id){ "search", "audit" }, &rows[i].new, 1));
	}
}

/* The messages of a handler that is away wait for it, so it takes none when it comes back. */
static void a_handler_that_comes_back_takes_no_messages(void **state)
{
	const struct subscription sub = { NULL, "order.*" };

	assert_subscribed(*state, "all", NULL, NULL);
	assert_subscribed(*state, "orders", NULL, "order.*");
	assert_int_equal(routing_leave(*state, UNNAMED("orders"), 1), 0);
	assert_null(routing_narrowed(*state, UNNAMED("orders"), &sub, 1));
}

static void an_overlap_of_everything_is_described(void **state)
{
	struct err err = ERR_INIT;
	const struct subscription all = { NULL, NULL };

	assert_subscribed(*state, "billing", NULL, NULL);
	assert_int_equal(routing_set(*state, UNNAMED("audit"), &all, 1, &err), ROUTING_OVERLAP);
	assert_non_null(strstr(err.text, "topic any, type any"));
}

static void a_refused_change_leaves_the_old_subscriptions(void **state)
{
	assert_subscribed(*state, "billing", "orders", NULL);
	assert_subscribed(*state, "audit", "payments", NULL);
	assert_int_equal(subscribe(*state, "audit", "orders", NULL), ROUTING_OVERLAP);
	assert_string_equal(finds(*state, "payments", "x"), "audit");
}

static void a_new_set_replaces_the_old_one(void **state)
{
	assert_subscribed(*state, "billing", "orders", NULL);
	assert_subscribed(*state, "billing", "payments", NULL);
	assert_null(finds(*state, "orders", "x"));
	assert_string_equal(finds(*state, "payments", "x"), "billing");
}

static void a_subscription_given_twice_counts_once(void **state)
{
	const struct subscription subs[] = { { "orders", NULL }, { "orders", "*" } };

	assert_int_equal(routing_set(*state, UNNAMED("billing"), subs, 2, NULL), 0);
	assert_int_equal(routing_count(*state), 1);
}

static void a_handler_without_subscriptions_gets_nothing(void **state)
{
	assert_int_equal(routing_set(*state, UNNAMED("billing"), NULL, 0, NULL), 0);
	assert_null(finds(*state, "orders", "x"));
	assert_int_equal(routing_count(*state), 0);
}

static void messages_of_a_removed_handler_go_to_the_less_specific_one(void **state)
{
	assert_subscribed(*state, "billing", "orders", NULL);
	assert_subscribed(*state, "all", NULL, NULL);
	routing_remove(*state, UNNAMED("billing"));
	routing_remove(*state, UNNAMED("never seen"));
	assert_string_equal(finds(*state, "orders", "x"), "all");
	assert_subscribed(*state, "audit", "orders", NULL);
}

static void messages_of_a_closed_handler_go_to_no_handler(void **state)
{
	assert_subscribed(*state, "billing", "orders", NULL);
	assert_subscribed(*state, "all", NULL, NULL);
	routing_close(*state, UNNAMED("billing"), true);
	routing_close(*state, UNNAMED("never seen"), true);
	assert_string_equal(finds(*state, "orders", "x"), "billing");
	assert_false(wants(*state, "orders", "x"));
	assert_true(wants(*state, "payments", "x"));
	routing_close(*state, UNNAMED("billing"), false);
	assert_true(wants(*state, "orders", "x"));
}

static void new_subscriptions_do_not_open_a_closed_handler(void **state)
{
	assert_subscribed(*state, "billing", "orders", NULL);
	routing_close(*state, UNNAMED("billing"), true);
	assert_subscribed(*state, "billing", "payments", NULL);
	assert_false(wants(*state, "payments", "x"));
}

static void a_copy_is_independent(void **state)
{
	struct routing *routing = *state;
	struct routing *copy = NULL;

	assert_subscribed(routing, "billing", "orders", "order.*");
	assert_subscribed(routing, "audit", NULL, NULL);
	routing_close(routing, UNNAMED("audit"), true);
	assert_int_equal(routing_copy(&copy, routing, NULL), 0);
	routing_remove(routing, UNNAMED("billing"));
	routing_close(routing, UNNAMED("audit"), false);
	assert_string_equal(finds(copy, "orders", "order.x"), "billing");
	assert_false(wants(copy, "payments", "x"));
	routing_free(copy);
}

/* `count` subscriptions to types of the handler's own, half of them prefixes. */
static int subscribe_many(struct routing *routing, const char *handler, int count)
{
	static char types[1000][32];
	static struct subscription subs[1000];

	for (int i = 0; i < count; i++) {
		(void)snprintf(
			types[i], sizeof(types[i]), "%s.t%d%s", handler, i, i % 2 == 0 ? "" : ".*");
		subs[i] = (struct subscription){ "orders", types[i] };
	}
	return routing_set(routing, UNNAMED(handler), subs, (size_t)count, NULL);
}

/* A routing of ten handlers with a thousand subscriptions each: as many as there may be. */
static void fill(struct routing *routing)
{
	char name[16];

	for (int i = 0; i < ROUTING_MAX / 1000; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		assert_int_equal(subscribe_many(routing, name, 1000), 0);
	}
}

/* True when the call needs at most `most` allocations. */
#define ALLOCATES_AT_MOST(most, call)                                                              \
	do {                                                                                       \
		alloc_fail_at((most) + 1);                                                         \
		assert_int_equal((call), 0);                                                       \
		assert_false(alloc_fail_never());                                                  \
	} while (0)

static void a_copy_shares_the_table(void **state)
{
	struct routing *copy = NULL;

	fill(*state);
	ALLOCATES_AT_MOST(1, routing_copy(&copy, *state, NULL));
	assert_true(routing_shares(copy, *state));
	routing_free(copy);
}

static void a_change_does_not_copy_the_subscriptions_of_others(void **state)
{
	fill(*state);
	ALLOCATES_AT_MOST(1, routing_close(*state, UNNAMED("h3"), true));
	ALLOCATES_AT_MOST(3, routing_remove(*state, UNNAMED("h4")));
	ALLOCATES_AT_MOST(5, subscribe_many(*state, "h4", 1000));
	assert_string_equal(finds(*state, "orders", "h4.t998"), "h4");
	assert_string_equal(finds(*state, "orders", "h9.t999.x"), "h9");
	assert_false(wants(*state, "orders", "h3.t0"));
}

static void another_connection_of_a_handler_changes_nothing(void **state)
{
	struct routing *before = NULL;

	fill(*state);
	assert_int_equal(routing_copy(&before, *state, NULL), 0);
	assert_int_equal(subscribe_many(*state, "h7", 1000), 0);
	assert_true(routing_shares(before, *state));
	routing_free(before);
}

static void there_is_a_limit_for_all_handlers_together(void **state)
{
	struct err err = ERR_INIT;
	const struct subscription sub = { "payments", NULL };

	fill(*state);
	assert_int_equal(routing_set(*state, UNNAMED("late"), &sub, 1, &err), ROUTING_FULL);
	assert_non_null(strstr(err.text, "10000 subscriptions"));
	assert_null(finds(*state, "payments", "x"));
	assert_int_equal(routing_set(*state, UNNAMED("h0"), &sub, 1, &err), 0);
	assert_int_equal(routing_set(*state, UNNAMED("late"),
				 &(struct subscription){ "mail", NULL }, 1, &err),
		0);
}

/* How many slots a lookup may have to look at: the longest run without an empty one. */
static size_t longest_run(const struct route_index *index)
{
	size_t longest = 0;
	size_t run = 0;

	for (size_t i = 0; i <= 2 * index->mask; i++) {
		run = index->slots[i & index->mask].route == NULL ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static void a_lookup_compares_few_subscriptions(void **state)
{
	static char types[10][1000][32];
	struct routes_handler handlers[10];
	struct routes *routes;

	(void)state;
	for (int i = 0; i < 10; i++) {
		static struct subscription subs[1000];
		char name[16];

		(void)snprintf(name, sizeof(name), "h%d", i);
		for (int j = 0; j < 1000; j++) {
			(void)snprintf(types[i][j], sizeof(types[i][j]), "%s.t%d*", name, j);
			subs[j] = (struct subscription){ NULL, types[i][j] };
		}
		handlers[i] = (struct routes_handler){ handler_routes_new(
			UNNAMED(name), subs, 1000, 17) };
		assert_non_null(handlers[i].routes);
	}
	routes = routes_new(handlers, 10, 17);
	assert_non_null(routes);
	assert_int_equal(routes->index->count, 10000);
	assert_in_range(longest_run(routes->index), 1, 100);
	assert_int_equal(routes->index->length_count, 3); /* h0.t0 to h9.t999 */
	routes_release(routes);
	for (int i = 0; i < 10; i++)
		handler_routes_release(handlers[i].routes);
}

struct listing {
	char text[256];
};

static void list(const struct routed *routed, void *arg)
{
	struct listing *listing = arg;
	size_t used = strlen(listing->text);

	(void)snprintf(listing->text + used, sizeof(listing->text) - used, "%s%s%s:%s/%s;",
		routed->handler.name, routed->closed ? "(closed)" : "",
		routed->away ? "(away)" : "", routed->sub.topic == NULL ? "-" : routed->sub.topic,
		routed->sub.type == NULL ? "-" : routed->sub.type);
}

static void every_subscription_is_visited_as_it_was_given(void **state)
{
	const struct subscription subs[] = { { "orders", "o.*" }, { NULL, "x" } };
	struct listing listing = { "" };

	assert_int_equal(routing_set(*state, UNNAMED("billing"), subs, 2, NULL), 0);
	assert_subscribed(*state, "audit", NULL, NULL);
	routing_close(*state, UNNAMED("audit"), true);
	routing_each(*state, list, &listing);
	assert_string_equal(listing.text, "billing:orders/o.*;billing:-/x;audit(closed):-/-;");
	assert_int_equal(routing_count(*state), 3);
}

static void the_table_grows_with_its_handlers(void **state)
{
	char name[16];

	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		assert_subscribed(*state, name, name, NULL);
	}
	assert_string_equal(finds(*state, "h77", NULL), "h77");
	routing_remove(*state, UNNAMED("h77"));
	assert_null(finds(*state, "h77", NULL));
	assert_string_equal(finds(*state, "h99", NULL), "h99");
}

/* One subscription of a handler that is away and said hello at `hello_at`. */
static int remember(struct routing *routing, const char *handler, const char *topic,
	const char *type, int64_t hello_at)
{
	const struct subscription sub = { topic, type };
	const struct remembered remembered = { UNNAMED(handler), &sub, 1, hello_at };

	return routing_remember(routing, &remembered, NULL);
}

static void messages_of_an_away_handler_go_to_no_handler(void **state)
{
	assert_subscribed(*state, "totals", "orders", "order.*");
	assert_int_equal(remember(*state, "billing", "orders", "order.created", 1), 0);
	assert_string_equal(finds(*state, "orders", "order.created"), "billing");
	assert_false(wants(*state, "orders", "order.created"));
	assert_true(wants(*state, "orders", "order.paid"));
	assert_false(routing_serves(*state, "payments"));
	assert_int_equal(routing_remove(*state, UNNAMED("billing")), 0);
	assert_true(wants(*state, "orders", "order.created"));
}

static void a_handler_that_left_keeps_its_messages_until_it_returns(void **state)
{
	assert_subscribed(*state, "totals", "orders", NULL);
	assert_subscribed(*state, "billing", "orders", "order.created");
	assert_int_equal(routing_leave(*state, UNNAMED("billing"), 5), 0);
	assert_false(wants(*state, "orders", "order.created"));
	assert_true(routing_has_connected(*state));
	assert_subscribed(*state, "billing", "orders", "order.created");
	assert_true(wants(*state, "orders", "order.created"));
	assert_int_equal(routing_leave(*state, UNNAMED("billing"), 5), 0);
	assert_int_equal(routing_leave(*state, UNNAMED("totals"), 6), 0);
	assert_false(routing_has_connected(*state));
}

static void a_consumer_is_attended_while_a_handler_of_it_is_connected(void **state)
{
	const struct subscription any = { NULL, NULL };

	assert_subscribed(*state, "billing", NULL, NULL);
	assert_true(routing_attends(*state, ""));
	assert_false(routing_attends(*state, "search"));
	assert_int_equal(
		routing_set(*state, (struct handler_id){ "search", "s" }, &any, 1, NULL), 0);
	assert_true(routing_attends(*state, "search"));
	assert_int_equal(routing_leave(*state, UNNAMED("billing"), 5), 0);
	assert_false(routing_attends(*state, ""));
	assert_true(routing_attends(*state, "search"));
}

/* A closed handler gets no messages, so nothing is looked for in the table. Its topic stays served: it is connected. */
static void a_closed_handler_attends_to_nothing_and_serves_its_topic(void **state)
{
	assert_subscribed(*state, "billing", "orders", NULL);
	assert_int_equal(routing_close(*state, UNNAMED("billing"), true), 0);
	assert_false(routing_attends(*state, ""));
	assert_true(routing_serves(*state, "orders"));
	assert_subscribed(*state, "audit", "other", NULL);
	assert_true(routing_attends(*state, ""));
	assert_int_equal(routing_leave(*state, UNNAMED("audit"), 5), 0);
	assert_false(routing_attends(*state, ""));
	assert_int_equal(routing_close(*state, UNNAMED("billing"), false), 0);
	assert_true(routing_attends(*state, ""));
}

static void a_connecting_handler_replaces_an_away_one(void **state)
{
	const struct subscription sub = { "orders", "order.created" };

	assert_int_equal(remember(*state, "old", "orders", "order.created", 1), 0);
	assert_string_equal(routing_displaced(*state, UNNAMED("new"), &sub, 1), "old");
	assert_null(routing_displaced(*state, UNNAMED("old"), &sub, 1));
	assert_subscribed(*state, "new", "orders", "order.created");
	assert_string_equal(finds(*state, "orders", "order.created"), "new");
	assert_int_equal(subscribe(*state, "old", "orders", "order.created"), ROUTING_OVERLAP);
}

static void of_two_away_handlers_the_newer_hello_wins(void **state)
{
	assert_int_equal(remember(*state, "first", "orders", "x", 2), 0);
	assert_int_equal(remember(*state, "second", "orders", "x", 1), 0);
	assert_string_equal(finds(*state, "orders", "x"), "first");
	assert_int_equal(remember(*state, "second", "orders", "x", 3), 0);
	assert_string_equal(finds(*state, "orders", "x"), "second");
}

static void away_handlers_are_removed_to_make_room(void **state)
{
	const struct subscription sub = { "payments", NULL };

	fill(*state);
	assert_int_equal(routing_leave(*state, UNNAMED("h3"), 1), 0);
	assert_int_equal(routing_leave(*state, UNNAMED("h4"), 2), 0);
	assert_int_equal(remember(*state, "late", "payments", NULL, 3), ROUTING_FULL);
	assert_int_equal(routing_set(*state, UNNAMED("late"), &sub, 1, NULL), 0);
	assert_null(finds(*state, "orders", "h3.t0"));
	assert_string_equal(finds(*state, "orders", "h4.t0"), "h4");
}

static int build(struct routing **out)
{
	const struct subscription subs[] = { { "orders", "o.*" }, { NULL, "x" } };
	struct routing *routing = NULL;
	int r = routing_new(&routing, NULL);

	if (r == 0)
		r = routing_set(routing, UNNAMED("billing"), subs, 2, NULL);
	if (r == 0)
		r = routing_copy(out, routing, NULL);
	routing_free(routing);
	return r;
}

static void without_memory_a_change_fails_and_leaks_nothing(void **state)
{
	(void)state;
	for (size_t n = 1;; n++) {
		struct routing *copy = NULL;
		int r;

		alloc_fail_at(n);
		r = build(&copy);
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			routing_free(copy);
			return;
		}
		assert_int_equal(r, FAULT_MEMORY);
		assert_null(copy);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void consumers_do_not_compete_for_messages(void **state)
{
	const struct subscription orders = { "orders", NULL };
	const struct subscription exact = { "orders", "order.created" };
	const struct handler_id billing = { "billing", "worker" };
	const struct handler_id search = { "search", "worker" };
	const struct handler_id second = { "search", "second" };
	const struct routing_key of_billing = { "billing", "orders", "order.created" };
	const struct routing_key of_search = { "search", "orders", "order.created" };

	assert_int_equal(routing_set(*state, billing, &exact, 1, NULL), 0);
	assert_int_equal(routing_set(*state, search, &orders, 1, NULL), 0);
	assert_int_equal(routing_set(*state, UNNAMED("audit"), &orders, 1, NULL), 0);
	assert_string_equal(finds(*state, "orders", "order.created"), "audit");
	assert_string_equal(routing_find(*state, &of_search), "worker");
	assert_null(routing_find(*state, &(struct routing_key){ "billing", "orders", "x" }));
	assert_int_equal(routing_set(*state, second, &orders, 1, NULL), ROUTING_OVERLAP);
	assert_int_equal(routing_close(*state, search, true), 0);
	assert_false(routing_wants(*state, &of_search));
	assert_true(routing_wants(*state, &of_billing));
	assert_true(wants(*state, "orders", "x"));
	assert_int_equal(routing_remove(*state, billing), 0);
	assert_null(routing_find(*state, &of_billing));
	assert_non_null(routing_find(*state, &of_search));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_empty_table_routes_nothing),
		TEST(the_most_specific_subscription_wins),
		TEST(an_exact_type_anywhere_beats_a_prefix_of_a_named_topic),
		TEST(a_star_as_type_is_any_type),
		TEST(a_message_without_a_type_goes_to_no_typed_subscription),
		TEST(an_equal_subscription_of_another_handler_is_refused_by_name),
		TEST(a_more_specific_subscription_takes_messages),
		TEST(a_handler_that_comes_back_takes_no_messages),
		TEST(an_overlap_of_everything_is_described),
		TEST(a_refused_change_leaves_the_old_subscriptions),
		TEST(a_new_set_replaces_the_old_one),
		TEST(a_subscription_given_twice_counts_once),
		TEST(a_handler_without_subscriptions_gets_nothing),
		TEST(messages_of_a_removed_handler_go_to_the_less_specific_one),
		TEST(messages_of_a_closed_handler_go_to_no_handler),
		TEST(new_subscriptions_do_not_open_a_closed_handler),
		TEST(a_copy_is_independent),
		TEST(a_copy_shares_the_table),
		TEST(a_change_does_not_copy_the_subscriptions_of_others),
		TEST(another_connection_of_a_handler_changes_nothing),
		TEST(consumers_do_not_compete_for_messages),
		TEST(there_is_a_limit_for_all_handlers_together),
		TEST(a_lookup_compares_few_subscriptions),
		TEST(messages_of_an_away_handler_go_to_no_handler),
		TEST(a_handler_that_left_keeps_its_messages_until_it_returns),
		TEST(a_consumer_is_attended_while_a_handler_of_it_is_connected),
		TEST(a_closed_handler_attends_to_nothing_and_serves_its_topic),
		TEST(a_connecting_handler_replaces_an_away_one),
		TEST(of_two_away_handlers_the_newer_hello_wins),
		TEST(away_handlers_are_removed_to_make_room),
		TEST(every_subscription_is_visited_as_it_was_given),
		TEST(the_table_grows_with_its_handlers),
		TEST(without_memory_a_change_fails_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
