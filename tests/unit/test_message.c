/* message.c: a message is a copy of its own, in one block that knows its size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "model/message/message.h"

static struct message an_order(void)
{
	return (struct message){
		.seq = 9001,
		.event_id = "A234",
		.source = "orders",
		.type = "order.created",
		.topic = "orders",
		.partition = 3,
		.offset = 918273,
		.timestamp_ms = -1,
		.key = { "c-17", 4 },
		.payload = { "{\"order\":17}", 12 },
		.headers = { "[]", 2 },
		.delivery_count = 2,
		.suspect = true,
	};
}

static struct message *a_copy_of(const struct message *from)
{
	struct message *message = NULL;

	assert_int_equal(message_new(&message, from, NULL), 0);
	return message;
}

static void a_message_has_the_values_it_was_made_from(void **state)
{
	const struct message from = an_order();
	struct message *message = a_copy_of(&from);

	(void)state;
	assert_int_equal(message->seq, 9001);
	assert_string_equal(message->event_id, "A234");
	assert_string_equal(message->source, "orders");
	assert_string_equal(message->type, "order.created");
	assert_string_equal(message->topic, "orders");
	assert_int_equal(message->offset, 918273);
	assert_true(bytes_equal(message->key, from.key));
	assert_true(bytes_equal(message->payload, from.payload));
	assert_true(bytes_equal(message->headers, from.headers));
	assert_int_equal(message->delivery_count, 2);
	assert_true(message->suspect);
	message_free(message);
}

static void a_message_owns_copies_of_its_values(void **state)
{
	char id[] = "A234";
	char payload[] = "body";
	struct message from = an_order();
	struct message *message;

	(void)state;
	from.event_id = id;
	from.payload = (struct bytes){ payload, 4 };
	message = a_copy_of(&from);
	memset(id, 'x', 4);
	memset(payload, 'x', 4);
	assert_string_equal(message->event_id, "A234");
	assert_memory_equal(message->payload.data, "body", 4);
	message_free(message);
}

static void the_size_of_a_message_is_the_size_of_its_values(void **state)
{
	const struct message from = an_order();
	struct message *message = a_copy_of(&from);
	size_t held = strlen("A234orders"
			     "order.created"
			     "orders") +
		      4 + 12 + 2;

	(void)state;
	assert_true(message->bytes >= sizeof(*message) + held);
	assert_true(message->bytes <= sizeof(*message) + held + 16);
	message_free(message);
}

static void absent_and_empty_values_stay_different(void **state)
{
	struct message from = an_order();
	struct message *message;

	(void)state;
	from.type = NULL;
	from.key = (struct bytes){ "", 0 };
	from.payload = (struct bytes){ NULL, 0 };
	message = a_copy_of(&from);
	assert_null(message->type);
	assert_non_null(message->key.data);
	assert_int_equal(message->key.length, 0);
	assert_null(message->payload.data);
	message_free(message);
}

static void an_empty_key_is_a_key_and_no_key_is_none(void **state)
{
	struct message message = an_order();

	(void)state;
	message.key = (struct bytes){ "", 0 };
	assert_true(message_is_keyed(&message));
	message.key = (struct bytes){ NULL, 0 };
	assert_false(message_is_keyed(&message));
}

static void without_memory_no_message_is_created(void **state)
{
	const struct message from = an_order();
	struct message *message = NULL;
	struct err err = ERR_INIT;

	(void)state;
	alloc_fail_at(1);
	assert_int_equal(message_new(&message, &from, &err), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	assert_null(message);
	assert_int_equal(err.fault, FAULT_MEMORY);
	message_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_has_the_values_it_was_made_from),
		cmocka_unit_test(a_message_owns_copies_of_its_values),
		cmocka_unit_test(the_size_of_a_message_is_the_size_of_its_values),
		cmocka_unit_test(absent_and_empty_values_stay_different),
		cmocka_unit_test(an_empty_key_is_a_key_and_no_key_is_none),
		cmocka_unit_test(without_memory_no_message_is_created),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
