/* SPDX-License-Identifier: Apache-2.0
 * ref_backend.h: the reference arm, which is the definition of every op: plain scalar C, sums in double, roundings where the op's
 * contract names them and nowhere else. One thread. Profiles exact, exact-wo, portable and hopper; blackwell is refused at open.
 */
#ifndef REF_REF_BACKEND_H
#define REF_REF_BACKEND_H

#include "exec/backend.h"

extern const backend ref_backend;

/* Every slot is filled. The functions want an exec that ref_backend opened. */
extern const op_table ref_ops;

#endif
