/* SPDX-License-Identifier: Apache-2.0
 * qz_calib.c: the largest magnitudes of activations while the source model reads a text, from the library's trace. What the routed experts compute
 * inside one op is recomputed here from the rows and the choices that the trace tells, for it is the input of their second matrix.
 * Ranges of routed experts are kept for the layer: whoever reads input scales takes the largest over a layer's experts (model.md 6.6, 8.4), and an expert
 * that the text never chose needs one too.
 * Breaks first: no site is left unmeasured without a word.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/cmd_open.h"
#include "cmd/cmd_score.h"
#include "cmd/quantize/qz.h"
#include "num/num_conv.h"

#define WINDOW 512 /* tokens that are read from an empty state */

typedef struct layer_experts {
	const qz_item **up; /* own; by number, NULL: none */
	int count;
} layer_experts;

typedef struct calib {
	const qz_plan *p;
	jobs *pool;
	double *amax;           /* borrow */
	layer_experts *experts; /* own [layer_count] */
	int layer;              /* whose input `rows` holds */
	float *rows;            /* own [row_count][width] */
	size_t row_count, width, room;
	double *most; /* own [experts]: of the job */
	size_t most_room;
	const double *chosen; /* borrow, during a call: [row_count][k] */
	size_t k;
	bool scores; /* whether the second matrices' input is wanted */
	nh_status s; /* sticky */
	nh_error error;
} calib;

static void fail(calib *c, nh_status s)
{
	if (c->s == NH_OK) c->s = s;
}

/* x . w for bf16 weights, eight lanes: the order of the sum is fixed. */
static float dot(const float *x, const float *w, size_t n)
{
	float lanes[8] = {0}, sum = 0;
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		for (size_t l = 0; l < 8; l++) lanes[l] += x[i + l] * w[i + l];
	for (; i < n; i++) lanes[i & 7] += x[i] * w[i];
	for (size_t l = 0; l < 8; l++) sum += lanes[l];
	return sum;
}

/* Largest relu(up x)^2 of one expert over the rows that chose it. */
static void expert_job(void *user, int64_t number)
{
	calib *c = user;
	const qz_item *up = c->experts[c->layer].up[number];
	c->most[number] = 0;
	if (up == NULL || up->t->shape[1] != (int64_t)c->width) return;
	size_t *list = mem_array(c->row_count + 1, sizeof *list), count = 0;
	float *w = mem_array(c->width + 1, sizeof *w);
	double *wide = mem_array(c->width + 1, sizeof *wide);
	if (list == NULL || w == NULL || wide == NULL) c->most[number] = NAN;
	for (size_t r = 0; list != NULL && r < c->row_count; r++)
		for (size_t j = 0; j < c->k; j++)
			if ((int64_t)c->chosen[r * c->k + j] == number) {
				list[count++] = r;
				break;
			}
	double most = 0;
	for (int64_t f = 0; w != NULL && wide != NULL && count > 0 && f < up->t->shape[0]; f++) {
		num_load_row(up->t->dtype, up->t->data, (size_t)f * c->width, c->width, wide);
		for (size_t i = 0; i < c->width; i++) w[i] = (float)wide[i];
		for (size_t i = 0; i < count; i++) {
			double h = num_round_bf16((double)dot(c->rows + list[i] * c->width, w, c->width));
			h = h > 0 ? num_round_bf16(h * h) : 0;
			most = h > most ? h : most;
		}
	}
	if (list != NULL && w != NULL && wide != NULL) c->most[number] = most;
	mem_free(list);
	mem_free(w);
	mem_free(wide);
}

static void keep_rows(calib *c, int layer, size_t rows, size_t columns, const double *values)
{
	if (rows * columns > c->room) {
		float *more = mem_resize(c->rows, rows * columns, sizeof *more);
		if (more == NULL) {
			fail(c, NH_ERR_NOMEM);
			return;
		}
		c->rows = more;
		c->room = rows * columns;
	}
	for (size_t i = 0; i < rows * columns; i++) c->rows[i] = (float)values[i];
	c->layer = layer;
	c->row_count = rows;
	c->width = columns;
}

static void chosen(calib *c, int layer, size_t rows, size_t k, const double *values)
{
	const layer_experts *x = &c->experts[layer];
	if (layer != c->layer || rows != c->row_count || x->count == 0) return;
	if ((size_t)x->count > c->most_room) {
		double *more = mem_resize(c->most, (size_t)x->count, sizeof *more);
		if (more == NULL) {
			fail(c, NH_ERR_NOMEM);
			return;
		}
		c->most = more;
		c->most_room = (size_t)x->count;
	}
	c->chosen = values;
	c->k = k;
	jobs_for(c->pool, x->count, expert_job, c);
	for (int i = 0; i < x->count; i++) {
		double *to = &c->amax[layer * QZ_SITES + QZ_EXPERT_HIDDEN];
		if (isnan(c->most[i])) fail(c, NH_ERR_NOMEM);
		else if (c->most[i] > *to) *to = c->most[i];
	}
}

/* On the engine's thread. */
static void sink(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	static const struct {
		const char *name;
		qz_site site;
	} sites[] = {{"input", QZ_INPUT}, {"out_input", QZ_OUT_INPUT}, {"mlp_hidden", QZ_HIDDEN}, {"experts_input", QZ_EXPERT_IN},
	    {"keys", QZ_KEYS}, {"values", QZ_VALUES}};
	calib *c = user;
	char *end;
	(void)step;
	(void)first;
	if (c->s != NH_OK || strncmp(name, "layer.", 6) != 0) return;
	long layer = strtol(name + 6, &end, 10);
	if (*end != '.' || layer < 0 || layer >= c->p->layer_count) return;
	if (strcmp(end + 1, "experts_chosen") == 0) {
		if (c->scores) chosen(c, (int)layer, rows, columns, values);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(sites); i++) {
		if (strcmp(end + 1, sites[i].name) != 0) continue;
		double *to = &c->amax[layer * QZ_SITES + (long)sites[i].site];
		for (size_t v = 0; v < rows * columns; v++) *to = fabs(values[v]) > *to ? fabs(values[v]) : *to;
		if (sites[i].site == QZ_EXPERT_IN && c->scores) keep_rows(c, (int)layer, rows, columns, values);
	}
}

static nh_status find_experts(calib *c, nh_error *e)
{
	const qz_plan *p = c->p;
	c->experts = mem_array((size_t)p->layer_count + 1, sizeof *c->experts);
	if (c->experts == NULL) return ERR_NOMEM(e);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < p->count; i++) {
			const qz_item *it = &p->items[i];
			if (it->role != QZ_EXPERT || !it->up) continue;
			layer_experts *x = &c->experts[it->layer];
			if (pass == 0 && it->expert >= x->count) x->count = it->expert + 1;
			if (pass == 1) x->up[it->expert] = it;
			if (it->scheme == NUM_SCHEME_FP8 || it->scheme == NUM_SCHEME_NVFP4) c->scores = true;
		}
		for (int l = 0; pass == 0 && l < p->layer_count; l++) {
			c->experts[l].up = mem_array((size_t)c->experts[l].count + 1, sizeof *c->experts[l].up);
			if (c->experts[l].up == NULL) return ERR_NOMEM(e);
		}
	}
	return NH_OK;
}

/* Every matrix that gets an input scale has seen something. */
static nh_status complete(const calib *c, nh_error *e)
{
	for (size_t i = 0; i < c->p->count; i++) {
		const qz_item *it = &c->p->items[i];
		if (it->scheme != NUM_SCHEME_FP8 && it->scheme != NUM_SCHEME_NVFP4) continue;
		double v = c->amax[it->layer * QZ_SITES + (int)it->site];
		if (!isfinite(v)) return ERR(e, NH_ERR_NUMERIC, "calibration: %.200s: the largest input is not finite", it->module);
		if (v == 0) return ERR(e, NH_ERR_NUMERIC, "calibration: %.200s: every input was 0 on this text", it->module);
	}
	return NH_OK;
}

static nh_status read_text(const cmd_args *a, calib *c, const nh_model *model, nh_engine **engine, int64_t *tokens, nh_error *e)
{
	nh_engine_options eo;
	nh_model_info info;
	cmd_progress progress;
	int32_t *ids = NULL;
	uint64_t bytes;
	cmd_progress_init(&progress, a);
	nh_model_get_info(model, &info, sizeof info);
	nh_status s = score_read(model, c->p->o->calib, false, c->p->o->calib_tokens, &ids, tokens, &bytes, e);
	if (s == NH_OK && *tokens < 2)
		s = ERR(e, NH_ERR_ARG, "%s: has %lld tokens, a calibration text needs more", c->p->o->calib, (long long)*tokens);
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_context = info.max_context < WINDOW ? info.max_context : WINDOW;
	eo.max_sequences = 1;
	eo.step_tokens = info.chunk; /* a traced step holds its rows of logits as doubles */
	if (s == NH_OK) s = nh_engine_open(engine, (nh_model *)(uintptr_t)model, &eo, e);
	if (s == NH_OK) {
		score_job j = {.ids = ids,
		    .tokens = *tokens,
		    .context = eo.max_context,
		    .stride = eo.max_context,
		    .trace = sink,
		    .trace_user = c,
		    .progress = cmd_progress_show,
		    .progress_user = &progress};
		s = score_run(*engine, &j, e);
		cmd_progress_clear(&progress);
	}
	nh_free(ids);
	return s;
}

nh_status qz_calibrate(const cmd_args *a, const char *in, const qz_plan *p, jobs *pool, double *amax, int64_t *tokens, nh_error *e)
{
	calib c = {.p = p, .pool = pool, .amax = amax, .layer = -1};
	nh_model *model = NULL;
	nh_engine *engine = NULL;
	memset(amax, 0, sizeof *amax * QZ_SITES * (size_t)p->layer_count);
	nh_status s = find_experts(&c, e);
	if (s == NH_OK) s = cmd_open(a, in, NULL, NULL, &model, NULL, e);
	if (s == NH_OK) s = read_text(a, &c, model, &engine, tokens, e);
	nh_engine_close(engine);
	nh_model_close(model);
	if (s == NH_OK && c.s != NH_OK) s = ERR_NOMEM(e);
	if (s == NH_OK) s = complete(&c, e);
	for (int l = 0; c.experts != NULL && l < p->layer_count; l++) mem_free(c.experts[l].up);
	mem_free(c.experts);
	mem_free(c.rows);
	mem_free(c.most);
	return s;
}

float qz_input_scale(num_scheme scheme, double amax)
{
	if (!(amax > 0)) return 1;
	return (float)(scheme == NUM_SCHEME_NVFP4 ? amax / (6.0 * 448.0) : amax / 448.0);
}
