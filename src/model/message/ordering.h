/* The order of deliveries (`inbox.ordering`): none, one message of a key at a time, or one message of a partition at
 * a time. */
#ifndef MODEL_MESSAGE_ORDERING_H
#define MODEL_MESSAGE_ORDERING_H

enum ordering { ORDERING_NONE, ORDERING_KEY, ORDERING_PARTITION };

#endif
