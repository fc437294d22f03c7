/*
 * `inboxd adopt`: binds the schema to another cluster and group, after a confirmation. See op.h.
 */
#ifndef OPS_ADOPT_H
#define OPS_ADOPT_H

#include "ops/op.h"

int op_adopt(const struct op *op, const char *cluster_id, const char *group_id, struct err *err);

#endif
