/* SPDX-License-Identifier: Apache-2.0
 * ledger.c: bookkeeping over an st_set. The set is sorted by name, so a tensor's line is found by bisection.
 */
#include "load/ledger.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"

nh_status ledger_init(ledger *g, const st_set *set, const char *files, nh_error *e)
{
	memset(g, 0, sizeof *g);
	g->set = set;
	g->files = files;
	arena_init(&g->text);
	if (set && !(g->taken = mem_array(st_set_count(set), sizeof *g->taken))) return ERR_NOMEM(e);
	return NH_OK;
}

void ledger_deinit(ledger *g)
{
	mem_free(g->taken);
	arena_deinit(&g->text);
}

static size_t line_of(const ledger *g, const char *name)
{
	size_t lo = 0, hi = st_set_count(g->set);
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (strcmp(st_set_at(g->set, mid)->name, name) < 0) lo = mid + 1;
		else hi = mid;
	}
	return lo < st_set_count(g->set) && strcmp(st_set_at(g->set, lo)->name, name) == 0 ? lo : SIZE_MAX;
}

bool ledger_has(const ledger *g, const char *name) { return g->set && line_of(g, name) != SIZE_MAX; }

const char *ledger_file(const ledger *g, const st_tensor *t)
{
	size_t i = g->set ? line_of(g, t->name) : SIZE_MAX;
	return i == SIZE_MAX ? g->files : path_base(st_file_path(st_set_file_of(g->set, i)));
}

const st_file *ledger_file_of(const ledger *g, const st_tensor *t)
{
	size_t i = g->set ? line_of(g, t->name) : SIZE_MAX;
	return i == SIZE_MAX ? NULL : st_set_file_of(g->set, i);
}

void ledger_note(ledger *g, ledger_kind kind, const char *format, ...)
{
	size_t n = g->count[kind]++;
	if (n >= LEDGER_TOLD) return;
	char line[400];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	g->told[kind][n] = arena_strndup(&g->text, line, strlen(line));
	if (!g->told[kind][n]) {
		g->nomem = true;
		g->count[kind] = n;
	}
}

const st_tensor *ledger_take(ledger *g, const char *name)
{
	size_t i = line_of(g, name);
	if (i == SIZE_MAX) {
		ledger_note(g, LEDGER_MISSING, "%s: tensor %s: not in the files", g->files, name);
		return NULL;
	}
	if (g->taken[i]) {
		ledger_note(g, LEDGER_TWICE, "%s: tensor %s: asked for twice", g->files, name);
		return NULL;
	}
	g->taken[i] = true;
	return st_set_at(g->set, i);
}

static void shape_text(char *out, size_t room, int rank, const int64_t *shape)
{
	size_t at = 0;
	out[0] = 0;
	for (int i = 0; i < rank && at + 24 < room; i++) at += (size_t)snprintf(out + at, room - at, "%s%" PRId64, i ? ", " : "", shape[i]);
}

bool ledger_shape(ledger *g, const st_tensor *t, int rank, const int64_t *shape)
{
	bool same = t->rank == rank;
	for (int i = 0; same && i < rank; i++) same = t->shape[i] == shape[i];
	if (rank == 0) same = t->rank == 0 || (t->rank == 1 && t->shape[0] == 1);
	if (same) return true;
	char found[200], needed[120];
	shape_text(found, sizeof found, t->rank, t->shape);
	shape_text(needed, sizeof needed, rank, shape);
	ledger_note(g, LEDGER_WRONG, "%s: tensor %s: shape [%s], config needs [%s]", ledger_file(g, t), t->name, found, needed);
	return false;
}

nh_status ledger_finish(ledger *g, const logger *log, nh_error *e)
{
	static const char *const WHAT[LEDGER_KINDS] = {"missing", "wrong", "asked for twice", "not understood"};
	for (size_t i = 0; g->set && i < st_set_count(g->set); i++)
		if (!g->taken[i]) {
			const st_tensor *t = st_set_at(g->set, i);
			ledger_note(g, LEDGER_UNUSED, "%s: tensor %s: nothing in the configuration asks for it", ledger_file(g, t), t->name);
		}
	if (g->nomem) return ERR_NOMEM(e);
	size_t all = 0, at = 0;
	for (int k = 0; k < LEDGER_KINDS; k++) all += g->count[k];
	if (all == 0) return NH_OK;
	char text[1000] = "";
	for (int k = 0; k < LEDGER_KINDS; k++)
		for (size_t i = 0; i < g->count[k] && i < LEDGER_TOLD; i++) {
			if (all > 1) log_line(log, NH_LOG_ERROR, "%s", g->told[k][i]);
			if (at + strlen(g->told[k][i]) + 3 < sizeof text)
				at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? "; " : "", g->told[k][i]);
		}
	if (all == 1) return ERR(e, NH_ERR_TENSOR, "%s", text);
	char sums[160] = "";
	size_t s = 0;
	for (int k = 0; k < LEDGER_KINDS; k++)
		if (g->count[k]) s += (size_t)snprintf(sums + s, sizeof sums - s, "%s%zu %s", s ? ", " : "", g->count[k], WHAT[k]);
	return ERR(e, NH_ERR_TENSOR, "%s: tensors and configuration do not match: %s: %s", g->files, sums, text);
}
