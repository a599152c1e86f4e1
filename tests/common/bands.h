/* SPDX-License-Identifier: Apache-2.0
 * bands.h: how far an arm may be from ref, op by op, for conformance and lockstep alike. The error of a line (the last dimension) is |difference| / |ref's
 * line|. A band lies between what honest arms show and the smallest mutant of the op (both in records/band); where the definition leaves no freedom it is 0.
 */
#ifndef TESTS_COMMON_BANDS_H
#define TESTS_COMMON_BANDS_H

#include "op/op.h"

/* eager: profiles that round to bf16, where one sum on the edge moves an output by a whole step; else profiles that round nothing. */
double band_of(op_id op, bool eager);

#endif
