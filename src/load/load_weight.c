/* SPDX-License-Identifier: Apache-2.0
 * load_weight.c: a matrix with its companions. The configuration says the scheme, the file says the storage; they must agree. One exception
 * is taken, with a notice: a module that the configuration excludes, or does not list, but whose file holds codes AND every scale that they need. Then the
 * file decides, because the codes can mean nothing else. The opposite (configured as quantised, stored plain) is refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "load/load_impl.h"
#include "num/num_conv.h"

#define NAME_MAX_BYTES 512

typedef struct part_name {
	char text[NAME_MAX_BYTES];
} part_name;

static part_name join(const char *module, const char *suffix)
{
	part_name n;
	snprintf(n.text, sizeof n.text, "%s%s", module, suffix);
	return n;
}

static const st_tensor *peek(const loader *l, const char *module, const char *suffix)
{
	part_name n = join(module, suffix);
	return l->o.set ? st_set_find(l->o.set, n.text) : NULL;
}

/* The scheme that a file's own tensors spell, NUM_SCHEME_NONE where they are plain or incomplete. */
static num_scheme stored_scheme(const loader *l, const char *module)
{
	const st_tensor *t = peek(l, module, ".weight");
	if (!t || !peek(l, module, ".weight_scale")) return NUM_SCHEME_NONE;
	bool input = peek(l, module, ".input_scale") != NULL;
	if (t->dtype == NUM_E4M3 && input) return NUM_SCHEME_FP8;
	if (t->dtype == NUM_U8 && peek(l, module, ".weight_scale_2")) return input ? NUM_SCHEME_NVFP4 : NUM_SCHEME_W4A16;
	return NUM_SCHEME_NONE;
}

static nh_status decide(loader *l, const char *module, quant_rule *rule, nh_error *e)
{
	*rule = (quant_rule){.scheme = NUM_SCHEME_NONE, .why = "no quantisation configured"};
	if (l->o.quant) TRY(quant_resolve(l->o.quant, module, rule, e));
	if (rule->scheme != NUM_SCHEME_NONE) return NH_OK;
	num_scheme stored = stored_scheme(l, module);
	if (stored == NUM_SCHEME_NONE) return NH_OK;
	log_line(l->o.log, NH_LOG_NOTICE, "%s: %s by the configuration (%s), but the file holds it as %s with all scales: read as %s", module,
	    num_scheme_name(NUM_SCHEME_NONE), rule->why, num_scheme_name(stored), num_scheme_name(stored));
	rule->scheme = stored;
	snprintf(rule->why, sizeof rule->why, "stored with scales although the configuration says unquantised");
	return NH_OK;
}

static bool scalar(loader *l, const st_tensor *t, float *out)
{
	double v = num_load(t->dtype, t->data, 0);
	if (v > 0 && !isinf(v)) {
		*out = (float)v;
		return true;
	}
	ledger_note(&l->ledger, LEDGER_WRONG, "%s: tensor %s: value %g, expected a positive number", ledger_file(&l->ledger, t), t->name, v);
	return false;
}

/* Takes one part; false when it is a problem (noted). */
static bool take_part(loader *l, const char *module, const wfmt_part *part, weight *w, size_t *bytes)
{
	part_name name = join(module, part->suffix);
	const st_tensor *t = ledger_take(&l->ledger, name.text);
	if (!t) return false;
	*bytes += t->bytes;
	load_read_ahead(l, t);
	bool plain = part->file_dtype == NUM_BF16;
	if (!plain && t->dtype != part->file_dtype) {
		ledger_note(&l->ledger, LEDGER_WRONG, "%s: tensor %s: type %s, the configuration (%s) needs %s", ledger_file(&l->ledger, t),
		    t->name, num_dtype_name(t->dtype), num_scheme_name(w->scheme), num_dtype_name(part->file_dtype));
		return false;
	}
	if ((plain && !load_float(&l->ledger, t)) || !ledger_shape(&l->ledger, t, part->rank, part->shape)) return false;
	if (strcmp(part->suffix, ".weight") == 0) {
		w->data = t->data;
		w->dtype = t->dtype == NUM_U8 ? NUM_E2M1X2 : t->dtype;
		return true;
	}
	if (part->rank == 2) {
		w->block_scale = t->data;
		return true;
	}
	return scalar(l, t, strcmp(part->suffix, ".input_scale") == 0 ? &w->input_scale : &w->scale);
}

static size_t part_bytes(const wfmt_part *p)
{
	size_t n = p->rank == 2 ? (size_t)p->shape[0] * (size_t)p->shape[1] : 1;
	return n * num_bytes(p->file_dtype);
}

/* All parts of a module. *ok: every part is there and right. */
static nh_status take_matrix(loader *l, const char *module, int64_t n, int64_t k, bool used, weight *w, bool *ok, nh_error *e)
{
	quant_rule rule;
	TRY(decide(l, module, &rule, e));
	const wfmt *f = wfmt_of(rule.scheme);
	*w = (weight){.scheme = rule.scheme,
	    .dtype = rule.scheme == NUM_SCHEME_FP8    ? NUM_E4M3
	             : rule.scheme == NUM_SCHEME_NONE ? NUM_BF16
	                                              : NUM_E2M1X2,
	    .n = n,
	    .k = k,
	    .scale = 1.0f};
	TRY(load_string(l, &w->name, e, "%s", module));
	wfmt_part parts[WFMT_PARTS];
	int count = f->parts(n, k, parts);
	size_t bytes = 0;
	*ok = !loader_shapes_only(l);
	if (k % f->k_multiple != 0) {
		ledger_note(&l->ledger, LEDGER_WRONG, "%s: %s: %lld columns, %s needs a multiple of %lld", l->ledger.files, module, (long long)k,
		    f->name, (long long)f->k_multiple);
		*ok = false;
	}
	for (int i = 0; i < count; i++) {
		if (!l->o.set) bytes += part_bytes(&parts[i]);
		else if (!take_part(l, module, &parts[i], w, &bytes)) *ok = false;
	}
	if (*ok && l->dummy && used) TRY(dummy_matrix(l->dummy, w, !l->o.arm->repacks, e));
	load_record record = {.module = w->name,
	    .scheme = rule.scheme,
	    .dtype = w->dtype,
	    .n = n,
	    .k = k,
	    .file_bytes = bytes,
	    .rule = rule.why,
	    .matrix = true,
	    .used = used};
	load_report(l, &record);
	return load_progress(l, bytes, e);
}

/* A copy of plain rows in bf16, in the arm's memory. */
static nh_status narrow(loader *l, weight *w, nh_error *e)
{
	size_t row_bytes = (size_t)w->k * 2;
	char *copy = load_memory(l, (size_t)w->n * row_bytes);
	double *row = mem_array((size_t)w->k, sizeof *row);
	uint16_t *half = mem_array((size_t)w->k, sizeof *half);
	nh_status s = copy && row && half ? NH_OK : ERR_NOMEM(e);
	for (int64_t i = 0; s == NH_OK && i < w->n; i++) {
		num_load_row(w->dtype, w->data, (size_t)(i * w->k), (size_t)w->k, row);
		num_store_row(NUM_BF16, half, 0, (size_t)w->k, row);
		s = l->o.arm->upload(l->o.x, copy + (size_t)i * row_bytes, half, row_bytes, e);
	}
	mem_free(row);
	mem_free(half);
	w->data = copy;
	w->dtype = NUM_BF16;
	return s;
}

/* The arm keeps a pointer to what it imports, so that object lives with the loader; the caller gets a copy of its fields. */
static nh_status import(loader *l, weight *w, nh_error *e)
{
	load_owned *p = load_own(l);
	weight *mine = arena_alloc(&l->keep, sizeof *mine);
	if (!p || !mine) return ERR_NOMEM(e);
	*mine = *w;
	TRY(l->o.arm->import(l->o.x, mine, e));
	p->imported = mine;
	*w = *mine;
	return NH_OK;
}

/* The source of a matrix that the arm holds in a form of its own: pages of files are dropped (they can be read again), copies are freed. */
static void give_back(loader *l, weight *w, const void *narrowed)
{
	if (!l->o.arm->repacks) return;
	static const char *const SUFFIX[] = {".weight", ".weight_scale"};
	for (size_t i = 0; i < ARRAY_LEN(SUFFIX); i++) {
		const st_tensor *t = peek(l, w->name, SUFFIX[i]);
		const st_file *f = t ? ledger_file_of(&l->ledger, t) : NULL;
		if (f) st_file_drop(f, t);
	}
	if (narrowed) load_forget(l, narrowed);
	if (l->dummy) dummy_done(l->dummy);
	if (!narrowed && !l->dummy) return;
	weight *mine = l->owned->imported; /* the last that was imported */
	w->data = w->block_scale = mine->data = mine->block_scale = NULL;
}

nh_status load_weight(loader *l, const char *module, int64_t n, int64_t k, weight *out, nh_error *e)
{
	bool ok;
	TRY(take_matrix(l, module, n, k, true, out, &ok, e));
	if (!ok) return NH_OK;
	/* vLLM loads a plain matrix in the model dtype; only a router may stay wide (load_router). */
	bool wide = out->dtype == NUM_F32 && load_eager(l);
	if (wide) TRY(narrow(l, out, e));
	const void *narrowed = wide ? out->data : NULL;
	TRY(import(l, out, e));
	give_back(l, out, narrowed);
	return NH_OK;
}

/* Without files the type follows the habit of the releases (model.md 2.6): F32 in quantised ones, BF16 in plain ones. */
nh_status load_plain_only(loader *l, const char *module, nh_error *e)
{
	quant_rule rule = {.scheme = NUM_SCHEME_NONE};
	if (l->o.quant) TRY(quant_resolve(l->o.quant, module, &rule, e));
	if (rule.scheme != NUM_SCHEME_NONE)
		ledger_note(&l->ledger, LEDGER_WRONG, "%s: %s: configured as %s (%s), expected plain: this program reads it in bf16 or f32 only",
		    l->ledger.files, module, num_scheme_name(rule.scheme), rule.why);
	return NH_OK;
}

nh_status load_router(loader *l, const char *module, int64_t n, int64_t k, weight *out, nh_error *e)
{
	const int64_t shape[2] = {n, k};
	part_name name = join(module, ".weight");
	num_dtype habit = l->o.quant && quant_source(l->o.quant) ? NUM_F32 : NUM_BF16;
	*out = (weight){.scheme = NUM_SCHEME_NONE, .dtype = habit, .n = n, .k = k, .scale = 1.0f};
	TRY(load_string(l, &out->name, e, "%s", module));
	TRY(load_plain_only(l, module, e));
	bool narrows = habit == NUM_F32 && l->o.x->num->router_weight == NUM_ROUTER_BF16;
	const st_tensor *t;
	TRY(load_take(l, name.text, habit, l->o.arm && !l->o.arm->repacks && !narrows, 2, shape, &t, e));
	load_record record = {.module = out->name,
	    .dtype = t ? t->dtype : habit,
	    .n = n,
	    .k = k,
	    .rule = "router: never quantised",
	    .matrix = true,
	    .used = true};
	record.file_bytes = t ? t->bytes : (size_t)n * (size_t)k * num_bytes(habit);
	load_report(l, &record);
	if (!t) return load_absent(l, record.file_bytes, e);
	out->data = t->data;
	out->dtype = t->dtype;
	size_t bytes = t->bytes;
	narrows = t->dtype == NUM_F32 && l->o.x->num->router_weight == NUM_ROUTER_BF16;
	if (narrows) TRY(narrow(l, out, e));
	const void *narrowed = narrows ? out->data : NULL;
	TRY(import(l, out, e));
	give_back(l, out, narrowed);
	return load_progress(l, bytes, e);
}

nh_status load_tied(loader *l, const char *name, const tensor *table, weight *out, nh_error *e)
{
	*out = (weight){
	    .scheme = NUM_SCHEME_NONE, .dtype = table->dtype, .n = table->shape[0], .k = table->shape[1], .data = table->data, .scale = 1.0f};
	TRY(load_string(l, &out->name, e, "%s", name));
	return out->data ? import(l, out, e) : NH_OK;
}

nh_status load_skip_weight(loader *l, const char *module, int64_t n, int64_t k, nh_error *e)
{
	weight unused;
	bool ok;
	return take_matrix(l, module, n, k, false, &unused, &ok, e);
}
