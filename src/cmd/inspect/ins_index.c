/* SPDX-License-Identifier: Apache-2.0
 * ins_index.c: the tensors behind the modules: a list for --tensors, and the balance of an index file whose shards are not there.
 * Breaks first: the parts of a module are those of its format (tensor/weight.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/inspect/ins.h"

/* Calls fn for each tensor that a module needs in the files. */
typedef bool (*part_fn)(void *user, const ins_module *m, const char *name, const wfmt_part *part);

static bool each_part(const ins_module *m, part_fn fn, void *user)
{
	char name[512];
	if (!m->matrix) return fn(user, m, m->name, NULL);
	wfmt_part parts[WFMT_PARTS];
	int count = wfmt_of(m->scheme)->parts(m->n, m->k, parts);
	for (int p = 0; p < count; p++) {
		snprintf(name, sizeof name, "%s%s", m->name, parts[p].suffix);
		if (!fn(user, m, name, &parts[p])) return false;
	}
	return true;
}

static bool mark(void *user, const ins_module *m, const char *name, const wfmt_part *part)
{
	void **both = user;
	inspection *i = both[0];
	bool *seen = both[1];
	(void)m, (void)part;
	const st_index_entry *x = st_index_find(i->index, name);
	if (x == NULL) ins_problem(i, "tensor %s: not in the index", name);
	else seen[x - st_index_at(i->index, 0)] = true;
	return true;
}

/* Scales of FP8 pages: a shapes-only model does not ask for them. */
static bool is_kv_scale(const char *name)
{
	size_t n = strlen(name);
	return n > 15 && (strcmp(name + n - 15, ".k_proj.k_scale") == 0 || strcmp(name + n - 15, ".v_proj.v_scale") == 0);
}

void ins_check_index(inspection *i)
{
	size_t count = st_index_count(i->index);
	bool *seen = mem_array(count, sizeof *seen);
	if (seen == NULL) {
		i->nomem = true;
		return;
	}
	for (size_t k = 0; k < i->count; k++) each_part(&i->modules[k], mark, (void *[]){i, seen});
	for (size_t k = 0; k < count; k++) {
		const char *name = st_index_at(i->index, k)->tensor;
		if (!seen[k] && !is_kv_scale(name)) ins_problem(i, "tensor %s: nothing in the configuration asks for it", name);
	}
	mem_free(seen);
}

/* --- the list --- */

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const ins_module *const *)a)->name, (*(const ins_module *const *)b)->name);
}

static const ins_module *find(const ins_module **sorted, size_t count, const char *name)
{
	ins_module key = {.name = name};
	const ins_module *k = &key, **hit = bsearch(&k, sorted, count, sizeof *sorted, by_name);
	return hit != NULL ? *hit : NULL;
}

/* The module that a tensor belongs to: itself, or what is before its last dot. */
static const ins_module *owner(const ins_module **sorted, size_t count, const char *name)
{
	const ins_module *m = find(sorted, count, name);
	const char *dot = strrchr(name, '.');
	if (m != NULL || dot == NULL) return m;
	char module[512];
	snprintf(module, sizeof module, "%.*s", (int)(dot - name), name);
	return find(sorted, count, module);
}

static void shape_text(char out[96], int rank, const int64_t *shape)
{
	size_t at = (size_t)snprintf(out, 96, "[");
	for (int k = 0; k < rank && at < 90; k++) at += (size_t)snprintf(out + at, 96 - at, "%s%lld", k ? "," : "", (long long)shape[k]);
	if (at < 95) snprintf(out + at, 96 - at, "]");
}

typedef struct lister {
	const inspection *i;
	bool (*fn)(void *user, const ins_tensor *t);
	void *user;
} lister;

static bool tell_part(void *user, const ins_module *m, const char *name, const wfmt_part *part)
{
	lister *l = user;
	ins_tensor t = {.name = name, .file = "", .module = m, .bytes = m->bytes};
	num_dtype dtype = m->dtype;
	int64_t shape[2] = {m->n, m->k};
	int rank = m->k == 1 && !m->matrix ? 1 : 2;
	if (part != NULL) {
		/* An unquantised matrix may be F32 in the file (the router): the module knows. */
		dtype = m->scheme == NUM_SCHEME_NONE ? m->dtype : part->file_dtype;
		rank = part->rank;
		memcpy(shape, part->shape, sizeof shape);
		t.bytes = num_bytes(dtype);
		for (int k = 0; k < rank; k++) t.bytes *= (uint64_t)shape[k];
	}
	t.dtype = num_dtype_name(dtype);
	shape_text(t.shape, rank, shape);
	if (l->i->index != NULL) {
		const st_index_entry *x = st_index_find(l->i->index, name);
		t.file = x != NULL ? st_index_shard(l->i->index, x->shard) : "(missing)";
	}
	return l->fn(l->user, &t);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

void ins_tensors(const inspection *i, bool (*fn)(void *user, const ins_tensor *t), void *user)
{
	lister l = {.i = i, .fn = fn, .user = user};
	const ins_module **sorted = mem_array(i->count + 1, sizeof *sorted);
	if (sorted == NULL) return;
	for (size_t k = 0; k < i->count; k++) sorted[k] = &i->modules[k];
	qsort(sorted, i->count, sizeof *sorted, by_name);
	bool on = true;
	for (size_t k = 0; i->set == NULL && on && k < i->count; k++) on = each_part(sorted[k], tell_part, &l);
	for (size_t k = 0; i->set != NULL && on && k < st_set_count(i->set); k++) {
		const st_tensor *s = st_set_at(i->set, k);
		ins_tensor t = {.name = s->name,
		    .file = base_name(st_file_path(st_set_file_of(i->set, k))),
		    .dtype = num_dtype_name(s->dtype),
		    .bytes = s->bytes,
		    .module = owner(sorted, i->count, s->name)};
		shape_text(t.shape, s->rank, s->shape);
		on = fn(user, &t);
	}
	mem_free(sorted);
}
