/* SPDX-License-Identifier: Apache-2.0
 * verify_distance.c: how far this program's log-probabilities are from the golden's, against how far another run of the same engine is from it.
 * d = |log-probability - golden's| over the golden's five best tokens of a position. Compared are positions whose history both oracles share, and there
 * the tokens that both list. Two groups, judged apart: decode (the golden's tokens forced) and prefill (its teacher-forced text).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/verify/verify.h"

#define POSITIONS_NEEDED 200

typedef struct samples {
	double *d; /* own */
	size_t count, cap;
} samples;

typedef struct group {
	const char *name;
	samples ours, noise, all; /* all: every forced position, whether OTHER reaches it or not */
	size_t positions, flips;
	double largest;
	char where[128];
	bool nomem;
} group;

typedef struct summary {
	double mean, median, p95, p99;
} summary;

static bool add(samples *s, double d)
{
	if (s->count == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 1024;
		double *p = mem_resize(s->d, cap, sizeof *p);
		if (!p) return false;
		s->d = p;
		s->cap = cap;
	}
	s->d[s->count++] = d;
	return true;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Nearest-rank percentile of sorted values. */
static double percentile(const samples *s, double p)
{
	size_t rank = (size_t)ceil(p * (double)s->count);
	return s->d[rank ? rank - 1 : 0];
}

static summary summarise(samples *s)
{
	summary r = {NAN, NAN, NAN, NAN};
	if (s->count == 0) return r;
	qsort(s->d, s->count, sizeof *s->d, ascending);
	double sum = 0;
	for (size_t i = 0; i < s->count; i++) sum += s->d[i];
	r.mean = sum / (double)s->count;
	r.median = percentile(s, 0.5);
	r.p95 = percentile(s, 0.95);
	r.p99 = percentile(s, 0.99);
	return r;
}

static const golden_top *listed(const golden_step *s, int32_t id)
{
	for (int k = 0; s && k < s->count; k++)
		if (s->top[k].id == id) return &s->top[k];
	return NULL;
}

/* One position. other: OTHER's list there, NULL where its history differs. */
static void position(verify *v, group *g, const golden_entry *x, size_t i, const golden_step *gold, int32_t best, const verify_step *s,
    const golden_step *other)
{
	bool compared = false;
	for (int k = 0; k < gold->count && k < VERIFY_BEST; k++) {
		double d = fabs(s->want[k].logprob - gold->top[k].logprob);
		const golden_top *o = listed(other, gold->top[k].id);
		if (!add(&g->all, d)) g->nomem = true;
		if (!(d <= g->largest)) {
			g->largest = d;
			snprintf(g->where, sizeof g->where, "%s, step %zu, id %d", x->name, i, gold->top[k].id);
		}
		if (!o) continue;
		compared = true;
		if (!add(&g->ours, d) || !add(&g->noise, fabs(o->logprob - gold->top[k].logprob))) g->nomem = true;
	}
	g->positions += compared;
	if (s->best == best) return;
	const nh_logprob *w = &s->want[0];
	g->flips++;
	verify_say(v, "  %s: %s, step %zu: arg-max %d, the golden's %d (its margin %.4f nat, ours %.4f, rank of its token %d)\n", g->name,
	    x->name, i, s->best, best, gold->margin, s->margin, w->rank);
	json_array_append_new(json_object_get(v->report, "flips"),
	    json_pack("{s:s, s:s, s:I, s:i, s:i, s:f, s:f, s:i}", "group", g->name, "entry", x->name, "step", (json_int_t)i, "best", s->best,
	        "golden", best, "golden_margin", gold->margin, "margin", s->margin, "rank", w->rank));
}

static const golden_entry *same_entry(const golden *other, const golden_entry *x)
{
	for (size_t i = 0; other && i < other->entry_count; i++) {
		const golden_entry *o = &other->entries[i];
		if (strcmp(o->name, x->name) == 0 && o->prompt_tokens == x->prompt_tokens &&
		    memcmp(o->prompt, x->prompt, x->prompt_tokens * sizeof *x->prompt) == 0)
			return o;
	}
	return NULL;
}

static nh_status decode_group(verify *v, const golden *noise, group *g, nh_error *e)
{
	for (size_t n = 0; n < v->g->entry_count; n++) {
		const golden_entry *x = &v->g->entries[n], *o = same_entry(noise, x);
		verify_run r;
		nh_status s = verify_generate(v, n, true, &r, e);
		bool shared = o != NULL;
		for (size_t i = 0; s == NH_OK && i < x->tokens && i < r.count; i++) {
			if (o && i >= o->tokens) shared = false;
			position(v, g, x, i, &x->steps[i], x->ids[i], &r.steps[i], shared ? &o->steps[i] : NULL);
			if (shared && o->ids[i] != x->ids[i]) shared = false; /* this step's history was still the golden's; the next one's is not */
		}
		verify_run_free(&r);
		TRY(s);
	}
	return NH_OK;
}

static nh_status prefill_group(verify *v, const golden *noise, group *g, nh_error *e)
{
	const golden_entry *x = &v->g->forced, *o = noise ? &noise->forced : NULL;
	if (x->prompt_tokens == 0 || x->has_logprobs) return NH_OK;
	if (o && (o->prompt_tokens != x->prompt_tokens || memcmp(o->prompt, x->prompt, x->prompt_tokens * sizeof *x->prompt) != 0)) o = NULL;
	verify_run r;
	nh_status s = verify_prefill(v, x, &r, e);
	for (size_t i = 1; s == NH_OK && i < x->prompt_tokens; i++)
		if (x->steps[i].count) position(v, g, x, i, &x->steps[i], x->steps[i].top[0].id, &r.steps[i], o ? &o->steps[i] : NULL);
	verify_run_free(&r);
	return s;
}

static json_t *summary_json(summary s)
{
	return isnan(s.mean) ? json_null() : json_pack("{s:f, s:f, s:f, s:f}", "mean", s.mean, "median", s.median, "p95", s.p95, "p99", s.p99);
}

/* No farther than the engine is from itself: mean within a tenth, the rest within a quarter and one bf16 step of a logit in 8..16. */
static bool near_enough(summary ours, summary noise)
{
	const double step = 1.0 / 16;
	return ours.mean <= 1.10 * noise.mean && ours.median <= 1.25 * noise.median + step && ours.p95 <= 1.25 * noise.p95 + step &&
	       ours.p99 <= 1.25 * noise.p99 + step;
}

static bool conclude(verify *v, group *g, bool with_noise)
{
	summary ours = summarise(&g->ours), noise = summarise(&g->noise), all = summarise(&g->all);
	bool ok = with_noise && g->ours.count > 0 && near_enough(ours, noise);
	if (g->all.count == 0) {
		verify_say(v, "%-8s not measured: the golden has nothing for it\n", g->name);
		return with_noise; /* nothing to judge in this group; the position count decides */
	}
	if (with_noise)
		verify_say(v,
		    "%-8s ours  mean %.4f median %.4f p95 %.4f p99 %.4f   (%zu values at %zu positions)\n%-8s noise mean %.4f median %.4f p95 %.4f "
		    "p99 %.4f   mean ratio %.3f: %s\n",
		    g->name, ours.mean, ours.median, ours.p95, ours.p99, g->ours.count, g->positions, "", noise.mean, noise.median, noise.p95,
		    noise.p99, ours.mean / noise.mean, ok ? "near" : "FAR");
	verify_say(v, "%-8s all   mean %.4f median %.4f p95 %.4f p99 %.4f   (%zu values, not judged); largest %.4f at %s; %zu flips\n", g->name,
	    all.mean, all.median, all.p95, all.p99, g->all.count, g->largest, g->where, g->flips);
	json_object_set_new(v->report, g->name,
	    json_pack("{s:o, s:o, s:o, s:I, s:f, s:I}", "ours", summary_json(ours), "noise", summary_json(noise), "all", summary_json(all),
	        "positions", (json_int_t)g->positions, "largest", g->largest, "flips", (json_int_t)g->flips));
	return ok;
}

int verify_distance(verify *v, const golden *noise, nh_error *e)
{
	group groups[2] = {{.name = "decode"}, {.name = "prefill"}};
	json_object_set_new(v->report, "flips", json_array());
	nh_status s = decode_group(v, noise, &groups[0], e);
	if (s == NH_OK) s = prefill_group(v, noise, &groups[1], e);
	if (s == NH_OK && (groups[0].nomem || groups[1].nomem)) s = ERR_NOMEM(e);
	bool near = s == NH_OK;
	size_t positions = groups[0].positions + groups[1].positions;
	for (int i = 0; s == NH_OK && i < 2; i++) near &= conclude(v, &groups[i], noise != NULL);
	for (int i = 0; i < 2; i++) {
		mem_free(groups[i].ours.d);
		mem_free(groups[i].noise.d);
		mem_free(groups[i].all.d);
	}
	if (s != NH_OK) return VERIFY_ERROR;
	int status = !noise || positions < POSITIONS_NEEDED ? VERIFY_REFUSED : near ? VERIFY_PASS : VERIFY_DIFFERS;
	const char *word = status == VERIFY_REFUSED ? "REFUSED" : near ? "NEAR" : "FAR";
	json_object_set_new(v->report, "verdict", json_string(word));
	if (!noise) verify_say(v, "REFUSED: a distance needs a measure of noise: --noise OTHER.json, another run of the same engine\n");
	else if (status == VERIFY_REFUSED)
		verify_say(v, "REFUSED: %zu positions could be compared, %d are needed\n", positions, POSITIONS_NEEDED);
	else
		verify_say(
		    v, "%s: no farther from %s than its noise allows: %s (%zu positions)\n", word, v->g->oracle, near ? "yes" : "no", positions);
	return status;
}
