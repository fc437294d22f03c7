/* How messages wait for each other; see docs/adr and the contract's inbox.ordering. */
#ifndef MODEL_ORDERING_H
#define MODEL_ORDERING_H

enum ordering { ORDERING_NONE, ORDERING_KEY, ORDERING_PARTITION };

#endif
