/* The order of deliveries (`inbox.ordering`): none, one message of a key at a time, or one message of a partition at
 * a time. And when the next one starts (`inbox.next_after`): after the answer to the one before, or after the COMMIT of
 * that answer. */
#ifndef MODEL_MESSAGE_ORDERING_H
#define MODEL_MESSAGE_ORDERING_H

enum ordering { ORDERING_NONE, ORDERING_KEY, ORDERING_PARTITION };
enum next_after { NEXT_AFTER_ANSWER, NEXT_AFTER_COMMIT };

#endif
