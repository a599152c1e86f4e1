/* SPDX-License-Identifier: Apache-2.0
 * verify_exact.c: the same mathematics written by other hands: every log-probability that the golden lists, and every arg-max. The golden's tokens
 * are forced, so that one near-tie does not hide the steps after it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/verify/verify.h"

typedef struct tally {
	size_t positions, values, tokens_wrong, values_wrong;
	double largest;
	char where[160];
} tally;

static void compare(
    verify *v, const golden_entry *x, const char *form, size_t i, const golden_step *g, int32_t expected, const verify_step *s, tally *t)
{
	json_t *wrong = json_object_get(v->report, "disagreements");
	int listed = g->count < VERIFY_BEST ? g->count : VERIFY_BEST;
	t->positions++;
	for (int k = 0; k < listed; k++) {
		double d = fabs(s->want[k].logprob - g->top[k].logprob);
		t->values++;
		if (!(d <= t->largest)) {
			t->largest = d;
			snprintf(t->where, sizeof t->where, "%s, %s step %zu, id %d", x->name, form, i, g->top[k].id);
		}
		if (d <= v->g->tolerance) continue;
		t->values_wrong++;
		verify_say(v, "  %s, %s step %zu: log-probability of id %d is %.9f, the golden says %.6f: %.3g apart\n", x->name, form, i,
		    g->top[k].id, s->want[k].logprob, g->top[k].logprob, d);
		json_array_append_new(wrong, json_pack("{s:s, s:s, s:I, s:i, s:f, s:f}", "entry", x->name, "form", form, "step", (json_int_t)i,
		                                 "id", g->top[k].id, "logprob", s->want[k].logprob, "golden", g->top[k].logprob));
	}
	if (expected < 0 || s->best == expected) return;
	t->tokens_wrong++;
	verify_say(v, "  %s, %s step %zu: arg-max is %d, the golden's is %d (its margin %.6f nat, ours %.6f)\n", x->name, form, i, s->best,
	    expected, g->margin, s->margin);
	json_array_append_new(wrong, json_pack("{s:s, s:s, s:I, s:i, s:i, s:f}", "entry", x->name, "form", form, "step", (json_int_t)i, "best",
	                                 s->best, "golden", expected, "margin", g->margin));
}

int verify_exact(verify *v, nh_error *e)
{
	const golden *g = v->g;
	tally t = {0};
	for (size_t n = 0; n < g->entry_count; n++) {
		const golden_entry *x = &g->entries[n];
		verify_run r;
		if (verify_generate(v, n, true, &r, e) != NH_OK) {
			verify_run_free(&r);
			return VERIFY_ERROR;
		}
		for (size_t i = 0; i < x->tokens && i < r.count; i++) compare(v, x, "decode", i, &x->steps[i], x->ids[i], &r.steps[i], &t);
		if (r.count < x->tokens) verify_say(v, "  %s: %zu steps of %zu\n", x->name, r.count, x->tokens);
		t.tokens_wrong += x->tokens - (r.count < x->tokens ? r.count : x->tokens);
		verify_run_free(&r);
	}
	if (g->forced.prompt_tokens) {
		const golden_entry *x = &g->forced;
		verify_run r;
		if (verify_prefill(v, x, &r, e) != NH_OK) {
			verify_run_free(&r);
			return VERIFY_ERROR;
		}
		for (size_t i = 1; i < x->prompt_tokens; i++) {
			verify_step s = r.steps[i];
			if (x->has_logprobs) s.want[0] = s.want[VERIFY_BEST]; /* the token of the text itself */
			compare(v, x, "prefill", i, &x->steps[i],
			    x->has_logprobs     ? x->steps[i].top[1].id
			    : x->steps[i].count ? x->steps[i].top[0].id
			                        : -1,
			    &s, &t);
		}
		verify_run_free(&r);
	}
	bool pass = t.positions > 0 && t.values > 0 && t.tokens_wrong == 0 && t.values_wrong == 0;
	json_object_set_new(v->report, "positions", json_integer((json_int_t)t.positions));
	json_object_set_new(v->report, "largest_difference", json_real(t.largest));
	json_object_set_new(v->report, "verdict", json_string(pass ? "EXACT PASS" : "EXACT FAIL"));
	verify_say(v, "EXACT %s: %zu positions, %zu log-probabilities, largest difference %.3g (%s), tolerance %g; %zu arg-max differ\n",
	    pass ? "PASS" : "FAIL", t.positions, t.values, t.largest, t.where[0] ? t.where : "nothing compared", g->tolerance, t.tokens_wrong);
	return pass ? VERIFY_PASS : VERIFY_DIFFERS;
}
