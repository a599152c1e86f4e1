/* SPDX-License-Identifier: Apache-2.0
 * dummy.c: how codes are drawn fast. A hash of (seed and name, word of the output) gives 64 bits at a time. FP4: the eight magnitudes of e2m1
 * are about equally likely under a normal distribution whose block maximum is 6, so the bits are the codes. FP8 and BF16: 16 bits choose from
 * the 65536 quantiles of the normal distribution, rounded. Chunks of a tensor are filled side by side.
 */
#include "load/dummy.h"

#include <math.h>
#include <string.h>

#include "base/base_jobs.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "num/num_conv.h"

#define QUANTILES 65536
#define TABLES 8
#define WORDS_CHUNK 8192        /* words of hash a job */
#define BYTES_SLACK DUMMY_SLACK /* outputs are filled in whole words */
#define HOLD_MOST (64u << 20)   /* a larger buffer is not held between matrices */
#define FP4_CODE_STD 2.92617498 /* of uniform e2m1 codes: sqrt of the mean of 0, .25, 1, 2.25, 4, 9, 16, 36 */

typedef struct block {
	struct block *next;
	void *bytes; /* own, pages */
} block;

typedef struct buffer {
	uint8_t *bytes; /* own, pages */
	size_t room;
} buffer;

struct dummy {
	uint64_t seed;
	jobs *jobs;    /* own */
	block *kept;   /* own */
	buffer matrix; /* what was not kept */
	buffer small;
	double *unit;           /* own [QUANTILES]: of the normal distribution, ascending */
	uint8_t *e4m3;          /* own [QUANTILES] */
	uint16_t *bf16[TABLES]; /* own [QUANTILES] each */
	double bf16_std[TABLES];
	int next_table;
	st_tensor t; /* handed out by dummy_tensor */
};

nh_status dummy_open(dummy **out, uint64_t seed, int threads, nh_error *e)
{
	*out = NULL;
	dummy *d = mem_alloc(sizeof *d);
	if (!d) return ERR_NOMEM(e);
	d->seed = seed;
	nh_status s = jobs_create(&d->jobs, threads, e);
	if (s != NH_OK) dummy_close(d);
	else *out = d;
	return s;
}

void dummy_close(dummy *d)
{
	if (!d) return;
	jobs_destroy(d->jobs);
	while (d->kept) {
		block *b = d->kept;
		d->kept = b->next;
		mem_pages_free(b->bytes);
		mem_free(b);
	}
	mem_pages_free(d->matrix.bytes);
	mem_pages_free(d->small.bytes);
	for (int i = 0; i < TABLES; i++) mem_free(d->bf16[i]);
	mem_free(d->unit);
	mem_free(d->e4m3);
	mem_free(d);
}

static void *room_for(dummy *d, buffer *b, size_t bytes, bool keep)
{
	if (!mem_add(bytes, BYTES_SLACK, &bytes)) return NULL;
	if (keep) {
		block *k = mem_alloc(sizeof *k);
		if (!k) return NULL;
		if (!(k->bytes = mem_pages(bytes))) {
			mem_free(k);
			return NULL;
		}
		k->next = d->kept;
		d->kept = k;
		return k->bytes;
	}
	if (b->room < bytes) {
		mem_pages_free(b->bytes);
		b->bytes = mem_pages(bytes);
		b->room = b->bytes ? bytes : 0;
	}
	return b->bytes;
}

void dummy_done(dummy *d)
{
	if (d->matrix.room <= HOLD_MOST) return;
	mem_pages_free(d->matrix.bytes);
	d->matrix = (buffer){0};
}

/* --- distributions --- */

/* Quantile (i + 1/2) / 65536 by Newton's method from the one before: the steps are small, so that few rounds settle it. */
static bool have_unit(dummy *d)
{
	if (d->unit) return true;
	if (!(d->unit = mem_array(QUANTILES, sizeof *d->unit))) return false;
	double x = -4.5;
	for (int i = 0; i < QUANTILES / 2; i++) {
		double p = (i + 0.5) / QUANTILES;
		for (int round = 0; round < (i < 16 ? 40 : 4); round++)
			x -= (0.5 * erfc(-x * M_SQRT1_2) - p) / (exp(-0.5 * x * x) / sqrt(2 * M_PI));
		d->unit[i] = x;
		d->unit[QUANTILES - 1 - i] = -x;
	}
	return true;
}

static const uint8_t *e4m3_table(dummy *d)
{
	if (d->e4m3) return d->e4m3;
	if (!have_unit(d) || !(d->e4m3 = mem_alloc(QUANTILES))) return NULL;
	for (int i = 0; i < QUANTILES; i++) d->e4m3[i] = num_f64_to_e4m3(d->unit[i] * (448 / d->unit[QUANTILES - 1]));
	return d->e4m3;
}

static const uint16_t *bf16_table(dummy *d, double std)
{
	for (int i = 0; i < TABLES; i++)
		if (d->bf16[i] && d->bf16_std[i] == std) return d->bf16[i];
	int slot = d->next_table++ % TABLES;
	if (!have_unit(d) || (!d->bf16[slot] && !(d->bf16[slot] = mem_array(QUANTILES, sizeof(uint16_t))))) return NULL;
	for (int i = 0; i < QUANTILES; i++) num_store(NUM_BF16, d->bf16[slot], (size_t)i, d->unit[i] * std);
	d->bf16_std[slot] = std;
	return d->bf16[slot];
}

/* Block scales on the e4m3 grid: 448 stands for the tensor's maximum of 5 deviations, a block of 16 has one of 1.2 to 3.5. */
static const uint8_t BLOCK_SCALES[16] = {0x6C, 0x6D, 0x6E, 0x6F, 0x70, 0x71, 0x71, 0x72, 0x72, 0x73, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78};

static double block_scale_rms(void)
{
	double sum = 0;
	for (int i = 0; i < 16; i++) sum += (double)num_e4m3_value[BLOCK_SCALES[i]] * (double)num_e4m3_value[BLOCK_SCALES[i]];
	return sqrt(sum / 16);
}

/* --- filling --- */

typedef struct filling {
	uint64_t seed;
	int64_t first, words; /* of hash; out begins with word `first` */
	void *out;
	const uint8_t *code;  /* [QUANTILES]: four bytes a word */
	const uint16_t *half; /* [QUANTILES]: four bf16 a word */
	const double *unit;   /* [QUANTILES]: four f32 a word, times std */
	double std;
	bool scales; /* sixteen block scales a word; none of the four: the word's bytes themselves */
} filling;

static int word_bytes(const filling *f) { return f->code ? 4 : f->unit || f->scales ? 16 : 8; }

/* One loop a kind: a choice in each word would cost as much as the word. */
static void fill_chunk(void *user, int64_t chunk)
{
	const filling *f = user;
	const int64_t from = chunk * WORDS_CHUNK, n = f->words - from < WORDS_CHUNK ? f->words - from : WORDS_CHUNK;
	const uint64_t seed = f->seed + (uint64_t)(f->first + from);
	uint8_t *to = (uint8_t *)f->out + from * word_bytes(f);
	if (f->code) {
		for (int64_t i = 0; i < n; i++) {
			const uint64_t v = rng_mix(seed + (uint64_t)i);
			for (int j = 0; j < 4; j++) to[4 * i + j] = f->code[v >> (16 * j) & 0xFFFF];
		}
	} else if (f->half) {
		uint16_t *out = (uint16_t *)(void *)to;
		for (int64_t i = 0; i < n; i++) {
			const uint64_t v = rng_mix(seed + (uint64_t)i);
			for (int j = 0; j < 4; j++) out[4 * i + j] = f->half[v >> (16 * j) & 0xFFFF];
		}
	} else if (f->unit) {
		float *out = (float *)(void *)to;
		for (int64_t i = 0; i < n; i++) {
			const uint64_t v = rng_mix(seed + (uint64_t)i);
			for (int j = 0; j < 4; j++) out[4 * i + j] = (float)(f->std * f->unit[v >> (16 * j) & 0xFFFF]);
		}
	} else if (f->scales) {
		for (int64_t i = 0; i < n; i++) {
			const uint64_t v = rng_mix(seed + (uint64_t)i);
			for (int j = 0; j < 16; j++) to[16 * i + j] = BLOCK_SCALES[v >> (4 * j) & 15];
		}
	} else {
		for (int64_t i = 0; i < n; i++) {
			const uint64_t v = rng_mix(seed + (uint64_t)i);
			memcpy(to + 8 * i, &v, sizeof v);
		}
	}
}

/* Bytes [from, from + bytes) of what the filling describes, in whole words. */
static void fill(dummy *d, filling f, uint64_t from, size_t bytes)
{
	const size_t word = (size_t)word_bytes(&f);
	f.first = (int64_t)(from / word);
	f.words = (int64_t)((bytes + word - 1) / word);
	int64_t chunks = (f.words + WORDS_CHUNK - 1) / WORDS_CHUNK;
	if (chunks > 1) jobs_for(d->jobs, chunks, fill_chunk, &f);
	else if (chunks == 1) fill_chunk(&f, 0);
}

static uint64_t seed_of(const dummy *d, const char *name, uint64_t lane)
{
	uint64_t h = 0xCBF29CE484222325u; /* FNV-1a */
	for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001B3u;
	return rng_u64(d->seed, h, lane);
}

static bool ends(const char *name, const char *tail)
{
	size_t n = strlen(name), k = strlen(tail);
	return n >= k && strcmp(name + n - k, tail) == 0;
}

/* So wide that activations stay of order one, attention looks somewhere and the best tokens differ by about a nat. */
static double gain_of(const char *module)
{
	static const struct {
		const char *tail;
		double gain;
	} GAINS[] = {{"q_proj", 1.5}, {"k_proj", 1.5}, {"down_proj", 0.6}, {"lm_head", 3}};
	for (size_t i = 0; i < ARRAY_LEN(GAINS); i++)
		if (ends(module, GAINS[i].tail)) return GAINS[i].gain;
	return 1;
}

static double std_of(const weight *w) { return gain_of(w->name) / sqrt((double)w->k); }

nh_status dummy_scale(dummy *d, weight *w, nh_error *e)
{
	const bool fp4 = w->dtype == NUM_E2M1X2, fp8 = w->dtype == NUM_E4M3;
	if (fp8 && !have_unit(d)) return ERR_NOMEM(e);
	const double u = rng_unit(seed_of(d, w->name, 2), 0, 0);
	w->scale = (float)(fp4 ? std_of(w) / (FP4_CODE_STD * block_scale_rms()) : fp8 ? std_of(w) * d->unit[QUANTILES - 1] / 448 : 1);
	if (fp8 || w->scheme == NUM_SCHEME_NVFP4) w->input_scale = (float)(8 * (0.5 + u) / (fp4 ? 6.0 * 448 : 448));
	return NH_OK;
}

nh_status dummy_matrix_part(dummy *d, const weight *w, bool scales, uint64_t from, size_t bytes, void *out, nh_error *e)
{
	const bool fp4 = w->dtype == NUM_E2M1X2, fp8 = w->dtype == NUM_E4M3;
	filling f = {.seed = seed_of(d, w->name, scales), .out = out, .scales = scales};
	if (fp8) f.code = e4m3_table(d);
	else if (!fp4) f.half = bf16_table(d, std_of(w));
	if (!fp4 && !f.code && !f.half) return ERR_NOMEM(e);
	fill(d, f, from, bytes);
	return NH_OK;
}

nh_status dummy_matrix(dummy *d, weight *w, bool keep, nh_error *e)
{
	size_t values, bytes, scales = 0, at, all;
	if (!mem_mul((size_t)w->n, (size_t)w->k, &values) || !mem_mul(values, 2, &bytes))
		return ERR(e, NH_ERR_LIMIT, "%s: %lld x %lld: too large", w->name, (long long)w->n, (long long)w->k);
	bool fp4 = w->dtype == NUM_E2M1X2;
	if (fp4) bytes = values / 2, scales = values / 16;
	else if (w->dtype == NUM_E4M3) bytes = values;
	at = (bytes + 2 * BYTES_SLACK - 1) / BYTES_SLACK * BYTES_SLACK;
	if (!mem_add(at, scales, &all)) return ERR(e, NH_ERR_LIMIT, "%s: too large", w->name);
	TRY(dummy_scale(d, w, e));
	uint8_t *out = room_for(d, &d->matrix, all, keep);
	if (!out) return ERR_NOMEM(e);
	TRY(dummy_matrix_part(d, w, false, 0, bytes, out, e));
	if (fp4) TRY(dummy_matrix_part(d, w, true, 0, scales, out + at, e));
	w->data = out;
	w->block_scale = fp4 ? out + at : NULL;
	return NH_OK;
}

/* --- parameters --- */

typedef enum param { MATRIX, NORM, A_LOG, SKIP, DT_BIAS, ROUTER_BIAS, BIAS, KV_SCALE } param;

static param param_of(const char *name)
{
	static const struct {
		const char *tail;
		param p;
	} ENDS[] = {{"norm.weight", NORM}, {"norm_f.weight", NORM}, {"layernorm.weight", NORM}, {"A_log", A_LOG}, {".D", SKIP},
	    {"dt_bias", DT_BIAS}, {"e_score_correction_bias", ROUTER_BIAS}, {"bias", BIAS}, {"k_scale", KV_SCALE}, {"v_scale", KV_SCALE}};
	for (size_t i = 0; i < ARRAY_LEN(ENDS); i++)
		if (ends(name, ENDS[i].tail)) return ENDS[i].p;
	return MATRIX;
}

static double param_value(const dummy *d, param p, uint64_t bits)
{
	double z = d->unit[bits & 0xFFFF], u = (double)(bits >> 11) * 0x1p-53, dt;
	switch (p) {
	case NORM: return 1 + 0.1 * z;
	case A_LOG: return log(1 + 15 * u);
	case SKIP: return 1 + 0.25 * z;
	case DT_BIAS: /* the inverse of softplus at 0.001 .. 0.1 */ dt = 0.001 * exp(u * log(100.0)); return dt + log(-expm1(-dt));
	case ROUTER_BIAS: return 0.02 * z;
	case BIAS: return 0.05 * z;
	case KV_SCALE: return 0.008 + 0.012 * u;
	case MATRIX: break;
	}
	return z;
}

nh_status dummy_tensor_part(dummy *d, const char *name, num_dtype type, int64_t cols, uint64_t from, size_t bytes, void *out, nh_error *e)
{
	const param p = param_of(name);
	const double std = ends(name, "embeddings.weight") || cols < 1 ? 1 : 1 / sqrt((double)cols);
	const uint64_t seed = seed_of(d, name, 0);
	if (!have_unit(d)) return ERR_NOMEM(e);
	if (p == MATRIX) {
		const uint16_t *half = type == NUM_BF16 ? bf16_table(d, std) : NULL;
		if (!half && type == NUM_BF16) return ERR_NOMEM(e);
		fill(d, (filling){.seed = seed, .out = out, .half = half, .unit = half ? NULL : d->unit, .std = std}, from, bytes);
		return NH_OK;
	}
	const size_t first = (size_t)(from / num_bytes(type)), n = bytes / num_bytes(type);
	for (size_t i = 0; i < n; i++) num_store(type, out, i, param_value(d, p, rng_mix(seed + first + i)));
	return NH_OK;
}

const st_tensor *dummy_tensor(dummy *d, const char *name, num_dtype type, int rank, const int64_t *shape, bool keep, nh_error *e)
{
	size_t n = 1, bytes;
	bool fits = rank <= ST_MAX_RANK;
	for (int i = 0; fits && i < rank; i++) fits = mem_mul(n, (size_t)shape[i], &n);
	if (!fits || !mem_mul(n, num_bytes(type), &bytes)) {
		ERR(e, NH_ERR_LIMIT, "tensor %s: too large", name);
		return NULL;
	}
	uint8_t *out = room_for(d, &d->small, bytes, keep);
	if (!out) {
		ERR_NOMEM(e);
		return NULL;
	}
	if (dummy_tensor_part(d, name, type, rank >= 2 ? shape[rank - 1] : 0, 0, bytes, out, e) != NH_OK) return NULL;
	d->t = (st_tensor){.name = name, .dtype = type, .rank = rank, .data = out, .bytes = bytes, .aligned = true};
	for (int i = 0; i < rank; i++) d->t.shape[i] = shape[i];
	return &d->t;
}
