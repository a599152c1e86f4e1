/* SPDX-License-Identifier: Apache-2.0
 * cpu_isa.h: what this processor can do, and the tiers of kernels that follow from it. Internal to the room.
 */
#ifndef CPU_CPU_ISA_H
#define CPU_CPU_ISA_H

#include <stdbool.h>

/* Ascending: a processor that has a tier has those below it. avx512 means F, BW, VL, DQ, VBMI, VNNI and BF16. */
typedef enum { CPU_PORTABLE, CPU_AVX2, CPU_AVX512, CPU_TIERS } cpu_tier;

const char *cpu_tier_name(cpu_tier t);
/* False for a name that is none. */
bool cpu_tier_find(const char *name, cpu_tier *out);
/* The highest tier of this processor and operating system. */
cpu_tier cpu_tier_best(void);

#endif
