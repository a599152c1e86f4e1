/* SPDX-License-Identifier: Apache-2.0
 * qz_shard.c: one file of the result from one file of the source. Two passes over the matrices: the first finds the scales, for they stand before the
 * codes in the file; the second writes, and holds the codes of one matrix at a time. Within a file tensors are ordered by element size and then
 * by name, so that all are aligned.
 * Breaks first: a matrix and its scales lie in one file, and the codes are those of the scales that were written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/quantize/qz.h"

typedef enum part { PART_COPY, PART_CODES, PART_BLOCKS, PART_SCALE, PART_INPUT, PART_KV } part;

typedef struct entry {
	char name[512];
	qz_item *item;
	part part;
	num_dtype dtype;
	int rank;
	int64_t shape[ST_MAX_RANK];
} entry;

typedef struct shard {
	qz_writing *w;
	st_writer *file;
	entry *list; /* own */
	size_t count, room;
	uint8_t *codes, *blocks; /* own: of the largest matrix here */
	size_t codes_bytes, blocks_bytes;
} shard;

static qz_matrix matrix_of(const qz_item *it)
{
	const st_tensor *t = it->t;
	return (qz_matrix){.name = t->name, .dtype = t->dtype, .data = t->data, .n = t->shape[0], .k = t->shape[1]};
}

static nh_status add(shard *s, qz_item *it, part p, const char *suffix, num_dtype dtype, int rank, const int64_t *shape, nh_error *e)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 256;
		entry *more = mem_resize(s->list, room, sizeof *more);
		if (more == NULL) return ERR_NOMEM(e);
		s->list = more;
		s->room = room;
	}
	entry *n = &s->list[s->count];
	*n = (entry){.item = it, .part = p, .dtype = dtype, .rank = rank};
	int len = p == PART_COPY ? snprintf(n->name, sizeof n->name, "%s", it->t->name)
	                         : snprintf(n->name, sizeof n->name, "%s%s", it->module, suffix);
	if (len < 0 || (size_t)len >= sizeof n->name) return ERR(e, NH_ERR_LIMIT, "tensor %.200s: the name is too long", it->t->name);
	for (int i = 0; i < rank; i++) n->shape[i] = shape[i];
	s->count++;
	return NH_OK;
}

/* The tensors that a source tensor becomes (model.md 2.4). */
static nh_status expand(shard *s, qz_item *it, nh_error *e)
{
	const st_tensor *t = it->t;
	if (it->scheme == NUM_SCHEME_NONE) {
		TRY(add(s, it, PART_COPY, "", t->dtype, t->rank, t->shape, e));
		if (it->role != QZ_ATTN || !s->w->plan->o->kv_fp8) return NH_OK;
		const char *end = it->module + strlen(it->module) - strlen("k_proj");
		bool k = strcmp(end, "k_proj") == 0, v = strcmp(end, "v_proj") == 0;
		return k || v ? add(s, it, PART_KV, k ? ".k_scale" : ".v_scale", NUM_F32, 1, (int64_t[]){1}, e) : NH_OK;
	}
	bool fp8 = it->scheme == NUM_SCHEME_FP8;
	int64_t n = t->shape[0], k = t->shape[1];
	size_t codes = (size_t)n * (size_t)(fp8 ? k : k / 2), blocks = fp8 ? 0 : (size_t)n * (size_t)(k / 16);
	if (codes > s->codes_bytes) s->codes_bytes = codes;
	if (blocks > s->blocks_bytes) s->blocks_bytes = blocks;
	TRY(add(s, it, PART_CODES, ".weight", fp8 ? NUM_E4M3 : NUM_U8, 2, (int64_t[]){n, fp8 ? k : k / 2}, e));
	if (!fp8) TRY(add(s, it, PART_BLOCKS, ".weight_scale", NUM_E4M3, 2, (int64_t[]){n, k / 16}, e));
	TRY(add(s, it, PART_SCALE, fp8 ? ".weight_scale" : ".weight_scale_2", NUM_F32, 0, NULL, e));
	return it->scheme == NUM_SCHEME_W4A16 ? NH_OK : add(s, it, PART_INPUT, ".input_scale", NUM_F32, 0, NULL, e);
}

static int by_size_and_name(const void *a, const void *b)
{
	const entry *x = a, *y = b;
	size_t sx = num_bytes(x->dtype), sy = num_bytes(y->dtype);
	if (sx != sy) return sx > sy ? -1 : 1;
	return strcmp(x->name, y->name);
}

static nh_status step(qz_writing *w, nh_error *e)
{
	bool go = cmd_progress_show(w->progress, "bytes", w->done, 2 * w->plan->source_bytes);
	return go && !cmd_interrupted() ? NH_OK : ERR(e, NH_ERR_CANCELLED, "cancelled");
}

/* First pass: weight scales. */
static nh_status find_scale(shard *s, qz_item *it, nh_error *e)
{
	qz_matrix m = matrix_of(it);
	float amax;
	if (it->scheme == NUM_SCHEME_NONE) return NH_OK;
	TRY(qz_amax(s->w->pool, &m, &amax, e));
	if (it->scheme == NUM_SCHEME_FP8) return qz_fp8_scale(s->w->pool, &m, amax, &it->scale, e);
	it->scale = qz_fp4_second(amax);
	return NH_OK;
}

static float activation(const shard *s, const entry *n)
{
	const qz_item *it = n->item;
	qz_site site = n->part == PART_INPUT ? it->site : strcmp(n->name + strlen(n->name) - 7, "k_scale") == 0 ? QZ_KEYS : QZ_VALUES;
	double amax = s->w->amax != NULL ? s->w->amax[it->layer * QZ_SITES + (int)site] : 0;
	return qz_input_scale(n->part == PART_INPUT ? it->scheme : NUM_SCHEME_FP8, amax);
}

/* Second pass. Codes and block scales of a matrix follow each other, for one's name begins with the other's. */
static void put(shard *s, const entry *n)
{
	qz_item *it = n->item;
	qz_matrix m = matrix_of(it);
	size_t count = (size_t)m.n * (size_t)m.k;
	float v;
	switch (n->part) {
	case PART_COPY: st_writer_put(s->file, it->t->data, it->t->bytes); break;
	case PART_CODES:
		if (it->scheme == NUM_SCHEME_FP8) qz_fp8_codes(s->w->pool, &m, it->scale, s->codes);
		else qz_fp4_codes(s->w->pool, &m, it->scale, s->codes, s->blocks);
		st_writer_put(s->file, s->codes, it->scheme == NUM_SCHEME_FP8 ? count : count / 2);
		break;
	case PART_BLOCKS: st_writer_put(s->file, s->blocks, count / 16); break;
	default: v = n->part == PART_SCALE ? it->scale : activation(s, n); st_writer_put(s->file, &v, sizeof v);
	}
}

static nh_status write_all(shard *s, const st_file *source, const char *path, nh_error *e)
{
	qz_writing *w = s->w;
	nh_status st = st_writer_open(&s->file, path, e);
	if (st == NH_OK) st = st_writer_meta(s->file, "format", "pt", e);
	for (size_t i = 0; st == NH_OK && i < s->count; i++)
		st = st_writer_add(s->file, s->list[i].name, s->list[i].dtype, s->list[i].rank, s->list[i].shape, e);
	if (st == NH_OK) st = st_writer_begin(s->file, e);
	for (size_t i = 0; st == NH_OK && i < s->count; i++) {
		const entry *n = &s->list[i];
		put(s, n);
		if (n->part != PART_COPY && n->part != PART_CODES) continue;
		st_file_drop(source, n->item->t);
		w->done += n->item->t->bytes;
		st = step(w, e);
	}
	if (st == NH_OK) return st_writer_commit(s->file, e);
	st_writer_abort(s->file);
	return st;
}

nh_status qz_shard(qz_writing *w, size_t file, const char *path, nh_error *e)
{
	const st_file *source = st_set_file(w->plan->set, file);
	shard s = {.w = w};
	nh_status st = NH_OK;
	for (size_t i = 0; st == NH_OK && i < w->plan->count; i++) {
		qz_item *it = &w->plan->items[i];
		if (st_set_file_of(w->plan->set, i) != source) continue;
		st = find_scale(&s, it, e);
		if (st == NH_OK) st = expand(&s, it, e);
		w->done += it->t->bytes;
		if (st == NH_OK) st = step(w, e);
	}
	s.codes = mem_alloc(s.codes_bytes);
	s.blocks = mem_alloc(s.blocks_bytes);
	if (st == NH_OK && (s.codes == NULL || s.blocks == NULL)) st = ERR_NOMEM(e);
	if (st == NH_OK && s.count > 0) qsort(s.list, s.count, sizeof *s.list, by_size_and_name);
	if (st == NH_OK) st = write_all(&s, source, path, e);
	mem_free(s.list);
	mem_free(s.codes);
	mem_free(s.blocks);
	return st;
}
