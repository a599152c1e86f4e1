/* SPDX-License-Identifier: Apache-2.0
 * null_backend.h: an arm that computes nothing: what is left of a step is the host's own work, which is what it is there to measure. Not in the registry:
 * nobody gets it by accident. Drawn tokens are a fixed function of the position; everything else stays as it lies in memory.
 */
#ifndef BACKEND_NULL_NULL_BACKEND_H
#define BACKEND_NULL_NULL_BACKEND_H

#include "exec/backend.h"

extern const backend null_backend;

#endif
