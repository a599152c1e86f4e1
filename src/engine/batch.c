/* SPDX-License-Identifier: Apache-2.0
 * batch.c: where each sequence's rows lie in a step: rows of the batch, of the logits, of the draws and of the hidden states. Counts only; the
 * values are s_inputs.c's.
 * The invariant that breaks first: items in decode form come first, so rows in decode form do.
 */
#include <string.h>

#include "base/base_mem.h"
#include "engine/engine_impl.h"

nh_status step_init(step *s, const engine_limits *l, nh_error *e)
{
	memset(s, 0, sizeof *s);
	s->item = mem_array((size_t)l->sequences, sizeof *s->item);
	s->view = mem_array((size_t)l->sequences, sizeof *s->view);
	s->plan = mem_array((size_t)l->sequences, sizeof *s->plan);
	return s->item && s->view && s->plan ? NH_OK : ERR_NOMEM(e);
}

void step_deinit(step *s)
{
	mem_free(s->item);
	mem_free(s->view);
	mem_free(s->plan);
	memset(s, 0, sizeof *s);
}

int step_best_count(int asked, int64_t vocab)
{
	int k = asked > 2 ? asked : 2; /* two tell the margin */
	return k < vocab ? k : (int)vocab;
}

/* Given tokens whose log-probabilities this step's rows tell: row i tells that of position pos + i + 1. */
static int prompt_rows(const step_item *i)
{
	const engine_request *r = i->q->r;
	if (i->decode || !r->spec.prompt_logprobs) return 0;
	int64_t end = i->pos + i->rows;
	return (int)((end < r->given ? end : r->given - 1) - i->pos);
}

/* An edit is of all of an item's draws or of none: where none is needed it is neutral. */
static bool edits(const step_item *i)
{
	const engine_request *r = i->q->r;
	return i->draws && (r->edits || (i->q->generated < r->sampling.min_tokens && r->sampling.end_count > 0));
}

static void layout_item(step_item *i, int64_t vocab)
{
	const sequence *q = i->q;
	const engine_request *r = q->r;
	int64_t end = i->pos + i->rows;
	bool after = end >= r->given; /* the last row is followed by a token that nobody gave */
	if (r->bare) {
		i->force = -1;
		i->draws = end >= r->limit || !after ? 0 : i->decode ? i->rows : r->choices;
		i->R = i->draws && !i->decode ? 1 : i->draws;
		i->E = 0;
		i->tells = false;
		i->edits = edits(i);
		return;
	}
	i->force = i->decode && (size_t)q->generated < r->spec.forced_tokens ? r->spec.forced[q->generated] : -1;
	if (!i->decode && after && r->spec.forced_tokens) i->force = r->spec.forced[0];
	if (end >= r->limit || !after) i->draws = 0;
	else i->draws = i->decode ? i->rows : r->choices;
	/* Field by field: the tensors beside them mean nothing where n is 0. */
	i->prompt.n = prompt_rows(i);
	if (i->prompt.n) {
		i->prompt.M = (int)r->spec.prompt_want_per_position;
		i->prompt.K = step_best_count(r->spec.prompt_top_logprobs, vocab);
	}
	i->taken.n = r->logprobs ? i->draws : 0;
	if (i->taken.n) {
		i->taken.M = (int)r->spec.want_per_step;
		i->taken.K = step_best_count(r->spec.top_logprobs, vocab);
	}
	i->tells = i->prompt.n > 0 || i->taken.n > 0;
	i->R = i->prompt.n > 0 || r->spec.trace ? i->rows : !i->draws ? 0 : i->decode ? i->rows : 1;
	i->E = r->spec.embed == NH_EMBED_MEAN ? i->rows : r->spec.embed == NH_EMBED_LAST && after;
	i->edits = edits(i);
}

void step_layout(step *s, int64_t vocab)
{
	s->T = s->D = s->S = s->R = s->N = s->E = s->plain = 0;
	s->direct = true;
	for (int k = 0; k < s->items; k++) {
		step_item *i = &s->item[k];
		layout_item(i, vocab);
		i->row0 = s->T;
		i->r0 = s->R;
		i->e0 = s->E;
		s->T += i->rows;
		s->D += i->decode ? i->rows : 0;
		s->S += !i->decode;
		s->R += i->R;
		s->E += i->E;
		s->N += i->draws;
		if (!i->edits) {
			i->d0 = s->plain;
			s->plain += i->draws;
		}
		if (i->edits || i->R != i->draws) s->direct = false;
	}
	int at = s->plain;
	for (int k = 0; k < s->items; k++) {
		if (!s->item[k].edits) continue;
		s->item[k].d0 = at;
		at += s->item[k].draws;
	}
}
