/* SPDX-License-Identifier: Apache-2.0
 * sample_params.c: the ranges of sampling parameters, and what follows from one request's alone.
 */
#include <math.h>
#include <stdio.h>

#include "sample/sample.h"

sample_params sample_default(void) { return (sample_params){.top_p = 1, .repetition = 1}; }

static nh_status in_range(const char *name, double v, double lo, double hi, nh_error *e)
{
	if (v >= lo && v <= hi) return NH_OK; /* false for NaN */
	return ERR(e, NH_ERR_ARG, "%s: is %g, expected %g to %g", name, v, lo, hi);
}

static nh_status positive(const char *name, double v, double hi, nh_error *e)
{
	if (v > 0 && v <= hi) return NH_OK;
	if (isfinite(hi)) return ERR(e, NH_ERR_ARG, "%s: is %g, expected more than 0, at most %g", name, v, hi);
	return ERR(e, NH_ERR_ARG, "%s: is %g, expected more than 0", name, v);
}

static nh_status in_list(const char *name, const void *list, int64_t count, int64_t limit, nh_error *e)
{
	if (count < 0 || (count > 0 && !list)) return ERR(e, NH_ERR_ARG, "%s: %lld entries without a list", name, (long long)count);
	if (count > limit) return ERR(e, NH_ERR_LIMIT, "%s: has %lld entries, expected at most %lld", name, (long long)count, (long long)limit);
	return NH_OK;
}

static nh_status check_id(const char *name, int64_t at, int64_t id, int64_t vocab, nh_error *e)
{
	if (id >= 0 && id < vocab) return NH_OK;
	return ERR(e, NH_ERR_ARG, "%s[%lld]: id is %lld, expected 0 to %lld", name, (long long)at, (long long)id, (long long)vocab - 1);
}

static nh_status check_ids(const char *name, const int32_t *ids, int64_t count, int64_t limit, int64_t vocab, nh_error *e)
{
	TRY(in_list(name, ids, count, limit, e));
	for (int64_t i = 0; i < count; i++) TRY(check_id(name, i, ids[i], vocab, e));
	return NH_OK;
}

static nh_status check_words(const sample_params *p, int64_t vocab, nh_error *e)
{
	TRY(in_list("bad_words", p->bad_words, p->bad_word_count, SAMPLE_WORDS_MAX, e));
	for (int i = 0; i < p->bad_word_count; i++) {
		char name[32];
		snprintf(name, sizeof name, "bad_words[%d]", i);
		if (p->bad_words[i].count < 1) return ERR(e, NH_ERR_ARG, "%s: is empty, expected one id or more", name);
		TRY(check_ids(name, p->bad_words[i].ids, p->bad_words[i].count, SAMPLE_WORD_IDS_MAX, vocab, e));
	}
	return NH_OK;
}

nh_status sample_check(const sample_params *p, int64_t vocab, nh_error *e)
{
	if (!(p->temperature >= 0 && isfinite(p->temperature)))
		return ERR(e, NH_ERR_ARG, "temperature: is %g, expected 0 or more", p->temperature);
	TRY(positive("top_p", p->top_p, 1, e));
	TRY(in_range("min_p", p->min_p, 0, 1, e));
	if (p->top_k < -1) return ERR(e, NH_ERR_ARG, "top_k: is %lld, expected 1 or more, or 0 or -1 for all", (long long)p->top_k);
	/* Ops take penalties as f32: the rounded value must keep the range too. */
	TRY(positive("repetition_penalty", (double)(float)p->repetition, INFINITY, e));
	if (!isfinite((float)p->repetition)) return ERR(e, NH_ERR_ARG, "repetition_penalty: is %g, expected a finite number", p->repetition);
	TRY(in_range("presence_penalty", p->presence, -2, 2, e));
	TRY(in_range("frequency_penalty", p->frequency, -2, 2, e));
	if (p->min_tokens < 0) return ERR(e, NH_ERR_ARG, "min_tokens: is %lld, expected 0 or more", (long long)p->min_tokens);

	TRY(in_list("logit_bias", p->bias, p->biases, SAMPLE_BIAS_MAX, e));
	for (int i = 0; i < p->biases; i++) {
		TRY(check_id("logit_bias", i, p->bias[i].id, vocab, e));
		if (isnan(p->bias[i].add) || p->bias[i].add == INFINITY)
			return ERR(e, NH_ERR_ARG, "logit_bias[%d]: is %g, expected a finite number or -inf", i, (double)p->bias[i].add);
	}
	TRY(check_words(p, vocab, e));
	if (p->allowed || p->allowed_count) TRY(check_ids("allowed_ids", p->allowed, p->allowed_count, vocab, vocab, e));
	if (p->allowed && p->allowed_count == 0) return ERR(e, NH_ERR_ARG, "allowed_ids: is empty, expected one id or more");
	TRY(check_ids("end_ids", p->end_ids, p->end_count, SAMPLE_END_MAX, vocab, e));
	return check_ids("stop_ids", p->stop_ids, p->stop_count, SAMPLE_END_MAX, vocab, e);
}

bool sample_greedy(const sample_params *p) { return p->temperature < SAMPLE_GREEDY_BELOW; }

op_sample_row sample_row(const sample_params *p, int64_t position)
{
	op_sample_row r = {.top_p = 1, .seed = p->seed, .position = position};
	if (sample_greedy(p)) return r;
	r.temperature = p->temperature;
	r.top_p = p->top_p;
	r.min_p = p->min_p;
	r.top_k = p->top_k <= 0 ? 0 : p->top_k > INT32_MAX ? INT32_MAX : (int32_t)p->top_k;
	return r;
}

bool sample_needs_seen(const sample_params *p) { return (float)p->repetition != 1; }
bool sample_needs_counts(const sample_params *p) { return p->presence != 0 || p->frequency != 0; }

bool sample_ends(const sample_params *p, int32_t id, int64_t outputs)
{
	if (outputs < p->min_tokens) return false;
	for (int i = 0; i < p->stop_count; i++)
		if (p->stop_ids[i] == id) return true;
	for (int i = 0; i < p->end_count && !p->ignore_eos; i++)
		if (p->end_ids[i] == id) return true;
	return false;
}
