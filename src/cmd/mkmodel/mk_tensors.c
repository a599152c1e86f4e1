/* SPDX-License-Identifier: Apache-2.0
 * mk_tensors.c: writes the tensors of a plan, row by row: nothing is ever held as a whole. Within a file tensors are ordered by element size
 * and then name, as the format's own library does, so that all of them are aligned.
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
#include "num/num_conv.h"

typedef struct writing {
	const mk_options *o;
	st_writer *w;
	double *row;  /* own [most columns] */
	uint8_t *out; /* own [most columns * 4] */
	uint64_t done, total;
} writing;

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

static nh_status write_tensor(writing *w, const mk_tensor *t, nh_error *e)
{
	mk_source *s = t->source;
	if (s->scheme != NUM_SCHEME_NONE) mk_find_amax(s);
	if (t->part == MK_SCALE || t->part == MK_INPUT_SCALE) {
		float v = t->part == MK_SCALE ? mk_weight_scale(s) : s->input_scale;
		st_writer_put(w->w, &v, sizeof v);
		w->done += sizeof v;
		return NH_OK;
	}
	uint64_t told = w->done;
	for (int64_t r = 0; r < s->n; r++) {
		size_t n = encode_row(w, t, r);
		st_writer_put(w->w, w->out, n);
		w->done += n;
		if (w->o->progress == NULL || (w->done - told < 1 << 20 && r + 1 < s->n)) continue;
		told = w->done;
		if (!w->o->progress(w->o->progress_user, "bytes", w->done, w->total)) return ERR(e, NH_ERR_CANCELLED, "cancelled");
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
	for (size_t i = 0; s == NH_OK && i < count; i++) s = write_tensor(w, list[i], e);
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
	int shards = o->shards > 0 ? o->shards : shards_for(p, MK_SHARD_BYTES);
	if ((size_t)shards > p->count) return ERR(e, NH_ERR_ARG, "shards: %d, but there are %zu tensors", shards, p->count);
	assign_shards(p, shards);
	int64_t widest = 1;
	for (size_t i = 0; i < p->count; i++) widest = p->tensors[i].source->k > widest ? p->tensors[i].source->k : widest;
	writing w = {.o = o, .total = p->bytes};
	w.row = mem_array((size_t)widest, sizeof *w.row);
	w.out = mem_array((size_t)widest, 4);
	mk_tensor **list = mem_array(p->count, sizeof *list);
	nh_status s = w.row == NULL || w.out == NULL || list == NULL ? ERR_NOMEM(e) : NH_OK;
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
	mem_free(list);
	mem_free(w.row);
	mem_free(w.out);
	return s;
}
