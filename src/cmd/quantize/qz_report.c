/* SPDX-License-Identifier: Apache-2.0
 * qz_report.c: how far the weights on disk are from the source's: what was written is opened again and decoded by the weight formats, so that this is
 * also a proof that the files are whole. Relative error: root of the sum of squared differences over the sum of squares.
 * Breaks first: a layer's figure is of its elements, not the mean of its matrices' figures.
 */
#include <math.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/quantize/qz.h"
#include "num/num_conv.h"
#include "tensor/weight.h"

typedef struct sums {
	double difference, size; /* of squares */
	int64_t matrices, elements;
	double worst;
	const char *worst_name; /* borrow */
} sums;

typedef struct compare {
	const qz_item *it;
	weight w;
	double *part; /* own [n][2] */
	_Atomic(bool) nomem;
} compare;

static void row(void *user, int64_t i)
{
	compare *c = user;
	size_t k = (size_t)c->w.k;
	double *a = mem_array(2 * k, sizeof *a), *b = a + k;
	if (a == NULL) {
		c->nomem = true;
		return;
	}
	num_load_row(c->it->t->dtype, c->it->t->data, (size_t)i * k, k, a);
	weight_decode_row(&c->w, i, b);
	for (size_t j = 0; j < k; j++) {
		double d = a[j] - b[j] * (double)c->w.scale;
		c->part[2 * i] += d * d;
		c->part[2 * i + 1] += a[j] * a[j];
	}
	mem_free(a);
}

static const st_tensor *part_of(const st_set *set, const char *module, const char *suffix, nh_error *e)
{
	char name[600];
	snprintf(name, sizeof name, "%.512s%s", module, suffix);
	const st_tensor *t = st_set_find(set, name);
	if (t == NULL) ERR(e, NH_ERR_TENSOR, "tensor %.300s: is not in the result", name);
	return t;
}

/* The matrix as it lies in the result. */
static nh_status bind(compare *c, const qz_item *it, const st_set *set, nh_error *e)
{
	bool fp8 = it->scheme == NUM_SCHEME_FP8;
	const st_tensor *data = part_of(set, it->module, ".weight", e),
	                *scale = data != NULL ? part_of(set, it->module, fp8 ? ".weight_scale" : ".weight_scale_2", e) : NULL,
	                *blocks = scale != NULL && !fp8 ? part_of(set, it->module, ".weight_scale", e) : NULL;
	if (scale == NULL || (!fp8 && blocks == NULL)) return NH_ERR_TENSOR;
	c->it = it;
	c->w = (weight){.name = it->module,
	    .scheme = it->scheme,
	    .dtype = fp8 ? NUM_E4M3 : NUM_E2M1X2,
	    .n = it->t->shape[0],
	    .k = it->t->shape[1],
	    .data = data->data,
	    .block_scale = fp8 ? NULL : blocks->data};
	size_t elements = (size_t)c->w.n * (size_t)c->w.k;
	if (data->bytes != (fp8 ? elements : elements / 2) || scale->bytes != 4 || (!fp8 && blocks->bytes != elements / 16))
		return ERR(e, NH_ERR_TENSOR, "tensor %.300s: the result has another shape", it->module);
	memcpy(&c->w.scale, scale->data, sizeof c->w.scale);
	return NH_OK;
}

static void count(sums *to, const compare *c, double difference, double size)
{
	double relative = size > 0 ? sqrt(difference / size) : 0;
	to->difference += difference;
	to->size += size;
	to->matrices++;
	to->elements += c->w.n * c->w.k;
	if (to->worst_name != NULL && relative <= to->worst) return;
	to->worst = relative;
	to->worst_name = c->it->module;
}

static json_t *told(const sums *s)
{
	return json_pack("{s:I, s:I, s:f, s:{s:s, s:f}}", "matrices", (json_int_t)s->matrices, "elements", (json_int_t)s->elements,
	    "relative_error", s->size > 0 ? sqrt(s->difference / s->size) : 0.0, "worst", "module", s->worst_name, "relative_error", s->worst);
}

static const char *const role_names[] = {
    [QZ_MAMBA] = "mamba", [QZ_MLP] = "dense", [QZ_EXPERT] = "experts", [QZ_SHARED] = "shared_experts", [QZ_HEAD] = "head"};

static nh_status all_matrices(const qz_plan *p, const st_set *set, jobs *pool, sums *layers, sums *roles, sums *total, nh_error *e)
{
	for (size_t i = 0; i < p->count; i++) {
		const qz_item *it = &p->items[i];
		compare c = {0};
		if (it->scheme == NUM_SCHEME_NONE) continue;
		if (cmd_interrupted()) return ERR(e, NH_ERR_CANCELLED, "cancelled");
		TRY(bind(&c, it, set, e));
		c.part = mem_array(2 * (size_t)c.w.n, sizeof *c.part);
		if (c.part == NULL) return ERR_NOMEM(e);
		jobs_for(pool, c.w.n, row, &c);
		double difference = 0, size = 0;
		for (int64_t r = 0; r < c.w.n; r++) {
			difference += c.part[2 * r];
			size += c.part[2 * r + 1];
		}
		mem_free(c.part);
		if (c.nomem) return ERR_NOMEM(e);
		count(&layers[it->layer >= 0 ? it->layer : p->layer_count], &c, difference, size);
		count(&roles[it->role], &c, difference, size);
		count(total, &c, difference, size);
	}
	return NH_OK;
}

nh_status qz_weight_report(const qz_plan *p, const char *out, jobs *pool, json_t **report, nh_error *e)
{
	st_set *set = NULL;
	sums *layers = mem_array((size_t)p->layer_count + 1, sizeof *layers), roles[QZ_EMBED + 1] = {0}, total = {0};
	nh_status s = layers != NULL ? st_set_open(&set, out, NULL, e) : ERR_NOMEM(e);
	if (s == NH_OK) s = all_matrices(p, set, pool, layers, roles, &total, e);
	if (s == NH_OK) {
		json_t *r = told(&total), *list = json_array(), *by_role = json_object();
		for (int l = 0; l <= p->layer_count; l++) {
			if (layers[l].matrices == 0) continue;
			json_t *one = told(&layers[l]);
			char kind[2] = {l < p->layer_count ? p->layers[l].kind : 0, 0};
			json_object_set_new(one, "layer", l < p->layer_count ? json_integer(l) : json_string("lm_head"));
			json_object_set_new(one, "kind", json_string(kind));
			json_array_append_new(list, one);
		}
		for (int k = 0; k <= QZ_HEAD; k++)
			if (roles[k].matrices > 0) json_object_set_new(by_role, role_names[k], told(&roles[k]));
		json_object_set_new(r, "roles", by_role);
		json_object_set_new(r, "layers", list);
		json_object_set_new(r, "bytes", json_integer((json_int_t)st_set_bytes(set)));
		json_object_set_new(r, "source_bytes", json_integer((json_int_t)p->source_bytes));
		*report = r;
	}
	mem_free(layers);
	st_set_close(set);
	return s;
}
