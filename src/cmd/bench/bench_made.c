/* SPDX-License-Identifier: Apache-2.0
 * bench_made.c: see bench_made.h. Bits are drawn in words and masked, so that a gigabyte takes a fraction of a second.
 * The invariant that breaks first: a weight's source lies at an address of its own, so that rotating through weights never meets the same cache
 * line twice, also on an arm that reads the source in place.
 */
#include "cmd/bench/bench_made.h"

#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "num/num_conv.h"

void made_init(made *m, exec *x) { *m = (made){.x = x, .seed = 1}; }

void made_deinit(made *m)
{
	for (int i = 0; i < m->imports; i++) {
		for (int64_t k = 0; k < m->imported_count[i]; k++) m->x->backend->release(m->x, &m->imported[i][k]);
	}
	for (int i = 0; i < m->parts; i++) {
		if (m->part[i].pages) mem_pages_free(m->part[i].p);
		else m->x->backend->free(m->x, m->part[i].p);
	}
	*m = (made){0};
}

static void *keep(made *m, void *p, bool pages, size_t bytes)
{
	if (!p || m->parts == MADE_PARTS) {
		if (m->status == NH_OK) m->status = ERR(&m->error, NH_ERR_NOMEM, "%zu bytes for the operands", bytes);
		if (p && pages) mem_pages_free(p);
		if (p && !pages) m->x->backend->free(m->x, p);
		return NULL;
	}
	m->part[m->parts].p = p;
	m->part[m->parts++].pages = pages;
	return p;
}

static void *host_pages(made *m, size_t bytes) { return m->status == NH_OK ? keep(m, mem_pages(bytes ? bytes : 1), true, bytes) : NULL; }

void *made_alloc(made *m, size_t bytes)
{
	return m->status == NH_OK ? keep(m, m->x->backend->alloc(m->x, bytes ? bytes : 1), false, bytes) : NULL;
}

/* Random words, masked: (r & keep) | set. bytes is a multiple of 8. */
static void fill(made *m, void *p, size_t bytes, uint64_t mask, uint64_t set)
{
	uint64_t *w = p, seed = rng_mix(m->seed++);
	for (size_t i = 0; i < bytes / 8; i++) w[i] = (rng_mix(seed + i) & mask) | set;
}

tensor made_tensor(made *m, num_dtype dtype, int rank, const int64_t *shape, double scale)
{
	size_t bytes = 0;
	tensor t = tensor_nd(NULL, dtype, rank, shape);
	if (!tensor_size(dtype, rank, shape, &bytes)) {
		if (m->status == NH_OK) m->status = ERR(&m->error, NH_ERR_LIMIT, "a shape is too large");
		return t;
	}
	t.data = made_alloc(m, bytes + 64);
	if (!t.data || scale == 0) return t;
	int64_t n = tensor_count(&t);
	if (n > (int64_t)1 << 24 && (dtype == NUM_BF16 || dtype == NUM_F32 || dtype == NUM_E4M3)) { /* pools: by words */
		if (dtype == NUM_BF16) fill(m, t.data, bytes / 8 * 8, 0x81FF81FF81FF81FFu, 0x3C003C003C003C00u);
		else if (dtype == NUM_F32) fill(m, t.data, bytes / 8 * 8, 0x807FFFFF807FFFFFu, 0x3D0000003D000000u);
		else fill(m, t.data, bytes / 8 * 8, 0xBFBFBFBFBFBFBFBFu, 0);
		return t;
	}
	uint64_t seed = m->seed++;
	for (int64_t i = 0; i < n; i++) {
		double u = rng_unit(seed, (uint64_t)i, 0) + rng_unit(seed, (uint64_t)i, 1) + rng_unit(seed, (uint64_t)i, 2) - 1.5;
		num_store(dtype, t.data, (size_t)i, 2 * u * scale);
	}
	return t;
}

tensor made_i32(made *m, int64_t n, int32_t (*at)(void *user, int64_t i), void *user)
{
	tensor t = tensor_1d(made_alloc(m, (size_t)n * 4), NUM_I32, n);
	for (int64_t i = 0; t.data && i < n; i++) ((int32_t *)t.data)[i] = at(user, i);
	return t;
}

/* --- weights --- */

static const struct {
	const char *name;
	num_scheme scheme;
	num_dtype dtype;
} FORMATS[] = {{"bf16", NUM_SCHEME_NONE, NUM_BF16}, {"f32", NUM_SCHEME_NONE, NUM_F32}, {"fp8", NUM_SCHEME_FP8, NUM_E4M3},
    {"nvfp4", NUM_SCHEME_NVFP4, NUM_E2M1X2}, {"w4a16", NUM_SCHEME_W4A16, NUM_E2M1X2}};

static int format_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
		if (strcmp(FORMATS[i].name, name) == 0) return (int)i;
	}
	return -1;
}

size_t made_weight_bytes(const char *format, int64_t n, int64_t k)
{
	int f = format_of(format);
	if (f < 0) return 0;
	const weight w = {.scheme = FORMATS[f].scheme, .dtype = FORMATS[f].dtype, .n = n, .k = k};
	return weight_bytes(&w);
}

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

weight *made_weights(made *m, const char *format, int64_t n, int64_t k, int64_t count)
{
	int f = format_of(format);
	if (f < 0 || n < 1 || k < 1 || count < 1 || m->imports == (int)ARRAY_LEN(m->imported)) {
		if (m->status == NH_OK) m->status = ERR(&m->error, NH_ERR_ARG, "format: is %.40s, expected bf16, f32, fp8, nvfp4 or w4a16", format);
		return NULL;
	}
	bool fp4 = FORMATS[f].dtype == NUM_E2M1X2;
	size_t data = rounded((size_t)n * (size_t)k * num_bytes(FORMATS[f].dtype) / (fp4 ? 2 : 1)),
	       scales = fp4 ? rounded((size_t)n * (size_t)k / 16) : 0;
	weight *w = host_pages(m, (size_t)count * sizeof *w);
	char *source = host_pages(m, (data + scales) * (size_t)count);
	if (!w || !source) return NULL;
	m->imported[m->imports] = w;
	m->imports++;
	for (int64_t i = 0; i < count && m->status == NH_OK; i++, source += data + scales) {
		w[i] =
		    (weight){.name = "made up", .scheme = FORMATS[f].scheme, .dtype = FORMATS[f].dtype, .n = n, .k = k, .data = source, .scale = 1};
		switch (FORMATS[f].dtype) {
		case NUM_F32: fill(m, source, data, 0x807FFFFF807FFFFFu, 0x3D0000003D000000u); break;
		case NUM_BF16: fill(m, source, data, 0x81FF81FF81FF81FFu, 0x3C003C003C003C00u); break;
		case NUM_E4M3: fill(m, source, data, 0xBFBFBFBFBFBFBFBFu, 0); break;
		default:
			fill(m, source, data, ~(uint64_t)0, 0);
			fill(m, source + data, scales, 0x0F0F0F0F0F0F0F0Fu, 0x3030303030303030u);
			w[i].block_scale = source + data;
			break;
		}
		if (FORMATS[f].scheme != NUM_SCHEME_NONE) {
			w[i].scale = 0.02f;
			w[i].input_scale = FORMATS[f].scheme == NUM_SCHEME_W4A16 ? 0 : 0.02f;
		}
		m->status = m->x->backend->import(m->x, &w[i], &m->error);
		m->imported_count[m->imports - 1] = i + (m->status == NH_OK);
	}
	return m->status == NH_OK ? w : NULL;
}
