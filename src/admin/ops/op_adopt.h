/*
 * `inboxd adopt`: binds the schema to another cluster and group, after a confirmation. See op.h.
 */
#ifndef ADMIN_OPS_OP_ADOPT_H
#define ADMIN_OPS_OP_ADOPT_H

#include "admin/ops/op.h"

int op_adopt(const struct op *op, const char *cluster_id, const char *group_id, struct err *err);

#endif
