/* SPDX-License-Identifier: Apache-2.0
 * cpu_backend.h: the CPU arm: vector kernels, repacked weights and a pool of pinned threads. Results are those of ref up to the order and
 * precision of sums (f32 instead of double); roundings stand where the ops' contracts name them. Profiles exact, exact-wo and portable.
 * The tier (portable, avx2, avx512) is chosen from CPUID at open, or by backend_options.isa; a tier that the processor lacks is refused.
 */
#ifndef CPU_CPU_BACKEND_H
#define CPU_CPU_BACKEND_H

#include "exec/backend.h"

extern const backend cpu_backend;

#endif
