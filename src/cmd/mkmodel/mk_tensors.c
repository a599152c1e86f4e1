/* SPDX-License-Identifier: Apache-2.0
 * mk_tensors.c: writes the tensors of a plan, piece by piece: nothing is ever held as a whole. Within a file tensors are ordered by element
 * size and then name, as the format's own library does, so that all of them are aligned. Two ways: rows of values that are then rounded
 * (small models, whose values do not depend on the format), and codes drawn as the loader draws them (published shapes: 30e9 roundings
 * would take hours).
 * Breaks first: what is written for a quantised matrix decodes to the nearest values that its scales allow.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/mkmodel/mk.h"
#include "fmt/safetensors.h"
#include "load/dummy.h"
#include "num/num_conv.h"

typedef struct writing {
	const mk_options *o;
	st_writer *w;
	double *row;    /* own [most columns] */
	uint8_t *out;   /* own [most columns * 4] */
	dummy *drawn;   /* own; NULL: values are rounded */
	uint8_t *piece; /* own [PIECE + DUMMY_SLACK], where drawn */
	uint64_t done, total, told;
} writing;

#define PIECE ((size_t)16 << 20)
#define TELL (1u << 20) /* bytes between two words of progress */

/* The e4m3 scale of one block of 16 and its codes; model.md 2.4: value = code * block scale * weight_scale_2. */
static uint8_t block_scale(const double *v, float second)
{
	double most = 0;
	for (int i = 0; i < 16; i++) most = fmax(most, fabs(v[i]));
	return num_f64_to_e4m3(most / 6 / (double)second);
}

static void fp4_row(const double *v, int64_t k, float second, uint8_t *out)
{
	for (int64_t b = 0; b < k / 16; b++) {
		double scale = (double)num_e4m3_to_f32(block_scale(v + 16 * b, second)) * (double)second;
		for (int64_t i = 0; i < 16; i++) {
			uint8_t code = scale > 0 ? num_f64_to_e2m1(v[16 * b + i] / scale) : 0;
			uint8_t *byte = &out[(16 * b + i) / 2];
			*byte = i % 2 == 0 ? code : (uint8_t)(*byte | code << 4);
		}
	}
}

/* One row of a tensor into w->out; returns its bytes. */
static size_t encode_row(writing *w, const mk_tensor *t, int64_t row)
{
	const mk_source *s = t->source;
	int64_t k = s->k;
	for (int64_t i = 0; i < k; i++) w->row[i] = mk_value(s, (uint64_t)(row * k + i));
	float scale = s->scheme != NUM_SCHEME_NONE ? mk_weight_scale(s) : 1;
	switch (t->part) {
	case MK_FP8_CODES:
		for (int64_t i = 0; i < k; i++) w->out[i] = num_f64_to_e4m3(w->row[i] / (double)scale);
		return (size_t)k;
	case MK_FP4_CODES: fp4_row(w->row, k, scale, w->out); return (size_t)k / 2;
	case MK_BLOCK_SCALES:
		for (int64_t b = 0; b < k / 16; b++) w->out[b] = block_scale(w->row + 16 * b, scale);
		return (size_t)k / 16;
	default: num_store_row(t->dtype, w->out, 0, (size_t)k, w->row); return (size_t)k * num_bytes(t->dtype);
	}
}

static nh_status put(writing *w, const void *bytes, size_t n, nh_error *e)
{
	st_writer_put(w->w, bytes, n);
	w->done += n;
	if (w->o->progress == NULL || (w->done - w->told < TELL && w->done < w->total)) return NH_OK;
	w->told = w->done;
	return w->o->progress(w->o->progress_user, "bytes", w->done, w->total) ? NH_OK : ERR(e, NH_ERR_CANCELLED, "cancelled");
}

static nh_status write_tensor(writing *w, const mk_tensor *t, nh_error *e)
{
	mk_source *s = t->source;
	if (s->scheme != NUM_SCHEME_NONE) mk_find_amax(s);
	if (t->part == MK_SCALE || t->part == MK_INPUT_SCALE) {
		float v = t->part == MK_SCALE ? mk_weight_scale(s) : s->input_scale;
		return put(w, &v, sizeof v, e);
	}
	for (int64_t r = 0; r < s->n; r++) {
		size_t n = encode_row(w, t, r);
		TRY(put(w, w->out, n, e));
	}
	return NH_OK;
}

/* The bytes that loading the shape without files would draw, in any number of pieces. */
static nh_status draw_tensor(writing *w, const mk_tensor *t, nh_error *e)
{
	const mk_source *s = t->source;
	const bool matrix = t->name != s->name; /* a module, whose tensors have its name and more */
	weight m = {.name = s->name, .scheme = s->scheme, .n = s->n, .k = s->k, .scale = 1};
	m.dtype = s->scheme == NUM_SCHEME_NONE ? NUM_BF16 : s->scheme == NUM_SCHEME_FP8 ? NUM_E4M3 : NUM_E2M1X2;
	if (t->part == MK_SCALE || t->part == MK_INPUT_SCALE) {
		TRY(dummy_scale(w->drawn, &m, e));
		return put(w, t->part == MK_SCALE ? &m.scale : &m.input_scale, sizeof m.scale, e);
	}
	/* The loader draws what it takes for a bf16 parameter as bf16; the router's bias alone is F32 in the file. */
	const bool widen = s->fill == MK_ROUTER_BIAS && t->dtype == NUM_F32;
	const num_dtype type = widen ? NUM_BF16 : t->dtype;
	const uint64_t all = widen ? t->bytes / 2 : t->bytes;
	for (uint64_t at = 0; at < all;) {
		const size_t n = all - at < PIECE / 2 ? (size_t)(all - at) : PIECE / 2;
		if (matrix) TRY(dummy_matrix_part(w->drawn, &m, t->part == MK_BLOCK_SCALES, at, n, w->piece, e));
		else TRY(dummy_tensor_part(w->drawn, t->name, type, t->rank >= 2 ? t->shape[t->rank - 1] : 0, at, n, w->piece, e));
		/* From the last value on, so that none is overwritten before it was read. */
		for (size_t i = n / 2; widen && i-- > 0;) num_store(NUM_F32, w->piece, i, num_load(NUM_BF16, w->piece, i));
		TRY(put(w, w->piece, widen ? 2 * n : n, e));
		at += n;
	}
	return NH_OK;
}

static int by_size_and_name(const void *a, const void *b)
{
	const mk_tensor *x = *(const mk_tensor *const *)a, *y = *(const mk_tensor *const *)b;
	size_t sx = num_bytes(x->dtype), sy = num_bytes(y->dtype);
	if (sx != sy) return sx > sy ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void file_name(char out[64], int shard, int shards)
{
	if (shards == 1) snprintf(out, 64, "model.safetensors");
	else snprintf(out, 64, "model-%05d-of-%05d.safetensors", shard + 1, shards);
}

static nh_status write_shard(writing *w, const char *dir, const char *name, mk_tensor **list, size_t count, nh_error *e)
{
	char *path = path_join(dir, name);
	if (path == NULL) return ERR_NOMEM(e);
	nh_status s = st_writer_open(&w->w, path, e);
	mem_free(path);
	if (s != NH_OK) return s;
	s = st_writer_meta(w->w, "format", "pt", e);
	for (size_t i = 0; s == NH_OK && i < count; i++)
		s = st_writer_add(w->w, list[i]->name, list[i]->dtype, list[i]->rank, list[i]->shape, e);
	if (s == NH_OK) s = st_writer_begin(w->w, e);
	for (size_t i = 0; s == NH_OK && i < count; i++) s = w->drawn != NULL ? draw_tensor(w, list[i], e) : write_tensor(w, list[i], e);
	if (s == NH_OK) return st_writer_commit(w->w, e);
	st_writer_abort(w->w);
	return s;
}

static nh_status write_index(const char *dir, const mk_plan *p, int shards, nh_error *e)
{
	json_t *map = json_object();
	for (size_t i = 0; i < p->count; i++) {
		char name[64];
		file_name(name, p->tensors[i].shard, shards);
		json_object_set_new(map, p->tensors[i].name, json_string(name));
	}
	json_t *index = json_pack("{s:{s:I},s:o}", "metadata", "total_size", (json_int_t)p->bytes, "weight_map", map);
	nh_status s = mk_put_json(dir, "model.safetensors.index.json", index, e);
	json_decref(index);
	return s;
}

/* Whole layers stay together as far as equal sizes allow: tensors go to shards in the plan's order. Every shard gets at least one. */
static void assign_shards(mk_plan *p, int shards)
{
	uint64_t before = 0;
	int last = 0;
	for (size_t i = 0; i < p->count; i++) {
		uint64_t middle = before + p->tensors[i].bytes / 2;
		int want = (int)((double)middle / (double)p->bytes * shards);
		int need = shards - (int)(p->count - i); /* so many are left that each of the rest must open one */
		if (want > last + 1) want = last + 1;
		if (want < last) want = last;
		if (want < need) want = need;
		if (want >= shards) want = shards - 1;
		p->tensors[i].shard = last = i == 0 ? 0 : want;
		before += p->tensors[i].bytes;
	}
}

/* As many files as keep each below `most` bytes, with the tensors dealt out by size: one more as long as one of them is too large. */
static int shards_for(mk_plan *p, uint64_t most)
{
	int shards = (int)(p->bytes / most) + 1;
	for (; (size_t)shards < p->count; shards++) {
		assign_shards(p, shards);
		uint64_t bytes = 0, tensors = 0;
		bool fits = true;
		for (size_t i = 0; i < p->count; i++) {
			if (i > 0 && p->tensors[i].shard != p->tensors[i - 1].shard) bytes = tensors = 0;
			bytes += p->tensors[i].bytes;
			if (++tensors > 1 && bytes > most) fits = false;
		}
		if (fits) break;
	}
	return (size_t)shards < p->count ? shards : (int)p->count;
}

nh_status mk_tensor_files(const char *dir, mk_plan *p, const mk_options *o, nh_error *e)
{
	int shards = o->shards > 0 ? o->shards : shards_for(p, o->shard_bytes > 0 ? o->shard_bytes : MK_SHARD_BYTES);
	if ((size_t)shards > p->count) return ERR(e, NH_ERR_ARG, "shards: %d, but there are %zu tensors", shards, p->count);
	assign_shards(p, shards);
	int64_t widest = 1;
	for (size_t i = 0; i < p->count; i++) widest = p->tensors[i].source->k > widest ? p->tensors[i].source->k : widest;
	writing w = {.o = o, .total = p->bytes};
	w.row = mem_array((size_t)widest, sizeof *w.row);
	w.out = mem_array((size_t)widest, 4);
	if (o->like != NULL) w.piece = mem_aligned(DUMMY_SLACK, PIECE + DUMMY_SLACK);
	mk_tensor **list = mem_array(p->count, sizeof *list);
	nh_status s = w.row == NULL || w.out == NULL || list == NULL || (o->like != NULL && w.piece == NULL) ? ERR_NOMEM(e) : NH_OK;
	if (s == NH_OK && o->like != NULL) s = dummy_open(&w.drawn, o->seed, 0, e);
	for (int shard = 0; s == NH_OK && shard < shards; shard++) {
		char name[64];
		size_t count = 0;
		for (size_t i = 0; i < p->count; i++)
			if (p->tensors[i].shard == shard) list[count++] = &p->tensors[i];
		qsort(list, count, sizeof *list, by_size_and_name);
		file_name(name, shard, shards);
		s = write_shard(&w, dir, name, list, count, e);
	}
	if (s == NH_OK && shards > 1) s = write_index(dir, p, shards, e);
	dummy_close(w.drawn);
	mem_free(list);
	mem_free(w.piece);
	mem_free(w.row);
	mem_free(w.out);
	return s;
}
