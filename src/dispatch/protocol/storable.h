/*
 * Finds values that are valid JSON but that PostgreSQL's jsonb or text would refuse (rule R9). Without this check one
 * such value would fail the transaction that settles many messages. Pure. Any thread.
 */
#ifndef DISPATCH_PROTOCOL_STORABLE_H
#define DISPATCH_PROTOCOL_STORABLE_H

#include "base/bytes.h"

/* Why jsonb would refuse this JSON text, as the end of a sentence ("it holds …", without quotes or backslashes).
 * NULL: jsonb accepts it. `json` must be valid JSON in UTF-8. */
const char *json_refusal(struct bytes json);
/* The same for a text that may be longer than a result. */
const char *json_refusal_of_any_length(struct bytes json);

/* The same for a decoded string that is to be stored as text. */
const char *text_refusal(struct bytes text);

#endif
