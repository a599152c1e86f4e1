/* SPDX-License-Identifier: Apache-2.0
 * ins_cost.c: one decode step and one prefill piece on the dry arm, over made-up addresses, and what they move. The ops' own cost functions
 * count matrices; small parameters, which a shapes-only model does not have in memory, are added from the loader's report.
 * Breaks first: a decode step reads every used matrix once, of routed experts the chosen ones, of the embedding one row.
 */
#include "base/base_mem.h"
#include "cmd/inspect/ins.h"

typedef struct rig {
	inspection *i;
	arena fake; /* measuring: addresses that nobody may touch */
	mamba_state *mamba;
	kv_pages *kv;
	bool collect;
} rig;

#define PAGE 16

static tensor fake(rig *g, num_dtype dtype, int rank, const int64_t *shape)
{
	tensor t = tensor_nd(NULL, dtype, rank, shape);
	t.data = arena_alloc(&g->fake, t.room);
	return t;
}

static tensor fake_1d(rig *g, num_dtype dtype, int64_t n) { return fake(g, dtype, 1, &n); }

static nh_status build(rig *g, int64_t rows, nh_error *e)
{
	const model_shape *s = &g->i->m->shape;
	const exec_types *types = &g->i->x->types;
	num_dtype kv = s->fp8_kv ? NUM_E4M3 : types->kv;
	g->mamba = mem_array((size_t)s->mamba_layers, sizeof *g->mamba);
	g->kv = mem_array((size_t)s->attn_layers, sizeof *g->kv);
	if (g->mamba == NULL || g->kv == NULL) return ERR_NOMEM(e);
	for (int i = 0; i < s->mamba_layers; i++) {
		const model_mamba_shape *l = &s->mamba[i];
		g->mamba[i].conv = fake(g, types->conv_state, 3, (const int64_t[]){1, l->taps - 1, l->channels});
		g->mamba[i].ssm = fake(g, types->ssm_state, 4, (const int64_t[]){1, l->heads, l->head_dim, l->state});
	}
	for (int i = 0; i < s->attn_layers; i++) {
		const int64_t all[4] = {(rows + PAGE - 1) / PAGE, PAGE, s->kv[i].kv_heads, s->kv[i].head_dim};
		g->kv[i] = (kv_pages){.k = fake(g, kv, 4, all), .v = fake(g, kv, 4, all), .k_scale = 1, .v_scale = 1};
	}
	return NH_OK;
}

static step_batch batch_of(rig *g, int T, bool decode)
{
	int D = decode ? T : 0, S = decode ? 0 : 1;
	int64_t pages[2] = {1, (T + PAGE - 1) / PAGE};
	return (step_batch){.T = T,
	    .D = D,
	    .S = S,
	    .R = 1,
	    .ids = fake_1d(g, NUM_I32, T),
	    .pos = fake_1d(g, NUM_I32, T),
	    .out_rows = fake_1d(g, NUM_I32, 1),
	    .slot_in = fake_1d(g, NUM_I32, D),
	    .slot_out = fake_1d(g, NUM_I32, D),
	    .seg_row = fake_1d(g, NUM_I32, S + 1),
	    .seg_pos = fake_1d(g, NUM_I32, S),
	    .seg_origin = fake_1d(g, NUM_I32, S),
	    .seg_in = fake_1d(g, NUM_I32, S),
	    .seg_out = fake_1d(g, NUM_I32, S),
	    .row_seq = fake_1d(g, NUM_I32, T),
	    .kv_slot = fake_1d(g, NUM_I64, T),
	    .page_table = fake(g, NUM_I32, 2, pages),
	    .page_tokens = PAGE};
}

static void collect(void *user, exec *x, op_id op, const void *args, bool after)
{
	rig *g = user;
	ins_cost *c = &g->i->cost;
	(void)x;
	if (after || !g->collect) return;
	if (op == OP_linear) {
		const weight *w = ((const op_linear *)args)->w;
		c->read[ins_role_of(w->name, true)] += weight_bytes(w);
		c->params_read += (uint64_t)w->n * (uint64_t)w->k;
	} else if (op == OP_expert_ffn) {
		const op_expert_ffn *a = args;
		op_cost cost;
		op_cost_of(op, args, 0, &cost);
		c->read[INS_ROUTED] += cost.weight_bytes;
		c->params_read += (uint64_t)a->idx->shape[1] * 2 * (uint64_t)a->experts->up[0].n * (uint64_t)a->experts->up[0].k;
	}
}

static nh_status step(rig *g, int T, bool decode, uint64_t context, uint64_t *flops, uint64_t *scratch, nh_error *e)
{
	inspection *i = g->i;
	dry_reset(i->x);
	dry_set_context(i->x, context);
	exec *tapped = wrap_tap_create(i->x, collect, g);
	if (tapped == NULL) return ERR_NOMEM(e);
	step_batch b = batch_of(g, T, decode);
	model_state state = {.mamba = g->mamba, .kv = g->kv};
	tensor logits;
	i->m->family->forward(i->m, tapped, &b, &state, NULL, &logits);
	nh_status s = exec_status(tapped, e);
	wrap_destroy(tapped);
	*flops = 0;
	for (int op = 0; op < OP_COUNT; op++) *flops += dry_cost(i->x)[op].flops;
	*scratch = dry_scratch_peak(i->x);
	return s;
}

static nh_status steps(rig *g, nh_error *e)
{
	ins_cost *c = &g->i->cost;
	uint64_t with_context, unused;
	int chunk = g->i->m->shape.chunk;
	g->collect = true;
	TRY(step(g, 1, true, 1, &c->decode_flops, &c->scratch_decode, e));
	g->collect = false;
	TRY(step(g, 1, true, 1001, &with_context, &unused, e));
	c->context_flops = with_context - c->decode_flops;
	TRY(step(g, chunk, false, 0, &c->prefill_flops, &c->scratch_prefill, e));
	c->prefill_flops /= (uint64_t)chunk;
	return NH_OK;
}

nh_status ins_measure(inspection *i, nh_error *e)
{
	rig g = {.i = i};
	arena_init_measure(&g.fake);
	nh_status s = build(&g, i->m->shape.chunk, e);
	if (s == NH_OK) s = steps(&g, e);
	mem_free(g.mamba);
	mem_free(g.kv);
	arena_deinit(&g.fake);
	if (s != NH_OK) return s;
	for (size_t k = 0; k < i->count; k++) {
		const ins_module *m = &i->modules[k];
		if (!m->used || m->role != INS_SMALL) continue;
		i->cost.read[INS_SMALL] += m->bytes;
		i->cost.params_read += (uint64_t)m->n * (uint64_t)m->k;
	}
	for (int r = 0; r < INS_ROLE_COUNT; r++) i->cost.read_total += i->cost.read[r];
	return NH_OK;
}
