/* Which consumers want a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Of a list of names that ends with NULL. */
static const char *is_known(void *arg, const char *name)
{
	for (const char *const *known = arg; *known != NULL; known++) {
		if (strcmp(*known, name) == 0)
			return *known;
	}
	return NULL;
}

static void a_new_consumer_takes_no_handler_from_the_one_without_a_name(void **state)
{
	static const char *all[] = { "", "billing", "stats", NULL };
	static const char *ended[] = { "billing", "stats", NULL };
	struct consumers names = CONSUMERS_INIT;

	(void)state;
	assert_int_equal(consumers_add_unnamed(&names, "billing", NULL), 0);
	assert_string_equal(consumers_of_handler(&names, "billing", NULL, is_known, all), "");
	assert_string_equal(consumers_of_handler(&names, "stats", NULL, is_known, all), "stats");
	assert_string_equal(consumers_of_handler(&names, "other", NULL, is_known, all), "");
	assert_string_equal(
		consumers_of_handler(&names, "billing", "billing", is_known, all), "billing");
	assert_string_equal(
		consumers_of_handler(&names, "billing", NULL, is_known, ended), "billing");
	assert_null(consumers_of_handler(&names, "other", NULL, is_known, ended));
	consumers_fini(&names);
}

static void an_earlier_name_means_the_consumer(void **state)
{
	static const char *known[] = { "billing", "find", NULL };
	struct consumers names = CONSUMERS_INIT;
	struct consumers copies = CONSUMERS_INIT;

	(void)state;
	assert_int_equal(consumers_add_rename(&names, "", "billing", false, NULL), 0);
	assert_false(consumers_are_moving(&names));
	assert_int_equal(consumers_add_rename(&names, "search", "find", true, NULL), 0);
	assert_true(consumers_are_moving(&names));
	assert_string_equal(consumers_present_name(&names, "search"), "find");
	assert_string_equal(consumers_present_name(&names, "find"), "find");
	assert_string_equal(consumers_of_handler(&names, "x", NULL, is_known, known), "billing");
	assert_string_equal(consumers_of_handler(&names, "x", "search", is_known, known), "find");
	assert_string_equal(consumers_of_handler(&names, "search", NULL, is_known, known), "find");
	assert_int_equal(consumers_copy_names(&copies, &names, NULL), 0);
	assert_true(consumers_have_same_names(&copies, &names));
	assert_int_equal(consumers_add_rename(&copies, "mail", "post", false, NULL), 0);
	assert_false(consumers_have_same_names(&copies, &names));
	consumers_fini(&copies);
	consumers_fini(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_consumer_without_lists_wants_everything),
		cmocka_unit_test(topics_are_names_or_regular_expressions),
		cmocka_unit_test(types_are_exact_or_prefixes),
		cmocka_unit_test(a_copy_is_equal_and_found_by_name),
		cmocka_unit_test(a_new_consumer_takes_no_handler_from_the_one_without_a_name),
		cmocka_unit_test(an_earlier_name_means_the_consumer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
