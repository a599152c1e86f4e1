/* SPDX-License-Identifier: Apache-2.0
 * step.c: the order of a step's stages, and those that need few lines: what to compute, the forward pass, the commit.
 * The invariant that breaks first: a prefill step ends at a scan edge or with the prompt, never elsewhere.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "engine/engine_impl.h"
#include "num/num_conv.h"

/* Rows of the piece that starts at pos: to the last edge that the budget reaches, or to the end of the prompt. The budget is a multiple of
 * the chunk, so there is always an edge ahead. */
static int piece_rows(int64_t pos, int64_t prompt, int piece, int chunk)
{
	int64_t reach = pos + piece;
	return (int)((reach >= prompt ? prompt : reach / chunk * chunk) - pos);
}

/* Tokens of the prompt that this step's rows tell log-probabilities of: row i tells that of position pos + i + 1. */
static int prompt_rows(const step *s, const engine_request *r)
{
	if (s->decode || !r->spec.prompt_logprobs) return 0;
	int64_t end = s->pos + s->T, prompt = (int64_t)r->spec.prompt_tokens;
	return (int)((end < prompt ? end : prompt - 1) - s->pos);
}

static int best_count(int asked, int64_t vocab)
{
	int k = asked > 2 ? asked : 2; /* two tell the margin */
	return k < vocab ? k : (int)vocab;
}

nh_status step_reserve(engine *g, nh_error *e)
{
	engine_request *r = g->active;
	step *s = &g->step;
	const model_shape *shape = &g->parts->m->shape;
	int64_t prompt = (int64_t)r->spec.prompt_tokens;
	memset(s, 0, sizeof *s);
	s->pos = r->memory.length;
	s->decode = s->pos >= prompt;
	s->T = s->decode ? 1 : piece_rows(s->pos, prompt, g->piece, shape->chunk);
	s->draws = s->pos + s->T >= prompt && s->pos + s->T < r->limit;
	s->force = (size_t)r->generated < r->spec.forced_tokens ? r->spec.forced[r->generated] : -1;
	s->token = -1;
	s->prompt.n = prompt_rows(s, r);
	s->prompt.M = 1 + (int)r->spec.prompt_want_per_position;
	s->prompt.K = best_count(r->spec.prompt_top_logprobs, shape->vocab);
	s->taken.n = s->draws && request_wants_logprobs(&r->spec);
	s->taken.M = 1 + (int)r->spec.want_per_step;
	s->taken.K = best_count(r->spec.top_logprobs, shape->vocab);
	s->R = s->prompt.n > 0 || r->spec.trace ? s->T : s->draws;
	return seqmem_reserve(&r->memory, s->pos + s->T, e);
}

/* Rows of a traced tensor as doubles; memory for them grows once. */
void step_trace_tap(void *user, const char *name, const tensor *t)
{
	engine *g = user;
	engine_request *r = g->active;
	if (g->parts->x->status != NH_OK || tensor_absent(t) || t->rank < 1 || t->shape[0] < 1) return;
	size_t rows = (size_t)t->shape[0], count = (size_t)tensor_count(t), columns = count / rows, unit = num_bytes(t->dtype);
	if (count > r->trace_room) {
		double *grown = mem_resize(r->trace_row, count + columns, sizeof *grown); /* and one row as the arm has it */
		if (!grown) {
			exec_fail(g->parts->x, OP_COUNT, NH_ERR_NOMEM, "trace of %s: %zu values", name, count);
			return;
		}
		r->trace_row = grown;
		r->trace_room = count;
	}
	for (size_t i = 0; i < rows; i++) {
		const void *from = tensor_row(t, (int64_t)i);
		if (!g->parts->arm->host_memory) {
			void *to = r->trace_row + count;
			if (g->parts->arm->download(g->parts->base, to, from, columns * unit, NULL) != NH_OK) return;
			from = to;
		}
		num_load_row(t->dtype, from, 0, columns, r->trace_row + i * columns);
	}
	r->spec.trace(r->spec.trace_user, r->step, name, g->step.pos, rows, columns, r->trace_row);
}

nh_status step_forward(engine *g, nh_error *e)
{
	step *s = &g->step;
	exec *x = g->parts->x;
	const model_tap tap = {.fn = g->active->spec.trace ? step_trace_tap : NULL, .user = g};
	arena_reset(&g->scratch);
	g->parts->m->family->forward(g->parts->m, x, &s->batch, &g->state, &tap, &s->logits);
	return exec_status(x, e);
}

/* The one place where a step takes effect. */
void step_commit(engine *g)
{
	engine_request *r = g->active;
	step *s = &g->step;
	int64_t now = clock_us(), prompt = (int64_t)r->spec.prompt_tokens;
	r->memory.length = s->pos + s->T;
	if (!s->decode) r->stats.computed_tokens += (uint64_t)s->T;
	if (r->memory.length >= prompt && r->prefilled_us == 0) r->prefilled_us = now;
	if (s->token >= 0) {
		if (r->generated == 0) r->first_us = now;
		r->tokens[prompt + r->generated++] = s->token;
		r->stats.generated_tokens++;
	}
	r->step++;
	pthread_mutex_lock(&g->stats_lock);
	g->stats.steps++;
	g->stats.prompt_tokens += s->decode ? 0 : (uint64_t)s->T;
	g->stats.generated_tokens += s->token >= 0;
	pthread_mutex_unlock(&g->stats_lock);
	stats_publish(g);
}

void step_run(engine *g)
{
	if (!step_admit(g)) return;
	nh_error *e = &g->active->error;
	nh_status s = step_reserve(g, e);
	if (s == NH_OK) s = step_inputs(g, e);
	if (s == NH_OK) s = step_forward(g, e);
	if (s == NH_OK) s = step_pick(g, e);
	if (s != NH_OK) {
		exec_clear(g->parts->x);
		stats_publish(g);
		emit_error(g, g->active);
		return;
	}
	step_commit(g);
	step_emit(g);
}
