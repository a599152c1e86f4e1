/* SPDX-License-Identifier: Apache-2.0
 * wfmt_list.h: the formats of this build, one line each. Internal to the room.
 */
#ifndef TENSOR_WFMT_LIST_H
#define TENSOR_WFMT_LIST_H

#include "tensor/weight.h"

extern const wfmt wfmt_bf16;
extern const wfmt wfmt_fp8;
extern const wfmt wfmt_nvfp4;
extern const wfmt wfmt_w4a16;

#endif
