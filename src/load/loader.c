/* SPDX-License-Identifier: Apache-2.0
 * loader.c: life of a loader, its reports and sums, and the parameters. Matrices are in load_weight.c.
 */
#include "load/load_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "base/base_file.h"
#include "base/base_mem.h"
#include "num/num_conv.h"

nh_status loader_open(loader **out, const loader_options *options, nh_error *e)
{
	loader *l = mem_alloc(sizeof *l);
	*out = NULL;
	if (!l) return ERR_NOMEM(e);
	l->o = *options;
	l->opened_us = clock_us();
	arena_init(&l->keep);
	nh_status s = ledger_init(&l->ledger, options->set, options->files_name ? options->files_name : "the checkpoint", e);
	if (s == NH_OK && options->dummy && !options->set) s = dummy_open(&l->dummy, options->seed, options->threads, e);
	if (s != NH_OK) {
		loader_close(l);
		return s;
	}
	*out = l;
	return NH_OK;
}

void loader_close(loader *l)
{
	if (!l) return;
	for (load_owned *p = l->owned; p; p = p->next) {
		if (p->imported) l->o.arm->release(l->o.x, p->imported);
		if (p->memory) l->o.arm->free(l->o.x, p->memory);
	}
	dummy_close(l->dummy);
	ledger_deinit(&l->ledger);
	arena_deinit(&l->keep);
	mem_free(l);
}

load_owned *load_own(loader *l)
{
	load_owned *p = arena_alloc(&l->keep, sizeof *p);
	if (!p) return NULL;
	*p = (load_owned){.next = l->owned};
	l->owned = p;
	return p;
}

void *load_memory(loader *l, size_t bytes)
{
	load_owned *p = load_own(l);
	if (!p) return NULL;
	p->memory = l->o.arm->alloc(l->o.x, bytes);
	return p->memory;
}

void load_forget(loader *l, const void *memory)
{
	for (load_owned *p = l->owned; p; p = p->next)
		if (p->memory == memory) {
			l->o.arm->free(l->o.x, p->memory);
			p->memory = NULL;
			return;
		}
}

nh_status load_string(loader *l, const char **out, nh_error *e, const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	*out = "";
	if (n < 0 || (size_t)n >= sizeof line)
		return ERR(e, NH_ERR_LIMIT, "%s: a tensor name is longer than %zu bytes", l->ledger.files, sizeof line);
	char *copy = arena_strndup(&l->keep, line, (size_t)n);
	if (!copy) return ERR_NOMEM(e);
	*out = copy;
	return NH_OK;
}

void load_report(loader *l, const load_record *r)
{
	if (r->used && r->matrix) l->scheme_bytes[r->scheme] += r->file_bytes;
	else if (r->used) l->param_bytes += r->file_bytes;
	if (r->used && r->scheme == NUM_SCHEME_NVFP4) l->has_w4a4 = true;
	if (l->o.report) l->o.report(l->o.report_user, r);
}

nh_status load_progress(loader *l, size_t bytes, nh_error *e)
{
	l->bytes_done += bytes;
	if (!l->o.progress || l->o.progress(l->o.progress_user, "bytes", l->bytes_done, l->o.set ? st_set_bytes(l->o.set) : l->o.expected))
		return NH_OK;
	return ERR(e, NH_ERR_CANCELLED, "%s: loading cancelled", l->ledger.files);
}

nh_status load_absent(loader *l, size_t bytes, nh_error *e) { return loader_shapes_only(l) ? load_progress(l, bytes, e) : NH_OK; }

bool load_has(const loader *l, const char *name) { return ledger_has(&l->ledger, name); }
const uint64_t *loader_scheme_bytes(const loader *l) { return l->scheme_bytes; }
uint64_t loader_param_bytes(const loader *l) { return l->param_bytes; }
bool loader_has_w4a4(const loader *l) { return l->has_w4a4; }
bool loader_fp8_kv(const loader *l) { return l->o.quant && quant_kv(l->o.quant) == NUM_E4M3; }
const logger *loader_log(const loader *l) { return l->o.log; }
const char *loader_files(const loader *l) { return l->ledger.files; }
bool loader_shapes_only(const loader *l) { return l->o.set == NULL && l->dummy == NULL; }
uint64_t loader_bytes_done(const loader *l) { return l->bytes_done; }
int64_t loader_us(const loader *l) { return l->finished_us; }

nh_status loader_finish(loader *l, nh_error *e)
{
	l->finished_us = clock_us() - l->opened_us;
	return ledger_finish(&l->ledger, l->o.log, e);
}

bool load_eager(const loader *l) { return l->o.x->num->rounding == NUM_ROUND_EAGER; }

bool load_float(ledger *g, const st_tensor *t)
{
	if (t->dtype == NUM_BF16 || t->dtype == NUM_F32) return true;
	ledger_note(g, LEDGER_WRONG, "%s: tensor %s: type %s, expected bf16 or f32", ledger_file(g, t), t->name, num_dtype_name(t->dtype));
	return false;
}

/* Reading is slower than importing where the disk is cold, so the disk works ahead. Asking costs a walk over the pages: not for each tensor. */
void load_read_ahead(loader *l, const st_tensor *t)
{
	const size_t ahead = (size_t)64 << 20;
	const st_file *f = ledger_file_of(&l->ledger, t);
	if (!f) return;
	bool asked = f == l->ahead_file && t->offset >= l->ahead_from && t->offset + t->bytes + ahead / 2 <= l->ahead_end;
	if (asked) return;
	st_file_want(f, t, ahead);
	l->ahead_file = f;
	l->ahead_from = t->offset;
	l->ahead_end = t->offset + t->bytes + ahead;
}

nh_status load_take(
    loader *l, const char *name, num_dtype habit, bool keep, int rank, const int64_t *shape, const st_tensor **out, nh_error *e)
{
	*out = NULL;
	if (l->dummy) {
		*out = dummy_tensor(l->dummy, name, habit, rank, shape, keep, e);
		return *out ? NH_OK : e ? (nh_status)e->code : NH_ERR_NOMEM;
	}
	if (!l->o.set) return NH_OK;
	const st_tensor *t = ledger_take(&l->ledger, name);
	if (t && load_float(&l->ledger, t) && ledger_shape(&l->ledger, t, rank, shape)) *out = t;
	if (*out) load_read_ahead(l, t);
	return NH_OK;
}

static int64_t product(int rank, const int64_t *shape)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++) n *= shape[i];
	return n;
}

static double convert(double v, load_kind kind, bool eager)
{
	switch (kind) {
	case LOAD_MODEL: return eager ? num_round_bf16(v) : v;
	case LOAD_NEG_EXP: return eager ? -num_round_f32(exp(v)) : -exp(v);
	case LOAD_F32: break;
	}
	return v;
}

nh_status load_param(loader *l, const char *name, load_kind kind, int rank, const int64_t *shape, tensor *out, nh_error *e)
{
	enum { SLICE = 256 };
	num_dtype type = kind == LOAD_NEG_EXP ? l->o.x->types.wide : NUM_F32;
	int64_t n = product(rank, shape), dims[TENSOR_RANK] = {0};
	/* A depthwise conv weight is [C, 1, K] in the file: the middle 1 says nothing. */
	int r = 0;
	for (int i = 0; i < rank; i++)
		if (!(rank == 3 && i == 1 && shape[i] == 1)) dims[r++] = shape[i];
	*out = tensor_nd(NULL, type, r, dims);
	const st_tensor *t;
	TRY(load_take(l, name, NUM_BF16, false, rank, shape, &t, e));
	load_record record = {.module = name,
	    .dtype = t ? t->dtype : NUM_BF16,
	    .n = n,
	    .k = 1,
	    .file_bytes = t ? t->bytes : (size_t)n * 2,
	    .rule = "",
	    .used = true};
	load_report(l, &record);
	if (!t) return load_absent(l, record.file_bytes, e);
	void *p = load_memory(l, out->room);
	if (!p) return ERR_NOMEM(e);
	for (int64_t at = 0; at < n; at += SLICE) {
		double v[SLICE];
		uint8_t stored[SLICE * sizeof(double)];
		size_t count = (size_t)(n - at < SLICE ? n - at : SLICE);
		num_load_row(t->dtype, t->data, (size_t)at, count, v);
		for (size_t i = 0; i < count; i++) v[i] = convert(v[i], kind, load_eager(l));
		num_store_row(type, stored, 0, count, v);
		TRY(l->o.arm->upload(l->o.x, (char *)p + (size_t)at * num_bytes(type), stored, count * num_bytes(type), e));
	}
	out->data = p;
	return load_progress(l, t->bytes, e);
}

nh_status load_table(loader *l, const char *name, int64_t rows, int64_t cols, tensor *out, nh_error *e)
{
	const int64_t shape[2] = {rows, cols};
	const char *module;
	size_t len = strlen(name), tail = strlen(".weight");
	*out = tensor_2d(NULL, NUM_BF16, rows, cols);
	TRY(load_string(l, &module, e, "%.*s", (int)(len > tail ? len - tail : len), name));
	TRY(load_plain_only(l, module, e));
	const st_tensor *t;
	TRY(load_take(l, name, NUM_BF16, !l->o.arm || l->o.arm->host_memory, 2, shape, &t, e));
	load_record record = {.module = name, .dtype = t ? t->dtype : NUM_BF16, .n = rows, .k = cols, .rule = "", .used = true};
	record.file_bytes = t ? t->bytes : out->room;
	load_report(l, &record);
	if (!t) return load_absent(l, record.file_bytes, e);
	*out = tensor_2d(NULL, t->dtype, rows, cols);
	if (l->o.arm->host_memory) out->data = (void *)(uintptr_t)t->data;
	else {
		out->data = load_memory(l, t->bytes);
		if (!out->data) return ERR_NOMEM(e);
		TRY(l->o.arm->upload(l->o.x, out->data, t->data, t->bytes, e));
	}
	return load_progress(l, t->bytes, e);
}

nh_status load_kv_scale(loader *l, const char *name, float fallback, float *out, bool *found, nh_error *e)
{
	*out = fallback;
	*found = !l->o.set || load_has(l, name);
	const st_tensor *t;
	if (loader_shapes_only(l)) return load_absent(l, sizeof *out, e);
	if (!*found) return NH_OK;
	TRY(load_take(l, name, NUM_F32, false, 0, NULL, &t, e));
	if (!t) return NH_OK;
	double v = num_load(t->dtype, t->data, 0);
	if (!(v > 0) || isinf(v)) {
		ledger_note(&l->ledger, LEDGER_WRONG, "%s: tensor %s: value %g, expected a positive number", ledger_file(&l->ledger, t), name, v);
		return NH_OK;
	}
	*out = (float)(l->o.x->num->kv_scale_bf16 ? num_round_bf16(v) : v);
	load_record record = {.module = name, .dtype = t->dtype, .n = 1, .k = 1, .file_bytes = t->bytes, .rule = "", .used = true};
	load_report(l, &record);
	return load_progress(l, t->bytes, e);
}

nh_status load_skip_param(loader *l, const char *name, int rank, const int64_t *shape, nh_error *e)
{
	const st_tensor *t;
	TRY(load_take(l, name, NUM_BF16, false, rank, shape, &t, e));
	int64_t n = product(rank, shape);
	load_record record = {.module = name, .dtype = t ? t->dtype : NUM_BF16, .n = n, .k = 1, .rule = ""};
	record.file_bytes = t ? t->bytes : (size_t)n * 2;
	load_report(l, &record);
	return t ? load_progress(l, t->bytes, e) : load_absent(l, record.file_bytes, e);
}

nh_status load_ignore(loader *l, const char *name, const char *why, nh_error *e)
{
	if (!load_has(l, name)) return NH_OK;
	const st_tensor *t = ledger_take(&l->ledger, name);
	if (!t) return NH_OK;
	log_line(l->o.log, NH_LOG_NOTICE, "%s: tensor %s is not used: %s", ledger_file(&l->ledger, t), name, why);
	load_record record = {.module = name, .dtype = t->dtype, .n = 1, .k = 1, .file_bytes = t->bytes, .rule = why};
	load_report(l, &record);
	return load_progress(l, t->bytes, e);
}
