/* SPDX-License-Identifier: Apache-2.0
 * ins_json.c: an inspection as one JSON object. The same facts as ins_text.c, with numbers as numbers. Computes nothing.
 * Breaks first: keys are promises to programs; they are added, never renamed.
 */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/inspect/ins.h"

static json_t *number(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *strings(const char *const *list, size_t count)
{
	json_t *a = json_array();
	for (size_t k = 0; k < count; k++) json_array_append_new(a, json_string(list[k]));
	return a;
}

static json_t *layer_json(const nm_layer_config *l)
{
	json_t *o = json_pack("{s:s}", "kind", nm_kind_name(l->kind));
	switch (l->kind) {
	case NM_MAMBA:
		json_object_update_new(o, json_pack("{s:I,s:I,s:I,s:I,s:I}", "heads", l->mamba.heads, "head_dim", l->mamba.head_dim, "state",
		                              l->mamba.state, "groups", l->mamba.groups, "conv", l->mamba.taps));
		break;
	case NM_ATTN:
		json_object_update_new(o, json_pack("{s:I,s:I,s:I,s:I}", "heads", l->attn.heads, "kv_heads", l->attn.kv_heads, "head_dim",
		                              l->attn.head_dim, "window", l->attn.window));
		break;
	case NM_MLP: json_object_set_new(o, "width", json_integer(l->mlp.width)); break;
	default:
		json_object_update_new(o, json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "experts", l->moe.experts, "chosen", l->moe.chosen, "width",
		                              l->moe.width, "latent", l->moe.latent, "shared", l->moe.shared, "scale", l->moe.factor));
	}
	return o;
}

static json_t *architecture_json(const inspection *i)
{
	const nm_config *c = &i->c;
	json_t *layers = json_array();
	for (int k = 0; k < c->layers; k++) json_array_append_new(layers, layer_json(&c->layer[k]));
	return json_pack("{s:s,s:b,s:I,s:I,s:I,s:I,s:b,s:f,s:i,s:o}", "pattern", c->pattern, "puzzle", c->puzzle, "hidden", c->hidden, "vocab",
	    c->vocab, "context", c->max_positions, "chunk", c->chunk, "tied", c->tied, "eps", c->eps, "mtp_depth", c->mtp_depth, "layers",
	    layers);
}

static json_t *formats_json(const inspection *i)
{
	json_t *a = json_array();
	for (size_t k = 0; k < i->group_count; k++) {
		const ins_group *g = &i->groups[k];
		json_t *layers = json_array();
		for (int l = 0; l < i->c.layers; l++)
			if (g->layers[l / 8] >> l % 8 & 1) json_array_append_new(layers, json_integer(l));
		json_array_append_new(a, json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:s,s:b}", "role", ins_role_name(g->role), "format",
		                             ins_format_name(g->scheme, g->dtype), "modules", number(g->modules), "params", number(g->params),
		                             "bytes", number(g->bytes), "layers", layers, "rule", g->rule, "more_rules", g->more_rules));
	}
	return a;
}

static json_t *ledger_json(const inspection *i)
{
	const char *source = i->set != NULL ? "files" : i->index != NULL ? "index" : "none";
	json_t *o = json_pack("{s:s,s:o,s:o,s:o,s:o}", "source", source, "balanced",
	    i->set == NULL && i->index == NULL ? json_null() : json_boolean(i->ledger == NH_OK), "problem_count", number(i->problem_total),
	    "problems", strings(i->problems, i->problem_count), "notices", strings(i->notices, i->notice_count));
	if (i->set != NULL) json_object_set_new(o, "tensors", number(st_set_count(i->set)));
	if (i->index != NULL) json_object_set_new(o, "tensors", number(st_index_count(i->index)));
	return o;
}

static json_t *memory_json(const inspection *i, const ins_fit *f)
{
	json_t *by_scheme = json_object();
	for (int s = 0; s < NUM_SCHEME_COUNT; s++) json_object_set_new(by_scheme, num_scheme_name((num_scheme)s), number(i->scheme_bytes[s]));
	json_object_set_new(by_scheme, "parameters", number(i->param_bytes));
	return json_pack("{s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:{s:o,s:o,s:o,s:o}}", "weight_bytes", number(f->weights), "mtp_bytes",
	    number(i->mtp_bytes), "weights_by_format", by_scheme, "kv_bytes_token", number(f->kv_token), "kv_dtype",
	    i->m->shape.fp8_kv ? "fp8" : "bf16", "kv_elements_token", number(nm_config_kv_elements(&i->c)), "ssm_state_bytes",
	    number(nm_config_ssm_bytes(&i->c)), "conv_state_bytes", number(nm_config_conv_bytes(&i->c)), "fit", "memory_bytes",
	    number(f->memory), "context_tokens", number(f->context), "sequence_bytes", number(f->sequence), "sequences", number(f->sequences));
}

static json_t *cost_json(const ins_cost *c)
{
	json_t *read = json_object();
	for (int r = 0; r < INS_ROLE_COUNT; r++)
		if (c->read[r] > 0) json_object_set_new(read, ins_role_name((ins_role)r), number(c->read[r]));
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "read_bytes", number(c->read_total), "read_by_role", read, "params_read",
	    number(c->params_read), "decode_flops", number(c->decode_flops), "context_flops_1000", number(c->context_flops), "prefill_flops",
	    number(c->prefill_flops), "scratch_decode_bytes", number(c->scratch_decode), "scratch_prefill_bytes", number(c->scratch_prefill));
}

static bool add_tensor(void *user, const ins_tensor *t)
{
	const ins_module *m = t->module;
	json_array_append_new(
	    user, json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:s}", "name", t->name, "file", t->file, "dtype", t->dtype, "shape", t->shape, "bytes",
	              number(t->bytes), "used_for", m != NULL ? ins_role_name(m->role) : "not understood", "rule", m != NULL ? m->rule : ""));
	return true;
}

void ins_print_json(const inspection *i, const ins_fit *fit, bool tensors)
{
	json_t *o = json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:o}", "name", i->name, "path", i->dir.dir, "identity",
	    i->identity, "params", number(i->params), "mtp_params", number(i->mtp_params), "bytes", number(i->bytes), "mtp_bytes",
	    number(i->mtp_bytes), "architecture", architecture_json(i), "quant_algorithm", quant_algorithm(i->quant), "formats",
	    formats_json(i), "ledger", ledger_json(i), "memory", memory_json(i, fit), "token", cost_json(&i->cost));
	if (tensors) {
		json_t *list = json_array();
		ins_tensors(i, add_tensor, list);
		json_object_set_new(o, "tensors", list);
	}
	cmd_out_json(o, 1);
}
