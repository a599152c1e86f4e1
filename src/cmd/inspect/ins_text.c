/* SPDX-License-Identifier: Apache-2.0
 * ins_text.c: an inspection on one screen, for people; ins_json.c has the same for programs. Computes nothing.
 * Breaks first: what was not looked at (no files) says so.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/inspect/ins.h"

/* 31.58 B, 16.3 M: powers of 1000, with the words of parameter counts (B) or of everything else (G). */
static const char *scaled(uint64_t n, const char *const unit[5], char out[32])
{
	double v = (double)n;
	size_t u = 0;
	while (v >= 999.95 && u < 4) {
		v /= 1000;
		u++;
	}
	snprintf(out, 32, "%.*f%s", u == 0 ? 0 : v < 9.9995 ? 3 : v < 99.995 ? 2 : 1, v, unit[u]);
	return out;
}

static const char *count_text(uint64_t n, char out[32])
{
	static const char *const unit[] = {"", " K", " M", " B", " T"};
	return scaled(n, unit, out);
}

static const char *flop_text(uint64_t n, char out[32])
{
	static const char *const unit[] = {" flop", " kflop", " Mflop", " Gflop", " Tflop"};
	return scaled(n, unit, out);
}

static const char *bytes(uint64_t n, char out[32])
{
	cmd_bytes_text(n, out);
	return out;
}

/* "8" or "8-16" over the layers of a kind. */
typedef struct range {
	int64_t lo, hi;
} range;

static void widen(range *r, int64_t v)
{
	if (r->hi == 0 || v < r->lo) r->lo = v;
	if (v > r->hi) r->hi = v;
}

static const char *range_text(const range *r, char out[32])
{
	snprintf(out, 32, r->lo == r->hi ? "%lld" : "%lld-%lld", (long long)r->lo, (long long)r->hi);
	return out;
}

static void print_mamba(const nm_config *c)
{
	range heads = {0}, dim = {0}, state = {0}, groups = {0}, taps = {0};
	char a[32], b[32], d[32], e[32], f[32];
	int n = 0;
	for (int i = 0; i < c->layers; i++) {
		const nm_mamba_dims *m = &c->layer[i].mamba;
		if (c->layer[i].kind != NM_MAMBA) continue;
		widen(&heads, m->heads), widen(&dim, m->head_dim), widen(&state, m->state), widen(&groups, m->groups), widen(&taps, m->taps);
		n++;
	}
	if (n > 0)
		cmd_outf("  %3d mamba       %s heads x %s, state %s, %s groups, conv %s, scan chunk %lld\n", n, range_text(&heads, a),
		    range_text(&dim, b), range_text(&state, d), range_text(&groups, e), range_text(&taps, f), (long long)c->chunk);
}

static void print_attention(const nm_config *c)
{
	range heads = {0}, kv = {0}, dim = {0};
	char a[32], b[32], d[32];
	int n = 0, windows = 0;
	for (int i = 0; i < c->layers; i++) {
		const nm_attn_dims *m = &c->layer[i].attn;
		if (c->layer[i].kind != NM_ATTN) continue;
		widen(&heads, m->heads), widen(&kv, m->kv_heads), widen(&dim, m->head_dim);
		windows += m->window > 0;
		n++;
	}
	if (n > 0)
		cmd_outf("  %3d attention   %s heads on %s key/value heads x %s, no positions", n, range_text(&heads, a), range_text(&kv, b),
		    range_text(&dim, d));
	if (windows > 0) cmd_outf(", %d with a window", windows);
	if (n > 0) cmd_outf("\n");
}

static void print_dense(const nm_config *c)
{
	range width = {0};
	char a[32];
	int n = nm_config_count(c, NM_MLP);
	for (int i = 0; i < c->layers; i++)
		if (c->layer[i].kind == NM_MLP) widen(&width, c->layer[i].mlp.width);
	if (n > 0) cmd_outf("  %3d dense       width %s, squared ReLU\n", n, range_text(&width, a));
}

static void print_moe(const nm_config *c, const nm_layer_config *layers, int count, const char *what)
{
	range experts = {0}, chosen = {0}, width = {0}, shared = {0}, latent = {0};
	char a[32], b[32], d[32], e[32], f[32];
	const nm_moe_dims *first = NULL;
	int n = 0;
	(void)c;
	for (int i = 0; i < count; i++) {
		const nm_moe_dims *m = &layers[i].moe;
		if (layers[i].kind != NM_MOE) continue;
		widen(&experts, m->experts), widen(&chosen, m->chosen), widen(&width, m->width), widen(&shared, m->shared),
		    widen(&latent, m->latent);
		if (first == NULL) first = m;
		n++;
	}
	if (first == NULL) return;
	cmd_outf("  %3d %-11s %s of %s, width %s", n, what, range_text(&chosen, a), range_text(&experts, b), range_text(&width, d));
	if (latent.hi > 0) cmd_outf(" in a space of %s", range_text(&latent, e));
	if (shared.hi > 0) cmd_outf(", shared %s", range_text(&shared, f));
	if (first->n_group > 1) cmd_outf(", groups %lld of %lld", (long long)first->topk_group, (long long)first->n_group);
	cmd_outf(", scale %g\n", first->factor);
}

static void print_architecture(const inspection *i)
{
	const nm_config *c = &i->c;
	char a[32], b[32];
	cmd_outf("%s: Nemotron-H%s, %d layers, hidden %lld, vocabulary %lld%s, context %lld\n", i->name, c->puzzle ? " Puzzle" : "", c->layers,
	    (long long)c->hidden, (long long)c->vocab, c->tied ? " (head tied)" : "", (long long)c->max_positions);
	for (int at = 0; at < c->layers; at += 100) cmd_outf("  %.100s\n", c->pattern + at);
	print_mamba(c);
	print_attention(c);
	print_dense(c);
	print_moe(c, c->layer, c->layers, "experts");
	if (c->mtp_depth > 0) {
		cmd_outf("  %3d MTP         ", c->mtp_depth);
		for (int k = 0; k < c->mtp_inner; k++) cmd_outf("%c", c->mtp_layer[k].kind);
		cmd_outf(", not used by this program\n");
	}
	cmd_outf("  parameters %s, %s used for a token", count_text(i->params, a), count_text(i->cost.params_read, b));
	if (i->mtp_params > 0) cmd_outf("; MTP %s", count_text(i->mtp_params, a));
	cmd_outf("\n");
}

static void print_formats(const inspection *i)
{
	char a[32], layers[26];
	cmd_outf("\nformats (%s)\n", quant_algorithm(i->quant));
	for (size_t k = 0; k < i->group_count; k++) {
		const ins_group *g = &i->groups[k];
		ins_layers_text(g, layers, sizeof layers);
		cmd_outf("  %-22s%-13s%10s %7llu  %-26s%s%s\n", ins_role_name(g->role), ins_format_name(g->scheme, g->dtype), bytes(g->bytes, a),
		    (unsigned long long)g->modules, layers, g->rule, g->more_rules ? ", .." : "");
	}
}

static void print_ledger(const inspection *i)
{
	cmd_outf("\nledger   ");
	if (i->set != NULL && i->ledger == NH_OK)
		cmd_outf("%zu tensors in %zu files: each used once, each parameter filled once\n", st_set_count(i->set), st_set_files(i->set));
	else if (i->index != NULL && i->ledger == NH_OK)
		cmd_outf("%zu names in the index of %zu files: all asked for, none missing (the files are not here)\n", st_index_count(i->index),
		    st_index_shards(i->index));
	else if (i->ledger == NH_OK) cmd_outf("not checked: config.json alone, no files\n");
	else cmd_outf("DOES NOT BALANCE, %zu problems\n", i->problem_total);
	for (size_t k = 0; k < i->problem_count; k++) cmd_outf("  %s\n", i->problems[k]);
	for (size_t k = 0; k < i->notice_count; k++) cmd_outf("  note: %s\n", i->notices[k]);
	if (i->identity[0] != '\0') cmd_outf("identity %s\n", i->identity);
}

static void print_memory(const inspection *i, const ins_fit *f)
{
	char a[32], b[32], d[32], e[32];
	cmd_outf("\nmemory   weights %s", bytes(f->weights, a));
	const char *before = " (";
	for (int s = 0; s < NUM_SCHEME_COUNT; s++) {
		if (i->scheme_bytes[s] == 0) continue;
		cmd_outf("%s%s %s", before, num_scheme_name((num_scheme)s), bytes(i->scheme_bytes[s], a));
		before = ", ";
	}
	cmd_outf("%stable and parameters %s)", before, bytes(i->param_bytes, a));
	if (i->mtp_bytes > 0) cmd_outf("; MTP in the files %s", bytes(i->mtp_bytes, b));
	cmd_outf("\n         a token of context %llu bytes of keys and values (%s), a sequence %s of state (SSM %s, conv %s)\n",
	    (unsigned long long)f->kv_token, i->m->shape.fp8_kv ? "fp8" : "bf16", bytes(f->state, a), bytes(nm_config_ssm_bytes(&i->c), b),
	    bytes(nm_config_conv_bytes(&i->c), d));
	cmd_outf("         fits %llu sequences of %llu tokens in %.1f GiB", (unsigned long long)f->sequences, (unsigned long long)f->context,
	    (double)f->memory / 1073741824.0);
	if (f->memory <= f->weights) cmd_outf(": the weights alone need %.1f GiB", (double)f->weights / 1073741824.0);
	cmd_outf(" (%s each)\n", bytes(f->sequence, e));
}

static void print_cost(const inspection *i)
{
	const ins_cost *c = &i->cost;
	char a[32], b[32], d[32];
	cmd_outf("\na token  reads %s of weights, and reads and writes %s of state\n        ", bytes(c->read_total, a),
	    bytes(nm_config_state_bytes(&i->c), b));
	const char *before = " ";
	for (int r = 0; r < INS_ROLE_COUNT; r++) {
		if (c->read[r] == 0) continue;
		cmd_outf("%s%s %s", before, ins_role_name((ins_role)r), bytes(c->read[r], a));
		before = ", ";
	}
	cmd_outf("\n         %s to decode, + %s for 1000 tokens of context; %s a prompt token\n", flop_text(c->decode_flops, a),
	    flop_text(c->context_flops, b), flop_text(c->prefill_flops, d));
}

/* One line a layer: its formats. */
static void print_layers(const inspection *i)
{
	char a[32];
	cmd_outf("\nlayers\n");
	size_t k = 0;
	for (int layer = 0; layer < i->c.layers; layer++) {
		uint64_t sum = 0;
		int last_role = -1;
		const char *last_format = "";
		while (k < i->count && i->modules[k].layer != layer) k++;
		size_t from = k;
		for (; k < i->count && i->modules[k].layer == layer; k++) sum += i->modules[k].bytes;
		cmd_outf("  %3d %c %10s ", layer, i->c.pattern[layer], bytes(sum, a));
		for (size_t x = from; x < k; x++) {
			const ins_module *m = &i->modules[x];
			const char *format = ins_format_name(m->scheme, m->dtype);
			if (!m->matrix || ((int)m->role == last_role && strcmp(format, last_format) == 0)) continue;
			cmd_outf("%s%s %s", last_role >= 0 ? ", " : " ", ins_role_name(m->role), format);
			last_role = (int)m->role;
			last_format = format;
		}
		cmd_outf("\n");
	}
}

void ins_print(const inspection *i, const ins_fit *fit, bool layers)
{
	print_architecture(i);
	print_formats(i);
	if (layers) print_layers(i);
	print_ledger(i);
	print_memory(i, fit);
	print_cost(i);
}

static bool print_tensor(void *user, const ins_tensor *t)
{
	const ins_module *m = t->module;
	(void)user;
	return cmd_outf("%s\t%s\t%s\t%s\t%llu\t%s\t%s\n", t->name, t->file, t->dtype, t->shape, (unsigned long long)t->bytes,
	    m != NULL ? ins_role_name(m->role) : "not understood", m != NULL ? m->rule : "");
}

void ins_print_tensors(const inspection *i)
{
	cmd_outf("tensor\tfile\tdtype\tshape\tbytes\tused for\trule\n");
	ins_tensors(i, print_tensor, NULL);
}
