/* SPDX-License-Identifier: Apache-2.0
 * verify_trace.c: a free run, compared layer by layer with what an oracle recorded of the same run. Names the first layer whose relative L2 difference
 * exceeds the band. Two layouts of safetensors are known: nemotron-trace/1 ("p9.layer.3.hidden", float64 oracle) and nemotron-layers/1
 * ("step0.layer3.hidden", vLLM). The bands are measured numbers from records/band, never guessed here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/verify/verify.h"

/* One recorded tensor and what has been compared with it so far. */
typedef struct item {
	char name[64];             /* as the trace sink calls it */
	char label[64];            /* as the file calls it */
	int order;                 /* run, then layer, then kind: the order in which values arise */
	int64_t first, rows, cols; /* positions first .. first + rows - 1 */
	nh_tensor_view view;
	bool judged;             /* hidden and residual are; the rest is told */
	double difference, size; /* sums of squares */
	int64_t seen;
} item;

typedef struct trace_run {
	char tag[24];             /* "p9", or "step" for a whole vLLM run */
	int32_t *prompt, *forced; /* own */
	size_t prompt_tokens, forced_tokens;
	item *items; /* own */
	size_t count;
} trace_run;

static double value_at(const nh_tensor_view *t, int64_t i)
{
	const unsigned char *p = t->data;
	if (strcmp(t->dtype, "f32") == 0) {
		float f;
		memcpy(&f, p + 4 * i, 4);
		return (double)f;
	}
	uint32_t bits = (uint32_t)((unsigned)p[2 * i] | (unsigned)p[2 * i + 1] << 8) << 16; /* u16 or bf16: bf16 bits */
	float f;
	memcpy(&f, &bits, 4);
	return (double)f;
}

static void sink(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t cols, const double *values)
{
	trace_run *r = user;
	(void)step;
	for (size_t k = 0; k < r->count; k++) {
		item *it = &r->items[k];
		if ((int64_t)cols != it->cols || strcmp(it->name, name) != 0) continue;
		for (size_t i = 0; i < rows; i++) {
			int64_t row = first + (int64_t)i - it->first;
			if (row < 0 || row >= it->rows) continue;
			it->seen++;
			for (size_t c = 0; c < cols; c++) {
				double g = value_at(&it->view, row * it->cols + (int64_t)c), d = values[i * cols + c] - g;
				it->difference += d * d;
				it->size += g * g;
			}
		}
	}
}

/* Length of "<word><number>." at the start of text, the number into *n; 0 where there is none. */
static int numbered(const char *text, const char *word, int *n)
{
	size_t len = strlen(word), digits = strspn(strncmp(text, word, len) == 0 ? text + len : "", "0123456789");
	if (digits == 0 || digits > 6 || text[len + digits] != '.') return 0;
	*n = (int)strtol(text + len, NULL, 10);
	return (int)(len + digits + 1);
}

/* "layer.3.hidden" or "layer3.norm.out" to the sink's name and an order; false for tensors that are not compared. */
static bool translate(const char *rest, item *it)
{
	static const struct {
		const char *file, *ours;
		int order;
	} PARTS[] = {{"norm.out", "input", 1}, {"residual_in", "residual_in", 0}, {"router.logits", "router_logits", 2},
	    {"hidden", "hidden", 3}, {"residual", "residual", 4}};
	int layer, used = 0;
	it->order = 0;
	if (strcmp(rest, "embedding") == 0 || strcmp(rest, "embed") == 0) snprintf(it->name, sizeof it->name, "embedding");
	else if (strcmp(rest, "final_norm") == 0 || strcmp(rest, "norm_f.out") == 0) {
		snprintf(it->name, sizeof it->name, "final_norm");
		it->order = 1 << 20;
	} else if (strcmp(rest, "logits") == 0 || strcmp(rest, "logits_last") == 0) {
		snprintf(it->name, sizeof it->name, "logits");
		it->order = (1 << 20) + 1;
	} else if ((used = numbered(rest, "layer.", &layer)) > 0 || (used = numbered(rest, "layer", &layer)) > 0) {
		bool vllm = rest[5] != '.';
		for (size_t i = 0; i < ARRAY_LEN(PARTS); i++) {
			if (strcmp(rest + used, PARTS[i].file) != 0) continue;
			/* vLLM's "residual" is the stream before the layer's output is added */
			snprintf(it->name, sizeof it->name, "layer.%d.%s", layer, vllm && PARTS[i].order == 4 ? "residual_in" : PARTS[i].ours);
			it->order = 8 * (layer + 1) + (vllm && PARTS[i].order == 4 ? 0 : PARTS[i].order);
			return true;
		}
		return false;
	} else return false;
	return true;
}

static nh_status ids_of(const nh_tensors *t, const char *name, int32_t **ids, size_t *count, nh_error *e)
{
	nh_tensor_view v;
	if (!nh_tensors_find(t, name, &v, sizeof v)) return ERR(e, NH_ERR_FORMAT, "tensor %s: not in the trace", name);
	bool wide = strcmp(v.dtype, "i64") == 0;
	if ((!wide && strcmp(v.dtype, "i32") != 0) || v.rank != 1)
		return ERR(e, NH_ERR_FORMAT, "tensor %s: expected a list of i32 or i64", name);
	*count = (size_t)v.shape[0];
	*ids = mem_array(*count, sizeof **ids);
	if (!*ids) return ERR_NOMEM(e);
	for (size_t i = 0; i < *count; i++) memcpy(&(*ids)[i], (const char *)v.data + i * (wide ? 8 : 4), 4); /* little-endian: the low half */
	return NH_OK;
}

static int by_order(const void *a, const void *b)
{
	const item *x = a, *y = b;
	if (x->first != y->first) return x->first < y->first ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* All comparable tensors whose names start with the run's tag. */
static nh_status collect(const nh_tensors *t, trace_run *r, nh_error *e)
{
	size_t n = nh_tensors_count(t);
	bool vllm = strcmp(r->tag, "step") == 0;
	r->items = mem_array(n, sizeof *r->items);
	if (!r->items) return ERR_NOMEM(e);
	for (size_t i = 0; i < n; i++) {
		item it = {0};
		int step = 0, used = 0;
		nh_tensors_at(t, i, &it.view, sizeof it.view);
		const char *name = it.view.name, *rest;
		if (vllm) {
			if ((used = numbered(name, "step", &step)) == 0) continue;
			rest = name + used;
		} else {
			size_t len = strlen(r->tag);
			if (strncmp(name, r->tag, len) != 0 || name[len] != '.') continue;
			rest = name + len + 1;
		}
		bool known = strcmp(it.view.dtype, "f32") == 0 || strcmp(it.view.dtype, "u16") == 0 || strcmp(it.view.dtype, "bf16") == 0;
		if (it.view.rank != 2 || !known || !translate(rest, &it)) continue;
		it.rows = it.view.shape[0];
		it.cols = it.view.shape[1];
		it.first = vllm && step > 0 ? (int64_t)r->prompt_tokens + step - 1 : (int64_t)r->prompt_tokens - it.rows;
		snprintf(it.label, sizeof it.label, "%.63s", name);
		it.judged = strstr(it.name, "hidden") || strstr(it.name, "residual");
		r->items[r->count++] = it;
	}
	qsort(r->items, r->count, sizeof *r->items, by_order);
	return r->count ? NH_OK : ERR(e, NH_ERR_FORMAT, "no tensor of run %s can be compared", r->tag);
}

static nh_status drive(nh_engine *engine, trace_run *r, nh_error *e)
{
	nh_request_options o;
	nh_request *q;
	nh_event ev;
	nh_request_options_init(&o, sizeof o);
	o.prompt = r->prompt;
	o.prompt_tokens = r->prompt_tokens;
	o.forced = r->forced;
	o.forced_tokens = r->forced_tokens;
	o.max_tokens = r->forced_tokens ? (int64_t)r->forced_tokens : 0;
	o.ignore_end = true;
	o.trace = sink;
	o.trace_user = r;
	TRY(nh_engine_submit(engine, &o, &q, e));
	nh_status s;
	do {
		s = nh_request_next(q, &ev, sizeof ev, -1);
		if (s == NH_OK && ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s", ev.error.text);
	} while (s == NH_OK && ev.type != NH_EVENT_DONE);
	nh_request_release(q);
	return s;
}

/* Prints every tensor; returns the number over the band, and the first of them in *first. */
static size_t tell(const verify *v, trace_run *r, double band, const item **first, double *worst)
{
	size_t over = 0;
	json_t *list = json_object_get(v->report, "tensors");
	for (size_t i = 0; i < r->count; i++) {
		const item *it = &r->items[i];
		double relative = it->size > 0 ? sqrt(it->difference / it->size) : it->difference > 0 ? INFINITY : 0;
		bool complete = it->seen == it->rows, bad = it->judged && (!complete || !(relative <= band));
		if (it->judged && complete && relative > *worst) *worst = relative;
		json_array_append_new(
		    list, json_pack("{s:s, s:f, s:b, s:b, s:I}", "tensor", it->label, "relative_l2", isfinite(relative) ? relative : -1.0, "judged",
		              it->judged, "ok", !bad, "rows", (json_int_t)it->seen));
		if (!bad) continue;
		if (over++ == 0) *first = it;
		if (!complete) verify_say(v, "  %-28s %lld of %lld rows seen\n", it->label, (long long)it->seen, (long long)it->rows);
		else verify_say(v, "  %-28s relative L2 %.3g over the band %.3g\n", it->label, relative, band);
	}
	return over;
}

/* The band for this trace and model: 1e-6 where the file stores a float64 run as f32, else the measured one of the records. */
static nh_status band_of(const cmd_args *a, const nh_tensors *t, const char *model, double *band, nh_error *e)
{
	const char *schema = nh_tensors_metadata(t, "schema"), *given = cmd_string(a, "bands", NULL);
	*band = 1e-6;
	if (schema && strcmp(schema, "nemotron-trace/1") == 0) return NH_OK;
	char *tiny = NULL, *path = NULL;
	json_t *doc = NULL;
	nh_status s = given ? NH_OK : cmd_builtin_model(&tiny, e);
	if (s == NH_OK && !given && !(path = path_join(tiny, "../../records/band/trace.json"))) s = ERR_NOMEM(e);
	if (s == NH_OK) s = jsn_load_path(&doc, given ? given : path, JSON_LIMIT_CONFIG, e);
	const json_t *value = json_object_get(json_object_get(doc, "bands"), model);
	if (s == NH_OK && !json_is_number(value))
		s = ERR(e, NH_ERR_NOTFOUND, "%s: no measured band for a vLLM trace of %s", given ? given : path, model);
	if (s == NH_OK) *band = json_number_value(value);
	json_decref(doc);
	mem_free(path);
	mem_free(tiny);
	return s;
}

/* The model's name as the trace has it, and that the trace is of this checkpoint. */
static nh_status model_name(const nh_tensors *t, const char *path, const nh_model *model, char name[64], nh_error *e)
{
	const char *text = nh_tensors_metadata(t, "model");
	json_t *m = NULL;
	if (!text) return ERR(e, NH_ERR_FORMAT, "%s: does not say which model it is of", path);
	TRY(jsn_load_text(&m, text, strlen(text), path, e));
	const char *n = json_string_value(json_object_get(m, "name"));
	snprintf(name, 64, "%.63s", n ? n : "?");
	nh_status s = golden_same_files(path, m, model, NULL, NULL, e);
	json_decref(m);
	return s;
}

static nh_status next_run(const nh_tensors *t, bool vllm, size_t *at, trace_run *r, bool *more, nh_error *e)
{
	memset(r, 0, sizeof *r);
	*more = false;
	if (vllm) {
		if ((*at)++ > 0) return NH_OK;
		*more = true;
		snprintf(r->tag, sizeof r->tag, "step");
		TRY(ids_of(t, "prompt_token_ids", &r->prompt, &r->prompt_tokens, e));
		return ids_of(t, "token_ids", &r->forced, &r->forced_tokens, e);
	}
	for (; *at < nh_tensors_count(t); (*at)++) {
		nh_tensor_view v;
		nh_tensors_at(t, *at, &v, sizeof v);
		const char *end = strstr(v.name, ".token_ids");
		if (!end || end[10] || (size_t)(end - v.name) >= sizeof r->tag) continue;
		memcpy(r->tag, v.name, (size_t)(end - v.name));
		(*at)++;
		*more = true;
		return ids_of(t, v.name, &r->prompt, &r->prompt_tokens, e);
	}
	return NH_OK;
}

static int compare_all(verify *v, const nh_tensors *t, bool vllm, double band, nh_error *e)
{
	size_t over = 0, tensors = 0, at = 0;
	double worst = 0;
	char where[64] = "";
	for (bool more = true; more;) {
		trace_run r;
		const item *first = NULL;
		nh_status s = next_run(t, vllm, &at, &r, &more, e);
		if (s == NH_OK && more) s = collect(t, &r, e);
		if (s == NH_OK && more) s = drive(v->engine, &r, e);
		if (s == NH_OK && more) {
			over += tell(v, &r, band, &first, &worst);
			tensors += r.count;
			if (first && !where[0]) snprintf(where, sizeof where, "%s", first->label);
		}
		mem_free(r.prompt);
		mem_free(r.forced);
		mem_free(r.items);
		if (s != NH_OK) return VERIFY_ERROR;
	}
	if (tensors == 0) {
		ERR(e, NH_ERR_FORMAT, "the trace holds no run");
		return VERIFY_ERROR;
	}
	json_object_set_new(v->report, "first", where[0] ? json_string(where) : json_null());
	json_object_set_new(v->report, "verdict", json_string(over ? "TRACE FAIL" : "TRACE PASS"));
	verify_say(v, "TRACE %s: %zu tensors, largest relative L2 %.3g, band %.3g%s%s\n", over ? "FAIL" : "PASS", tensors, worst, band,
	    over ? "; first over it: " : "", where);
	return over ? VERIFY_DIFFERS : VERIFY_PASS;
}

int verify_trace(const cmd_args *a, const char *model_path, const char *trace_path, nh_error *e)
{
	nh_tensors *t = NULL;
	int status = VERIFY_ERROR;
	char name[64];
	double band;
	if (nh_tensors_open(&t, trace_path, e) != NH_OK) return VERIFY_ERROR;
	const char *schema = nh_tensors_metadata(t, "schema");
	bool vllm = schema && strcmp(schema, "nemotron-layers/1") == 0;
	verify v = {.a = a, .json = cmd_flag(a, "json"), .report = json_object()};
	json_object_set_new(v.report, "trace", json_string(trace_path));
	json_object_set_new(v.report, "tensors", json_array());
	if (!vllm && !(schema && strcmp(schema, "nemotron-trace/1") == 0))
		ERR(e, NH_ERR_FORMAT, "%s: schema: is \"%.40s\", expected nemotron-trace/1 or nemotron-layers/1", trace_path,
		    schema ? schema : "absent");
	else if (cmd_open_on(a, model_path, vllm ? NULL : "ref", cmd_string(a, "numerics", vllm ? "hopper" : "exact"), NULL, &v.model,
	             &v.engine, e) == NH_OK &&
	         model_name(t, trace_path, v.model, name, e) == NH_OK && band_of(a, t, name, &band, e) == NH_OK) {
		nh_model_get_info(v.model, &v.info, sizeof v.info);
		verify_say(&v, "trace    %s (%s)\nmodel    %s\nours     arm %s, profile %s\n", trace_path, schema, v.info.path, v.info.arm,
		    v.info.numerics);
		status = compare_all(&v, t, vllm, band, e);
	}
	if (v.json && status != VERIFY_ERROR) cmd_out_json(v.report, 2);
	else json_decref(v.report);
	nh_engine_close(v.engine);
	nh_model_close(v.model);
	nh_tensors_close(t);
	if (status == VERIFY_ERROR && e->code == NH_ERR_CONFIG) status = VERIFY_REFUSED;
	if (status == VERIFY_REFUSED) cmd_fail_error(a, NH_ERR_CONFIG, e);
	return status;
}
