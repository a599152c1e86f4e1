/* SPDX-License-Identifier: Apache-2.0
 * helper_exec.c: the good calls of tests/op, for this folder's programs too.
 */
#include "op/helper_calls.c"
