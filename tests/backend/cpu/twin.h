/* SPDX-License-Identifier: Apache-2.0
 * twin.h: one case on two arms. A case is a function that draws its inputs from a seed, runs ops on the exec it is given and hands back
 * outputs; here it runs on ref and on every tier of the CPU arm that this machine has, with one, two and three threads, in each profile.
 * The distance of an output from ref's is |difference| / |ref's| over the whole output, and must stay within the band that the test states;
 * numbers of threads, and a row alone against the row in a batch, must not change a bit.
 */
#ifndef TWIN_H
#define TWIN_H

#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"
#include "base/base_arena.h"
#include "base/base_rng.h"
#include "num/num_conv.h"
#include "tensor/paged.h"
#include "test.h"

#define TWIN_OUTPUTS 8

typedef struct twin {
	exec *x;
	const backend *arm;
	arena mem;
	uint64_t seed, drawn;
	int64_t only; /* the row, or -1: all */
	double *out[TWIN_OUTPUTS];
	int64_t rows[TWIN_OUTPUTS], width[TWIN_OUTPUTS];
	int outputs;
} twin;

typedef void (*twin_fn)(twin *w, const void *shape);

/* Between -1 and 1, densest at 0, and a bf16: the arms' types all hold it. */
BASE_UNUSED static double twin_rand(twin *w)
{
	const uint64_t n = w->drawn++;
	return num_round_bf16(rng_unit(w->seed, n, 0) + rng_unit(w->seed, n, 1) - 1.0);
}

BASE_UNUSED static tensor twin_zeros(twin *w, num_dtype type, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
	const int64_t shape[4] = {a, b, c, d};
	size_t bytes = 0;
	assert_true(tensor_size(type, rank, shape, &bytes));
	void *p = arena_alloc(&w->mem, bytes + 1);
	assert_non_null(p);
	memset(p, 0, bytes + 1);
	return tensor_nd(p, type, rank, shape);
}

BASE_UNUSED static double twin_get(const tensor *t, int64_t i) { return num_load(t->dtype, t->data, (size_t)i); }
BASE_UNUSED static void twin_set(const tensor *t, int64_t i, double v) { num_store(t->dtype, t->data, (size_t)i, v); }

BASE_UNUSED static void twin_fill(twin *w, const tensor *t, double middle, double scale)
{
	for (int64_t i = 0; i < tensor_count(t); i++) twin_set(t, i, num_round_bf16(middle + scale * twin_rand(w)));
}

BASE_UNUSED static tensor twin_random(twin *w, num_dtype type, int64_t a, int64_t b, double middle, double scale)
{
	tensor t = twin_zeros(w, type, 2, a, b, 1, 1);
	twin_fill(w, &t, middle, scale);
	return t;
}

BASE_UNUSED static tensor twin_vector(twin *w, num_dtype type, int64_t n, double middle, double scale)
{
	tensor t = twin_zeros(w, type, 1, n, 1, 1, 1);
	twin_fill(w, &t, middle, scale);
	return t;
}

/* from, from + step, ... */
BASE_UNUSED static tensor twin_count(twin *w, int64_t n, int32_t from, int32_t step)
{
	tensor t = twin_zeros(w, NUM_I32, 1, n, 1, 1, 1);
	for (int64_t i = 0; i < n; i++) ((int32_t *)t.data)[i] = from + (int32_t)i * step;
	return t;
}

/* The rows that the run computes. */
BASE_UNUSED static tensor twin_rows(const twin *w, const tensor *t) { return w->only < 0 ? *t : tensor_rows(t, w->only, 1); }

/* A contiguous tensor as it is now; integers compare as numbers. */
BASE_UNUSED static void twin_out(twin *w, const tensor *t)
{
	const int64_t n = tensor_count(t);
	assert_true(w->outputs < TWIN_OUTPUTS && n > 0);
	double *v = arena_alloc(&w->mem, (size_t)n * sizeof *v);
	for (int64_t i = 0; i < n; i++) v[i] = t->dtype == NUM_I32 ? (double)((const int32_t *)t->data)[i] : twin_get(t, i);
	w->rows[w->outputs] = t->shape[0], w->width[w->outputs] = n / t->shape[0];
	w->out[w->outputs++] = v;
}

BASE_UNUSED static bool twin_open(twin *w, const backend *arm, const char *isa, int threads, const char *profile, uint64_t seed)
{
	*w = (twin){.arm = arm, .seed = seed, .only = -1};
	nh_error e = {0};
	backend_options o = {.num = num_profile(profile), .isa = isa, .threads = threads};
	const nh_status s = arm->open(&w->x, &o, &e);
	if (s == NH_ERR_UNSUPPORTED && isa) return false;
	if (s != NH_OK) fail_msg("open %s %s: %s", arm->name, profile, e.text);
	arena_init(&w->mem);
	return true;
}

BASE_UNUSED static void twin_close(twin *w)
{
	w->arm->close(w->x);
	arena_deinit(&w->mem);
}

/* The exec must have failed with a text that holds `part`. */
BASE_UNUSED static void twin_failed(twin *w, const char *part)
{
	nh_error e = {0};
	assert_int_not_equal(exec_status(w->x, &e), NH_OK);
	if (!strstr(e.text, part)) fail_msg("'%s' does not say '%s'", e.text, part);
	exec_clear(w->x);
}

BASE_UNUSED static void twin_well(const twin *w)
{
	nh_error e = {0};
	if (exec_status(w->x, &e) != NH_OK) fail_msg("%s", e.text);
	for (int op = 0; op < OP_COUNT && w->arm == &cpu_backend; op++)
		if (w->x->counters.op[op].reference_calls) fail_msg("%s ran the reference op", op_name((op_id)op));
}

/* |a - b| / |b|; infinite where a number stands against none. */
BASE_UNUSED static double twin_distance(const double *a, const double *b, int64_t n)
{
	double far = 0, size = 0;
	for (int64_t i = 0; i < n; i++) {
		if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) {
			size += isfinite(b[i]) ? b[i] * b[i] : 0;
			continue;
		}
		if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
		far += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
	}
	return far == 0 ? 0 : sqrt(far / size);
}

static const char *const TWIN_TIERS[] = {"portable", "avx2", "avx512"};
static const char *const TWIN_PROFILES[] = {"exact", "portable"};

/* The largest distances seen, by profile. */
typedef struct twin_seen {
	double far[2];
	int runs;
} twin_seen;

/* One tier and profile: threads, then each of the rows alone. */
BASE_UNUSED static void twin_tier(
    twin_fn fn, const void *shape, int64_t rows, uint64_t seed, const char *isa, int profile, double band, const twin *ref, twin_seen *seen)
{
	twin one, other;
	if (!twin_open(&one, &cpu_backend, isa, 1, TWIN_PROFILES[profile], seed)) {
		if (!seen->runs) printf("NOT RUN: %s, this processor has no such tier\n", isa);
		return;
	}
	fn(&one, shape);
	twin_well(&one);
	assert_int_equal(one.outputs, ref->outputs);
	for (int o = 0; o < one.outputs; o++) {
		assert_true(one.rows[o] == ref->rows[o] && one.width[o] == ref->width[o]);
		const double far = twin_distance(one.out[o], ref->out[o], one.rows[o] * one.width[o]);
		seen->far[profile] = far > seen->far[profile] ? far : seen->far[profile];
		if (!(far <= band)) fail_msg("%s %s: output %d is %g from ref, band %g", isa, TWIN_PROFILES[profile], o, far, band);
	}
	for (int threads = 2; threads <= 3; threads++) {
		assert_true(twin_open(&other, &cpu_backend, isa, threads, TWIN_PROFILES[profile], seed));
		fn(&other, shape);
		for (int o = 0; o < one.outputs; o++)
			if (memcmp(one.out[o], other.out[o], (size_t)(one.rows[o] * one.width[o]) * sizeof(double)) != 0)
				fail_msg("%s: output %d changes with %d threads", isa, o, threads);
		twin_close(&other);
	}
	for (int64_t r = 0; r < rows; r++) {
		assert_true(twin_open(&other, &cpu_backend, isa, 1, TWIN_PROFILES[profile], seed));
		other.only = r;
		fn(&other, shape);
		for (int o = 0; o < other.outputs; o++) /* those that have rows come first */
			if (memcmp(one.out[o] + r * one.width[o], other.out[o], (size_t)one.width[o] * sizeof(double)) != 0)
				fail_msg("%s: output %d of row %lld is another one alone", isa, o, (long long)r);
		twin_close(&other);
	}
	seen->runs++;
	twin_close(&one);
}

/* All of it. rows: how many of the case's rows are run alone too. bands: exact, eager. */
BASE_UNUSED static void twin_check(twin_fn fn, const void *shape, int64_t rows, const double bands[2], twin_seen *seen)
{
	for (int profile = 0; profile < 2; profile++) {
		twin ref;
		const uint64_t seed = 7 + (uint64_t)profile;
		assert_true(twin_open(&ref, &ref_backend, NULL, 1, TWIN_PROFILES[profile], seed));
		fn(&ref, shape);
		twin_well(&ref);
		for (int t = 0; t < 3; t++) twin_tier(fn, shape, rows, seed, TWIN_TIERS[t], profile, bands[profile], &ref, seen);
		twin_close(&ref);
	}
}

#define TWIN_REPORT(name, seen) \
	print_message("%s: %d runs, exact %.2g, eager %.2g from ref\n", name, (seen).runs, (seen).far[0], (seen).far[1])

#endif
