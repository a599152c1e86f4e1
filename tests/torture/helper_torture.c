/* SPDX-License-Identifier: Apache-2.0
 * helper_torture.c: see the header.
 */
#include "helper_torture.h"

#include <string.h>

#include "common/model_bench.h"

const char *torture_checkpoint(void)
{
	static const char *config[] = {
	    "hidden_size=32", "vocab_size=320", "chunk_size=8", "mamba_num_heads=2", "mamba_head_dim=16", "ssm_state_size=16", "n_groups=1"};
	const mk_options o = {.format = MK_MIXED, .seed = 9, .pattern = "ME*-", .config = config, .config_count = ARRAY_LEN(config)};
	static const char *made;
	if (!made) made = bench_checkpoint("torture", &o); /* its path is static */
	return made;
}

nh_status torture_engine(nh_model *m, nh_engine **g, const char *spill_dir, uint64_t memory_bytes, nh_error *e)
{
	nh_engine_options o;
	nh_engine_options_init(&o, sizeof o);
	o.max_context = 256;
	o.max_sequences = 4;
	o.memory_bytes = memory_bytes ? memory_bytes : (uint64_t)64 << 20;
	o.spill_dir = spill_dir;
	return nh_engine_open(g, m, &o, e);
}

nh_status torture_open(const char *arm, nh_model **m, nh_engine **g, nh_error *e)
{
	nh_model_options o;
	nh_model_options_init(&o, sizeof o);
	o.arm = arm;
	o.threads = arm ? 3 : 0;
	*m = NULL;
	*g = NULL;
	nh_status s = nh_model_open(m, torture_checkpoint(), &o, e);
	return s == NH_OK ? torture_engine(*m, g, NULL, 0, e) : s;
}

answer torture_ask(nh_engine *g, int choices, const nh_session *from, nh_session **kept)
{
	static const int32_t PROMPT[11] = {40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50};
	static const char *const STOP[1] = {"\x01never"};
	answer a = {0};
	nh_request_options o;
	nh_request *r = NULL;
	nh_event ev;
	nh_error e = {0};
	nh_request_options_init(&o, sizeof o);
	o.prompt = PROMPT;
	o.prompt_tokens = from ? 2 : 11;
	o.max_tokens = TOKENS;
	o.ignore_end = true;
	o.temperature = 0.8;
	o.seed = 3;
	o.repetition_penalty = 1.1;
	o.top_logprobs = 2;
	o.text = true;
	o.split_reasoning = true;
	o.stop = STOP;
	o.stop_count = 1;
	o.choices = choices;
	o.keep_session = kept != NULL;
	if (from) a.status = nh_session_fork(from, &o.session, &e); /* a submit consumes its session */
	if (a.status == NH_OK) a.status = nh_engine_submit(g, &o, &r, &e);
	if (a.status != NH_OK) {
		nh_session_close(o.session);
		return a;
	}
	for (nh_status s; (s = nh_request_next(r, &ev, sizeof ev, 20000000)) != NH_ERR_STATE;) {
		if (s != NH_OK) fail_msg("waiting for an event: %s", nh_status_name(s));
		if (ev.type == NH_EVENT_TOKEN && ev.choice < 2 && a.tokens[ev.choice] < TOKENS)
			a.token[ev.choice][a.tokens[ev.choice]++] = ev.token;
		if (ev.type == NH_EVENT_ERROR) a.status = (nh_status)ev.error.code;
	}
	if (kept && a.status == NH_OK) a.status = nh_request_take_session(r, kept, &e);
	nh_request_release(r);
	return a;
}

answer torture_ask_long(nh_engine *g, const int32_t *prompt, int64_t n)
{
	answer a = {0};
	nh_request_options o;
	nh_request *r = NULL;
	nh_event ev;
	nh_error e = {0};
	nh_request_options_init(&o, sizeof o);
	o.prompt = prompt;
	o.prompt_tokens = (size_t)n;
	o.max_tokens = TOKENS;
	o.ignore_end = true;
	a.status = nh_engine_submit(g, &o, &r, &e);
	if (a.status != NH_OK) return a;
	for (nh_status s; (s = nh_request_next(r, &ev, sizeof ev, 20000000)) != NH_ERR_STATE;) {
		if (s != NH_OK) fail_msg("waiting for an event: %s", nh_status_name(s));
		if (ev.type == NH_EVENT_TOKEN && a.tokens[0] < TOKENS) a.token[0][a.tokens[0]++] = ev.token;
		if (ev.type == NH_EVENT_ERROR) a.status = (nh_status)ev.error.code;
	}
	nh_request_release(r);
	return a;
}

bool torture_same(const answer *a, const answer *b) { return a->status == b->status && memcmp(a->token, b->token, sizeof a->token) == 0; }

void torture_expect(const char *what, size_t n, const answer *want, const answer *got)
{
	if (!torture_same(want, got)) fail_msg("%s, n = %zu: a request is not answered as before (%s)", what, n, nh_status_name(got->status));
}

void torture_arm(mem_fault kind, size_t n, bool all) { mem_fault_set(kind, n, all ? SIZE_MAX : 1); }

size_t torture_disarm(mem_fault kind)
{
	size_t hits = mem_fault_hits(kind);
	mem_fault_set(kind, SIZE_MAX, 0);
	return hits;
}

const char *torture_kind_name(mem_fault kind)
{
	static const char *const names[MEM_FAULT_KINDS] = {"allocations", "reads", "writes", "thread starts"};
	return names[kind];
}
