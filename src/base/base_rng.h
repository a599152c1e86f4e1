/* SPDX-License-Identifier: Apache-2.0
 * base_rng.h: a counter-based generator: the value is a pure function of (seed, counter, lane), so a draw at a position never
 * depends on what was drawn before or by whom. The mixing function is SplitMix64's finaliser (Steele, Lea, Flood 2014), applied
 * to the seed first and then to seed-mixed counter and lane.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

static inline uint64_t rng_mix(uint64_t z)
{
	z += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

static inline uint64_t rng_u64(uint64_t seed, uint64_t counter, uint64_t lane) { return rng_mix(rng_mix(rng_mix(seed) ^ counter) ^ lane); }

/* Uniform in [0, 1), 53 bits. */
static inline double rng_unit(uint64_t seed, uint64_t counter, uint64_t lane)
{
	return (double)(rng_u64(seed, counter, lane) >> 11) * 0x1p-53;
}

#endif
