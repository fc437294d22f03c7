/* Which consumers want a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/routing/consumers.h"

static struct consumer *a_consumer(struct consumers *consumers, const char *name)
{
	struct consumer *made = consumers_add(consumers, name, ORDERING_KEY);

	assert_non_null(made);
	return made;
}

static void a_consumer_without_lists_wants_everything(void **state)
{
	struct consumers consumers = CONSUMERS_INIT;
	const struct consumer *all = a_consumer(&consumers, "");

	(void)state;
	assert_true(consumer_wants_topic(all, "orders"));
	assert_true(consumer_wants_type(all, "order.created"));
	assert_true(consumer_wants_type(all, NULL));
	consumers_fini(&consumers);
}

static void topics_are_names_or_regular_expressions(void **state)
{
	struct consumers consumers = CONSUMERS_INIT;
	struct consumer *some = a_consumer(&consumers, "billing");

	(void)state;
	assert_int_equal(consumer_add_topic(some, "orders", NULL), 0);
	assert_int_equal(consumer_add_topic(some, "^pay(ments|outs)$", NULL), 0);
	assert_true(consumer_wants_topic(some, "orders"));
	assert_true(consumer_wants_topic(some, "payouts"));
	assert_false(consumer_wants_topic(some, "orders.eu"));
	assert_false(consumer_wants_topic(some, "payments.eu"));
	consumers_fini(&consumers);
}

static void types_are_exact_or_prefixes(void **state)
{
	struct consumers consumers = CONSUMERS_INIT;
	struct consumer *some = a_consumer(&consumers, "billing");

	(void)state;
	assert_int_equal(consumer_add_type(some, "order.*", NULL), 0);
	assert_int_equal(consumer_add_type(some, "paid", NULL), 0);
	assert_true(consumer_wants_type(some, "order.created"));
	assert_true(consumer_wants_type(some, "paid"));
	assert_false(consumer_wants_type(some, "paid.late"));
	assert_false(consumer_wants_type(some, "orders"));
	assert_false(consumer_wants_type(some, NULL));
	assert_int_equal(consumer_add_type(some, "*", NULL), 0);
	assert_true(consumer_wants_type(some, "orders"));
	assert_true(consumer_wants_type(some, NULL));
	consumers_fini(&consumers);
}

static void a_copy_is_equal_and_found_by_name(void **state)
{
	struct consumers consumers = CONSUMERS_INIT;
	struct consumers copies = CONSUMERS_INIT;
	struct consumer *some = a_consumer(&consumers, "billing");

	(void)state;
	assert_int_equal(consumer_add_topic(some, "orders", NULL), 0);
	assert_int_equal(consumer_add_type(some, "paid", NULL), 0);
	assert_int_equal(consumers_copy(&copies, some, NULL), 0);
	assert_true(consumer_equals(some, consumers_find(&copies, "billing")));
	assert_null(consumers_find(&copies, "search"));
	assert_int_equal(consumer_add_type(&copies.items[0], "other", NULL), 0);
	assert_false(consumer_equals(some, &copies.items[0]));
	copies.items[0].ordering = ORDERING_NONE;
	assert_false(consumer_equals(some, &copies.items[0]));
	consumers_fini(&copies);
	consumers_fini(&consumers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_consumer_without_lists_wants_everything),
		cmocka_unit_test(topics_are_names_or_regular_expressions),
		cmocka_unit_test(types_are_exact_or_prefixes),
		cmocka_unit_test(a_copy_is_equal_and_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
