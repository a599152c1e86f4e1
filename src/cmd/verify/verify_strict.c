/* SPDX-License-Identifier: Apache-2.0
 * verify_strict.c: a free greedy run must give the golden's tokens. The golden holds only prompts whose margins leave no honest doubt, so a
 * different token is a fault to be found, not noise; its margin and the wanted token's rank say where to look.
 */
#include "cmd/verify/verify.h"

/* Index of the first token that differs, or the shorter length. */
static size_t agreed(const golden_entry *x, const verify_run *r)
{
	size_t n = r->count < x->tokens ? r->count : x->tokens, i = 0;
	while (i < n && r->steps[i].id == x->ids[i]) i++;
	return i;
}

static int judge(verify *v, const golden_entry *x, const verify_run *r)
{
	json_t *wrong = json_object_get(v->report, "disagreements");
	size_t at = agreed(x, r);
	if (at == x->tokens && r->count == x->tokens) return VERIFY_PASS;
	if (at < x->tokens && at < r->count) {
		const verify_step *s = &r->steps[at];
		const nh_logprob *w = &s->want[VERIFY_BEST];
		verify_say(v,
		    "  %s: step %zu: %d, the golden says %d (its margin %.4f nat; ours %.4f, the wanted token has rank %d, log-probability %.4f)\n",
		    x->name, at, s->id, x->ids[at], x->steps[at].margin, s->margin, w->rank, w->logprob);
		json_array_append_new(wrong, json_pack("{s:s, s:I, s:i, s:i, s:f, s:f, s:i}", "entry", x->name, "step", (json_int_t)at, "id", s->id,
		                                 "golden", x->ids[at], "margin", s->margin, "golden_margin", x->steps[at].margin, "rank", w->rank));
		return VERIFY_DIFFERS;
	}
	verify_say(v, "  %s: %zu tokens, the golden has %zu; those are the same\n", x->name, r->count, x->tokens);
	json_array_append_new(
	    wrong, json_pack("{s:s, s:I, s:I}", "entry", x->name, "tokens", (json_int_t)r->count, "golden_tokens", (json_int_t)x->tokens));
	return r->count < x->tokens ? VERIFY_SHORT : VERIFY_DIFFERS;
}

int verify_strict(verify *v, nh_error *e)
{
	size_t same = 0, tokens = 0, differ = 0, cut = 0;
	for (size_t n = 0; n < v->g->entry_count; n++) {
		verify_run r;
		if (verify_generate(v, n, false, &r, e) != NH_OK) {
			verify_run_free(&r);
			return VERIFY_ERROR;
		}
		int verdict = judge(v, &v->g->entries[n], &r);
		tokens += r.count;
		if (verdict == VERIFY_PASS) same++;
		else if (verdict == VERIFY_SHORT) cut++;
		else differ++;
		verify_run_free(&r);
	}
	int verdict = differ ? VERIFY_DIFFERS : cut || same == 0 ? VERIFY_SHORT : VERIFY_PASS;
	const char *word = verdict == VERIFY_PASS ? "STRICT PASS" : verdict == VERIFY_SHORT ? "SHORT" : "DIVERGENCE";
	json_object_set_new(v->report, "entries", json_integer((json_int_t)v->g->entry_count));
	json_object_set_new(v->report, "same", json_integer((json_int_t)same));
	json_object_set_new(v->report, "verdict", json_string(word));
	verify_say(v, "%s: %zu of %zu prompts the same, %zu tokens\n", word, same, v->g->entry_count, tokens);
	return verdict;
}
