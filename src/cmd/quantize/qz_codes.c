/* SPDX-License-Identifier: Apache-2.0
 * qz_codes.c: scales and codes of one matrix. A candidate's error is summed in f32, for it only chooses between scales; the codes that are written
 * come from num's conversions, rounded once, from doubles.
 * Breaks first: every sum has an order that depends on the shape alone, so that threads change no byte.
 */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/quantize/qz.h"
#include "num/num_conv.h"

#define BLOCK 16
#define TILE 1024         /* elements on the stack; a multiple of BLOCK */
#define PIECE (1 << 17)   /* elements a job: whole rows, at least one */
#define CANDIDATES 9      /* of an FP8 scale */
#define SCALES_DOWN 3     /* FP4 block scale codes below the one of amax / 6: clipping */
#define SCALES_UP 6       /* above: amax / 4 is 4 or 5 codes up */
#define E4M3_LARGEST 0x7E /* code of 448 */

static void load(const qz_matrix *m, int64_t at, int64_t n, float *x)
{
	if (m->dtype == NUM_BF16) {
		const uint8_t *p = m->data + 2 * at;
		for (int64_t i = 0; i < n; i++) {
			uint16_t u;
			memcpy(&u, p + 2 * i, sizeof u);
			x[i] = num_bf16_to_f32(u);
		}
		return;
	}
	for (int64_t i = 0; i < n; i++) x[i] = (float)num_load(m->dtype, m->data, (size_t)(at + i)); /* f16 and f32 are exact */
}

/* Nearest multiple of the unit that a value of this magnitude has, ties to even, by adding and taking away a power of two: `bits` fraction bits,
 * exponents from `lowest` on (a biased f32 exponent); v is within the largest value. */
static inline float on_grid(float v, int bits, uint32_t lowest)
{
	uint32_t e = num_bits_f32(v) & 0x7F800000u;
	if (e < lowest) e = lowest;
	float big = num_f32_bits(e + ((23u - (uint32_t)bits) << 23)) * 1.5f;
	return (v + big) - big;
}

static inline float clamp(float v, float most) { return v > most ? most : v < -most ? -most : v; }

static int64_t rows_a_piece(const qz_matrix *m) { return m->k < PIECE ? PIECE / m->k : 1; }
static int64_t pieces(const qz_matrix *m) { return (m->n + rows_a_piece(m) - 1) / rows_a_piece(m); }

typedef struct work {
	const qz_matrix *m;
	double *part;                /* own [pieces][CANDIDATES]: sums of squares; or [pieces]: amax */
	_Atomic(int64_t) not_finite; /* index of the first such element; INT64_MAX: none */
	float scale[CANDIDATES];
	float second;
	uint8_t *codes, *scales;
} work;

/* Elements [*at, *at + *n) of a piece: rows are contiguous, so a piece is a run of elements. */
static void piece_of(const qz_matrix *m, int64_t i, int64_t *at, int64_t *n)
{
	int64_t rows = rows_a_piece(m), first = i * rows, last = first + rows < m->n ? first + rows : m->n;
	*at = first * m->k;
	*n = (last - first) * m->k;
}

static void amax_piece(void *user, int64_t i)
{
	work *w = user;
	int64_t at, n;
	float x[TILE], most = 0;
	piece_of(w->m, i, &at, &n);
	for (int64_t j = 0; j < n; j += TILE) {
		int64_t len = n - j < TILE ? n - j : TILE;
		bool finite = true;
		load(w->m, at + j, len, x);
		for (int64_t c = 0; c < len; c++) {
			float a = fabsf(x[c]);
			most = a > most ? a : most;
			finite &= a <= FLT_MAX;
		}
		for (int64_t c = 0; !finite && c < len; c++) {
			if (fabsf(x[c]) <= FLT_MAX) continue;
			int64_t old = atomic_load(&w->not_finite);
			while (at + j + c < old && !atomic_compare_exchange_weak(&w->not_finite, &old, at + j + c)) continue;
			break;
		}
	}
	w->part[i] = (double)most;
}

nh_status qz_amax(jobs *pool, const qz_matrix *m, float *amax, nh_error *e)
{
	work w = {.m = m, .part = mem_array((size_t)pieces(m), sizeof(double))};
	*amax = 0;
	if (w.part == NULL) return ERR_NOMEM(e);
	atomic_init(&w.not_finite, INT64_MAX);
	jobs_for(pool, pieces(m), amax_piece, &w);
	for (int64_t i = 0; i < pieces(m); i++) *amax = fmaxf(*amax, (float)w.part[i]);
	mem_free(w.part);
	int64_t bad = atomic_load(&w.not_finite);
	if (bad == INT64_MAX) return NH_OK;
	return ERR(
	    e, NH_ERR_NUMERIC, "tensor %.200s: element [%lld, %lld] is not finite", m->name, (long long)(bad / m->k), (long long)(bad % m->k));
}

static void fp8_errors(void *user, int64_t i)
{
	work *w = user;
	int64_t at, n;
	float x[TILE];
	double *sum = w->part + i * CANDIDATES;
	piece_of(w->m, i, &at, &n);
	for (int64_t j = 0; j < n; j += TILE) {
		int64_t len = n - j < TILE ? n - j : TILE;
		load(w->m, at + j, len, x);
		for (int c = 0; c < CANDIDATES; c++) {
			float inverse = 1.0f / w->scale[c], lanes[8] = {0};
			for (int64_t v = 0; v < len; v++) {
				float y = x[v] * inverse, d = y - on_grid(clamp(y, 448.0f), 3, 121u << 23); /* 2^-6 is the least normal exponent */
				lanes[v & 7] += d * d;
			}
			double all = 0;
			for (int l = 0; l < 8; l++) all += (double)lanes[l];
			sum[c] += all * (double)w->scale[c] * (double)w->scale[c];
		}
	}
}

nh_status qz_fp8_scale(jobs *pool, const qz_matrix *m, float amax, float *scale, nh_error *e)
{
	static const int order[CANDIDATES] = {0, 1, -1, 2, -2, 3, -3, 4, -4}; /* the plain one first: it wins ties */
	float plain = amax / 448.0f;
	*scale = 1;
	if (!(plain >= FLT_MIN * 1024)) { /* nothing, or so little that a reciprocal would overflow */
		if (amax > 0) *scale = FLT_MIN * 1024;
		return NH_OK;
	}
	work w = {.m = m, .part = mem_array((size_t)pieces(m) * CANDIDATES, sizeof(double))};
	if (w.part == NULL) return ERR_NOMEM(e);
	for (int c = 0; c < CANDIDATES; c++) w.scale[c] = (float)((double)plain * exp2(order[c] / 8.0));
	jobs_for(pool, pieces(m), fp8_errors, &w);
	double least = INFINITY;
	for (int c = 0; c < CANDIDATES; c++) {
		double all = 0;
		for (int64_t i = 0; i < pieces(m); i++) all += w.part[i * CANDIDATES + c];
		if (!(all < least)) continue;
		least = all;
		*scale = w.scale[c];
	}
	mem_free(w.part);
	return NH_OK;
}

static void fp8_piece(void *user, int64_t i)
{
	work *w = user;
	int64_t at, n;
	float x[TILE];
	piece_of(w->m, i, &at, &n);
	for (int64_t j = 0; j < n; j += TILE) {
		int64_t len = n - j < TILE ? n - j : TILE;
		load(w->m, at + j, len, x);
		for (int64_t c = 0; c < len; c++) w->codes[at + j + c] = num_f64_to_e4m3((double)x[c] / (double)w->scale[0]);
	}
}

void qz_fp8_codes(jobs *pool, const qz_matrix *m, float scale, uint8_t *codes)
{
	work w = {.m = m, .scale = {scale}, .codes = codes};
	jobs_for(pool, pieces(m), fp8_piece, &w);
}

float qz_fp4_second(float amax)
{
	float second = amax / (6.0f * 448.0f);
	if (amax == 0) return 1;
	return second > FLT_MIN * 1024 ? second : FLT_MIN * 1024;
}

/* Squared error of one block under a scale, in units of weight_scale_2 squared; x is already divided by weight_scale_2. */
static float fp4_error(const float *x, float scale)
{
	float inverse = 1.0f / scale, lanes[4] = {0};
	for (int i = 0; i < BLOCK; i++) {
		float y = x[i] * inverse, d = y - on_grid(clamp(y, 6.0f), 1, 127u << 23); /* 1 is the least normal exponent */
		lanes[i & 3] += d * d;
	}
	return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) * scale * scale;
}

static uint8_t fp4_scale(const float *w, float second)
{
	float x[BLOCK], most = 0, inverse = 1.0f / second, least = INFINITY;
	for (int i = 0; i < BLOCK; i++) {
		x[i] = w[i] * inverse;
		most = fmaxf(most, fabsf(x[i]));
	}
	if (most == 0) return 0;
	int middle = num_f64_to_e4m3((double)most / 6), best = middle;
	if (middle > 0) least = fp4_error(x, num_e4m3_to_f32((uint8_t)middle));
	for (int c = middle - SCALES_DOWN; c <= middle + SCALES_UP && c <= E4M3_LARGEST; c++) {
		if (c < 1 || c == middle) continue;
		float error = fp4_error(x, num_e4m3_to_f32((uint8_t)c));
		if (!(error < least)) continue;
		least = error;
		best = c;
	}
	return (uint8_t)best;
}

static void fp4_piece(void *user, int64_t i)
{
	work *w = user;
	int64_t at, n;
	float x[TILE];
	piece_of(w->m, i, &at, &n);
	for (int64_t j = 0; j < n; j += TILE) {
		int64_t len = n - j < TILE ? n - j : TILE;
		load(w->m, at + j, len, x);
		for (int64_t b = 0; b < len; b += BLOCK) {
			uint8_t scale = fp4_scale(x + b, w->second), *out = w->codes + (at + j + b) / 2;
			double unit = (double)num_e4m3_to_f32(scale) * (double)w->second;
			w->scales[(at + j + b) / BLOCK] = scale;
			for (int c = 0; c < BLOCK; c += 2) {
				uint8_t low = scale > 0 ? num_f64_to_e2m1((double)x[b + c] / unit) : 0;
				uint8_t high = scale > 0 ? num_f64_to_e2m1((double)x[b + c + 1] / unit) : 0;
				out[c / 2] = (uint8_t)(low | high << 4);
			}
		}
	}
}

void qz_fp4_codes(jobs *pool, const qz_matrix *m, float second, uint8_t *codes, uint8_t *scales)
{
	work w = {.m = m, .second = second, .codes = codes, .scales = scales};
	jobs_for(pool, pieces(m), fp4_piece, &w);
}
