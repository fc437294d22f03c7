/*
 * What PostgreSQL's jsonb and text refuse although it is good JSON (rule R9), told before it can
 * fail a whole batch of completions. Pure. Any thread.
 */
#ifndef DISPATCH_PROTOCOL_STORABLE_H
#define DISPATCH_PROTOCOL_STORABLE_H

#include "base/bytes.h"

/* Why jsonb would refuse this JSON text, as the end of a sentence ("it holds …", without quotes
 * or backslashes); NULL when it takes it. `json` must be valid JSON in UTF-8. */
const char *json_refusal(struct bytes json);

/* The same for a decoded string that is to be stored as text. */
const char *text_refusal(struct bytes text);

#endif
