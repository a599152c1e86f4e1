/* SPDX-License-Identifier: Apache-2.0
 * cpu_isa.c: tiers by CPUID. The compiler's own look-up also asks the operating system whether it saves the wide registers.
 */
#include "backend/cpu/cpu_isa.h"

#include <string.h>

static const char *const NAMES[CPU_TIERS] = {"portable", "avx2", "avx512"};

const char *cpu_tier_name(cpu_tier t) { return (unsigned)t < CPU_TIERS ? NAMES[t] : "?"; }

bool cpu_tier_find(const char *name, cpu_tier *out)
{
	for (int i = 0; i < CPU_TIERS; i++) {
		if (strcmp(NAMES[i], name) != 0) continue;
		*out = (cpu_tier)i;
		return true;
	}
	return false;
}

cpu_tier cpu_tier_best(void)
{
#if defined __x86_64__
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_PORTABLE;
	const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
	                  __builtin_cpu_supports("avx512bf16");
	return wide ? CPU_AVX512 : CPU_AVX2;
#else
	return CPU_PORTABLE;
#endif
}
