/* SPDX-License-Identifier: Apache-2.0
 * nm_config.c: reads config.json into nm_config. A layer's value is its block's (Puzzle), else the legacy name's, else the modern name's,
 * else the class default. Errors are sticky in the reader, so that the list of fields reads as a list.
 */
#include "model/nemotron_h/nm_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base_buf.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/config.h"

#define MOST_WIDTH ((int64_t)1 << 24)
#define MOST_HEADS ((int64_t)1 << 16)
#define MOST_PRODUCT ((int64_t)1 << 26) /* of two dimensions that become one */

typedef struct reader {
	const json_t *config;
	const json_t *block; /* of the layer at hand; NULL outside Puzzle */
	const char *name;    /* document, for errors */
	char block_name[256];
	const logger *log;
	nh_error *e;
	nh_status s;  /* sticky */
	buf defaults; /* keys whose class default was used */
} reader;

static bool present(const json_t *o, const char *key)
{
	const json_t *v = key ? json_object_get(o, key) : NULL;
	return v && !json_is_null(v);
}

static void note_default(reader *r, const char *key)
{
	char item[80];
	snprintf(item, sizeof item, " %s,", key);
	if (!r->defaults.data || !strstr(r->defaults.data, item)) buf_str(&r->defaults, item);
}

/* The object that holds the value, and the name it has there; the config and the modern name where nobody has it. */
static const json_t *where(const reader *r, const char **key, const char *legacy, const char **doc)
{
	if (r->block && present(r->block, *key)) {
		*doc = r->block_name;
		return r->block;
	}
	*doc = r->name;
	if (present(r->config, legacy)) *key = legacy;
	return r->config;
}

static int64_t get_int(reader *r, const char *key, const char *legacy, int64_t fallback, int64_t lo, int64_t hi)
{
	const char *doc;
	int64_t v = fallback;
	const json_t *o = where(r, &key, legacy, &doc);
	if (r->s != NH_OK) return fallback;
	if (!present(o, key)) note_default(r, key);
	r->s = jsn_get_int(o, doc, key, fallback, lo, hi, &v, r->e);
	return v;
}

/* The same for a feature that is off unless the file names it: its default is no news. */
static int64_t get_feature(reader *r, const char *key, int64_t off, int64_t lo, int64_t hi)
{
	bool named = (r->block && present(r->block, key)) || present(r->config, key);
	return named ? get_int(r, key, NULL, off, lo, hi) : off;
}

static bool get_bool(reader *r, const char *key, const char *legacy, bool fallback)
{
	const char *doc;
	bool v = fallback;
	const json_t *o = where(r, &key, legacy, &doc);
	if (r->s == NH_OK) r->s = jsn_get_bool(o, doc, key, fallback, &v, r->e);
	return v;
}

static double get_real(reader *r, const char *key, const char *legacy, double fallback)
{
	const char *doc;
	double v = fallback;
	const json_t *o = where(r, &key, legacy, &doc);
	if (r->s == NH_OK) r->s = jsn_get_real(o, doc, key, fallback, &v, r->e);
	return v;
}

#define FAIL(r, code, ...)                                              \
	do {                                                                \
		if ((r)->s == NH_OK) (r)->s = ERR((r)->e, (code), __VA_ARGS__); \
	} while (0)

static const char *doc_of(const reader *r) { return r->block ? r->block_name : r->name; }

static void divides(reader *r, const char *whole, int64_t a, const char *part, int64_t b)
{
	if (r->s == NH_OK && a % b != 0)
		FAIL(r, NH_ERR_CONFIG, "%s: %s: is %" PRId64 ", expected a multiple of %s %" PRId64, doc_of(r), whole, a, part, b);
}

static void read_mamba(reader *r, nm_mamba_dims *d)
{
	d->heads = get_int(r, "mamba_num_heads", NULL, 128, 1, MOST_HEADS);
	d->head_dim = get_int(r, "mamba_head_dim", NULL, 64, 1, MOST_HEADS);
	d->state = get_int(r, "ssm_state_size", NULL, 128, 1, MOST_HEADS);
	d->groups = get_int(r, "n_groups", "mamba_n_groups", 8, 1, MOST_HEADS);
	d->taps = get_int(r, "conv_kernel", "mamba_d_conv", 4, 2, 16);
	divides(r, "mamba_num_heads", d->heads, "n_groups", d->groups);
	d->inner = d->heads * d->head_dim;
	d->channels = d->inner + 2 * d->groups * d->state;
	d->proj = d->inner + d->channels + d->heads;
	if (d->inner > MOST_PRODUCT || d->channels > MOST_PRODUCT)
		FAIL(r, NH_ERR_LIMIT, "%s: mamba_num_heads x mamba_head_dim + 2 x n_groups x ssm_state_size: is %" PRId64 ", the limit is %" PRId64,
		    doc_of(r), d->channels, MOST_PRODUCT);
}

static void read_attention(reader *r, nm_attn_dims *d, bool puzzle)
{
	d->heads = get_int(r, "num_attention_heads", NULL, 32, 1, MOST_HEADS);
	/* null means one KV head a query head, absent means the class default */
	bool null = json_is_null(json_object_get(r->config, "num_key_value_heads"));
	d->kv_heads =
	    null ? get_feature(r, "num_key_value_heads", d->heads, 1, MOST_HEADS) : get_int(r, "num_key_value_heads", NULL, 8, 1, MOST_HEADS);
	const char *key = present(r->config, "head_dim") || !present(r->config, "attention_head_dim") ? "head_dim" : "attention_head_dim";
	if (r->block && present(r->block, "head_dim")) key = "head_dim";
	d->head_dim = get_int(r, key, NULL, 128, 1, MOST_HEADS);
	if (r->s == NH_OK && present(r->config, "attention_head_dim") && !r->block) {
		int64_t other = get_int(r, "attention_head_dim", NULL, d->head_dim, 1, MOST_HEADS);
		if (other != d->head_dim)
			FAIL(r, NH_ERR_CONFIG, "%s: attention_head_dim: is %" PRId64 ", but head_dim is %" PRId64, r->name, other, d->head_dim);
	}
	d->window = puzzle ? get_feature(r, "sliding_window", 0, 1, (int64_t)1 << 40) : 0;
	divides(r, "num_attention_heads", d->heads, "num_key_value_heads", d->kv_heads);
	if (d->heads * d->head_dim > MOST_PRODUCT)
		FAIL(r, NH_ERR_LIMIT, "%s: num_attention_heads x head_dim: is %" PRId64 ", the limit is %" PRId64, doc_of(r),
		    d->heads * d->head_dim, MOST_PRODUCT);
}

/* Dense width: a number, a list with one, or a list with one for each dense layer (model.md 1.3). */
static int64_t read_mlp(reader *r, int ordinal, int dense)
{
	const json_t *v = json_object_get(r->config, "intermediate_size");
	if ((r->block && present(r->block, "intermediate_size")) || !json_is_array(v))
		return get_int(r, "intermediate_size", NULL, 21504, 1, MOST_WIDTH);
	size_t n = json_array_size(v);
	if (n != 1 && n != (size_t)dense) {
		FAIL(r, NH_ERR_CONFIG, "%s: intermediate_size: has %zu widths, expected 1 or one for each of the %d dense layers", r->name, n,
		    dense);
		return 0;
	}
	const json_t *x = json_array_get(v, n == 1 ? 0 : (size_t)ordinal);
	char found[64];
	jsn_brief(x, found);
	if (!json_is_integer(x) || json_integer_value(x) < 1 || json_integer_value(x) > MOST_WIDTH)
		FAIL(r, NH_ERR_CONFIG, "%s: intermediate_size: item %d is %s, expected an integer from 1 to %" PRId64, r->name, ordinal, found,
		    MOST_WIDTH);
	return (int64_t)json_integer_value(x);
}

static void read_moe(reader *r, nm_moe_dims *d, int64_t hidden, bool mtp)
{
	const char *doc = doc_of(r);
	d->experts = get_int(r, "n_routed_experts", present(r->config, "n_routed_experts") ? NULL : "num_local_experts", 8, 1, MOST_HEADS);
	if (mtp && present(r->config, "mtp_n_routed_experts") && !(r->block && present(r->block, "n_routed_experts")))
		d->experts = get_int(r, "mtp_n_routed_experts", NULL, d->experts, 1, MOST_HEADS);
	d->chosen = get_int(r, "num_experts_per_tok", NULL, 2, 1, MOST_HEADS);
	d->width = get_int(r, "moe_intermediate_size", NULL, 7688, 1, MOST_WIDTH);
	d->latent = get_feature(r, "moe_latent_size", 0, 1, MOST_WIDTH);
	d->in_width = d->latent ? d->latent : hidden;
	bool null = json_is_null(json_object_get(r->config, "n_shared_experts"));
	int64_t shared = null ? get_feature(r, "n_shared_experts", 0, 0, 1024) : get_int(r, "n_shared_experts", NULL, 1, 0, 1024);
	d->shared = shared ? shared * get_int(r, "moe_shared_expert_intermediate_size", NULL, 7688, 1, MOST_WIDTH) : 0;
	d->n_group = get_feature(r, "n_group", 1, 1, MOST_HEADS);
	d->topk_group = get_feature(r, "topk_group", 1, 1, MOST_HEADS);
	d->norm_topk = get_bool(r, "norm_topk_prob", NULL, true);
	d->factor = get_real(r, "routed_scaling_factor", NULL, 1.0);
	divides(r, "n_routed_experts", d->experts, "n_group", d->n_group);
	if (r->s != NH_OK) return;
	int64_t open = d->topk_group * (d->experts / d->n_group);
	if (d->topk_group > d->n_group)
		FAIL(r, NH_ERR_CONFIG, "%s: topk_group: is %" PRId64 ", expected at most n_group %" PRId64, doc, d->topk_group, d->n_group);
	else if (d->chosen > open)
		FAIL(r, NH_ERR_CONFIG, "%s: num_experts_per_tok: is %" PRId64 ", but a token can reach only %" PRId64 " experts", doc, d->chosen,
		    open);
	else if (d->n_group > 1 && d->experts / d->n_group < 2)
		FAIL(r, NH_ERR_CONFIG, "%s: n_group: is %" PRId64 ", but a group's score needs two experts in it", doc, d->n_group);
	else if (!isfinite(d->factor) || d->factor <= 0)
		FAIL(r, NH_ERR_CONFIG, "%s: routed_scaling_factor: is %g, expected a finite number > 0", doc, d->factor);
	else if (d->shared > MOST_PRODUCT)
		FAIL(r, NH_ERR_LIMIT, "%s: n_shared_experts x moe_shared_expert_intermediate_size: is %" PRId64 ", the limit is %" PRId64, doc,
		    d->shared, MOST_PRODUCT);
}

/* What a block of each kind may override; another key would be dropped silently by us, so it is refused. */
static void check_block(reader *r, char kind)
{
	static const struct {
		char kind;
		const char *keys[11];
	} MAY[] = {
	    {NM_MAMBA, {"ssm_state_size", "mamba_num_heads", "mamba_head_dim", "n_groups", "conv_kernel", NULL}},
	    {NM_ATTN, {"sliding_window", "num_attention_heads", "num_key_value_heads", "head_dim", NULL}},
	    {NM_MLP, {"intermediate_size", NULL}},
	    {NM_MOE, {"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "moe_shared_expert_intermediate_size",
	                 "moe_latent_size", "n_shared_experts", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob", NULL}},
	};
	size_t row = 0;
	while (row + 1 < ARRAY_LEN(MAY) && MAY[row].kind != kind) row++;
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)(uintptr_t)r->block, key, v)
	{
		bool known = json_is_null(v) || strcmp(key, "block_type") == 0;
		for (int i = 0; !known && MAY[row].keys[i]; i++) known = strcmp(key, MAY[row].keys[i]) == 0;
		if (known) continue;
		char found[64];
		jsn_brief(v, found);
		FAIL(r, NH_ERR_UNSUPPORTED, "%s: %.100s: is %s, expected null (not a key of a %s block)", r->block_name, key, found,
		    nm_kind_name(kind));
	}
}

/* Fills layers[0..n) from their kinds; blocks is NULL or the array that gives each its own values. */
static void read_layers(
    reader *r, nm_config *c, nm_layer_config *layers, const char *kinds, int n, const json_t *blocks, const char *blocks_key)
{
	int ordinal[128] = {0}, total[128] = {0}; /* by letter */
	for (int i = 0; i < n; i++) total[(unsigned char)kinds[i] & 127]++;
	for (int i = 0; i < n && r->s == NH_OK; i++) {
		nm_layer_config *l = &layers[i];
		l->kind = kinds[i];
		l->index = i;
		l->ordinal = ordinal[(unsigned char)l->kind & 127]++;
		r->block = json_array_get(blocks, (size_t)i);
		if (r->block) {
			snprintf(r->block_name, sizeof r->block_name, "%.200s: %s[%d]", r->name, blocks_key, i);
			check_block(r, l->kind);
		}
		switch (l->kind) {
		case NM_MAMBA: read_mamba(r, &l->mamba); break;
		case NM_ATTN: read_attention(r, &l->attn, blocks != NULL); break;
		case NM_MLP: l->mlp.width = read_mlp(r, l->ordinal, total[NM_MLP]); break;
		default: read_moe(r, &l->moe, c->hidden, layers == c->mtp_layer); break;
		}
		if (l->moe.experts > c->max_experts) c->max_experts = l->moe.experts;
	}
	r->block = NULL;
}

/* The kinds that block_configs names. */
static void read_block_types(reader *r, const json_t *blocks, const char *key, char *kinds, int *n)
{
	char found[64];
	*n = 0;
	if (r->s != NH_OK) return;
	jsn_brief(blocks, found);
	if (!json_is_array(blocks) || json_array_size(blocks) == 0 || json_array_size(blocks) > NM_MAX_LAYERS) {
		FAIL(r, NH_ERR_CONFIG, "%s: %s: is %s, expected a list of 1 to %d blocks", r->name, key, found, NM_MAX_LAYERS);
		return;
	}
	for (size_t i = 0; i < json_array_size(blocks); i++) {
		const char *type = json_string_value(json_object_get(json_array_get(blocks, i), "block_type"));
		jsn_brief(json_array_get(blocks, i), found);
		kinds[i] = type ? nm_kind_parse(type) : 0;
		if (!kinds[i]) {
			FAIL(r, NH_ERR_CONFIG, "%s: %s[%zu]: is %s, expected an object with block_type mamba, attention, mlp or moe", r->name, key, i,
			    found);
			return;
		}
	}
	*n = (int)json_array_size(blocks);
	kinds[*n] = 0;
}

static void read_kinds(reader *r, const char *key, char *kinds, int *n)
{
	if (r->s == NH_OK) r->s = nm_pattern_read(json_object_get(r->config, key), r->name, key, kinds, n, r->e);
}

/* Another spelling of the same thing, of less rank: a difference is decided by rank, and said. */
static void compare_kinds(reader *r, const char *winner, const char *kinds, const char *key)
{
	char *other = present(r->config, key) && r->s == NH_OK ? mem_alloc(NM_MAX_LAYERS + 1) : NULL;
	int m;
	if (!other) return;
	read_kinds(r, key, other, &m);
	if (r->s == NH_OK && strcmp(kinds, other) != 0)
		log_line(r->log, NH_LOG_NOTICE, "%s: %s says other layers than %s; %s wins", r->name, key, winner, winner);
	mem_free(other);
}

static void read_pattern(reader *r, nm_config *c, char *kinds)
{
	const json_t *blocks = json_object_get(r->config, "block_configs");
	bool have_list = present(r->config, "layers_block_type"), have_types = present(r->config, "layer_types");
	bool have_text = present(r->config, "hybrid_override_pattern");
	const char *key = c->puzzle    ? "block_configs"
	                  : have_list  ? "layers_block_type"
	                  : have_types ? "layer_types"
	                               : "hybrid_override_pattern";
	if (c->puzzle) read_block_types(r, blocks, key, kinds, &c->layers);
	else if (have_list || have_types || have_text) read_kinds(r, key, kinds, &c->layers);
	else FAIL(r, NH_ERR_CONFIG, "%s: has none of hybrid_override_pattern, layers_block_type, layer_types and block_configs", r->name);
	if (c->puzzle) compare_kinds(r, key, kinds, "layers_block_type");
	if (c->puzzle || have_list) compare_kinds(r, key, kinds, "layer_types");
	if (c->puzzle || have_list || have_types) compare_kinds(r, key, kinds, "hybrid_override_pattern");
	int64_t said = get_feature(r, "num_hidden_layers", c->layers, 0, 1000000);
	if (r->s != NH_OK || said == c->layers) return;
	/* the classes differ: a string of another length is an error there, a list of another length wins */
	if (strcmp(key, "hybrid_override_pattern") == 0)
		FAIL(
		    r, NH_ERR_CONFIG, "%s: num_hidden_layers: is %" PRId64 ", but hybrid_override_pattern has %d layers", r->name, said, c->layers);
	else
		log_line(r->log, NH_LOG_NOTICE, "%s: num_hidden_layers: is %" PRId64 ", but %s has %d layers; the list wins", r->name, said, key,
		    c->layers);
}

static void read_mtp(reader *r, nm_config *c, char *kinds)
{
	const json_t *blocks = json_object_get(r->config, "mtp_block_configs");
	c->mtp_depth = (int)get_feature(r, "num_nextn_predict_layers", 0, 0, 16);
	if (r->s != NH_OK || c->mtp_depth == 0) return;
	bool per_layer = json_is_array(blocks) && json_array_size(blocks) > 0;
	int n = 2;
	kinds[0] = NM_ATTN;
	kinds[1] = NM_MOE;
	if (per_layer) read_block_types(r, blocks, "mtp_block_configs", kinds, &n);
	else {
		if (present(r->config, "mtp_layers_block_type")) read_kinds(r, "mtp_layers_block_type", kinds, &n);
		/* the class lets the string speak only where the list is the default or absent */
		bool plain = n == 2 && kinds[0] == NM_ATTN && kinds[1] == NM_MOE;
		if (plain && present(r->config, "mtp_hybrid_override_pattern")) read_kinds(r, "mtp_hybrid_override_pattern", kinds, &n);
	}
	if (r->s != NH_OK) return;
	c->mtp_layer = mem_array((size_t)n, sizeof *c->mtp_layer);
	if (!c->mtp_layer) {
		r->s = ERR_NOMEM(r->e);
		return;
	}
	c->mtp_inner = n;
	read_layers(r, c, c->mtp_layer, kinds, n, per_layer ? blocks : NULL, "mtp_block_configs");
}

static void read_dtype(reader *r, nm_config *c)
{
	const char *torch = NULL, *modern = NULL;
	if (r->s == NH_OK) r->s = jsn_get_string(r->config, r->name, "torch_dtype", NULL, &torch, r->e);
	if (r->s == NH_OK) r->s = jsn_get_string(r->config, r->name, "dtype", NULL, &modern, r->e);
	c->dtype = NUM_BF16;
	if (torch && modern && strcmp(torch, modern) != 0)
		FAIL(r, NH_ERR_CONFIG, "%s: dtype: is \"%.40s\", but torch_dtype is \"%.40s\"", r->name, modern, torch);
	const char *said = modern ? modern : torch;
	if (said && strcmp(said, "bfloat16") != 0)
		FAIL(r, NH_ERR_UNSUPPORTED, "%s: %s: is \"%.40s\", expected \"bfloat16\"", r->name, modern ? "dtype" : "torch_dtype", said);
}

/* model.md 4.8: unset, null and "auto" mean f32 for this architecture. */
static void read_ssm_cache(reader *r, nm_config *c)
{
	static const struct {
		const char *word;
		num_dtype type;
	} WORDS[] = {
	    {"auto", NUM_F32}, {"float32", NUM_F32}, {"float", NUM_F32}, {"float16", NUM_F16}, {"half", NUM_F16}, {"bfloat16", NUM_BF16}};
	const char *said = NULL;
	if (r->s == NH_OK) r->s = jsn_get_string(r->config, r->name, "mamba_ssm_cache_dtype", NULL, &said, r->e);
	c->ssm_dtype = NUM_F32;
	if (!said || r->s != NH_OK) return;
	for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
		if (strcmp(said, WORDS[i].word) == 0) {
			c->ssm_dtype = WORDS[i].type;
			snprintf(c->ssm_dtype_text, sizeof c->ssm_dtype_text, "%s", said);
			return;
		}
	FAIL(r, NH_ERR_UNSUPPORTED, "%s: mamba_ssm_cache_dtype: is \"%.40s\", expected auto, float32, float16 or bfloat16", r->name, said);
}

static void read_ignored(reader *r, nm_ignored *g)
{
	g->time_step_min = get_real(r, "time_step_min", "mamba_dt_min", 1e-3);
	g->time_step_max = get_real(r, "time_step_max", "mamba_dt_max", 0.1);
	g->time_step_floor = get_real(r, "time_step_floor", "mamba_dt_init_floor", 1e-4);
	g->residual_in_fp32 = get_bool(r, "residual_in_fp32", NULL, false);
	g->expand =
	    present(r->config, "expand") || present(r->config, "mamba_expand") ? get_int(r, "expand", "mamba_expand", 2, 0, MOST_WIDTH) : 2;
	g->time_step_limit[0] = 0;
	g->time_step_limit[1] = (double)INFINITY;
	const char *key = present(r->config, "mamba_dt_limit") ? "mamba_dt_limit" : "time_step_limit";
	const json_t *v = json_object_get(r->config, key);
	if (!v || json_is_null(v)) return;
	char found[64];
	jsn_brief(v, found);
	if (json_array_size(v) != 2 || !jsn_is_number(json_array_get(v, 0)) || !jsn_is_number(json_array_get(v, 1))) {
		FAIL(r, NH_ERR_CONFIG, "%s: %s: is %s, expected two numbers", r->name, key, found);
		return;
	}
	for (size_t i = 0; i < 2; i++) g->time_step_limit[i] = jsn_number(json_array_get(v, i));
}

static void read_globals(reader *r, nm_config *c)
{
	if (!present(r->config, "vocab_size")) FAIL(r, NH_ERR_CONFIG, "%s: vocab_size: is absent", r->name);
	if (!present(r->config, "hidden_size")) FAIL(r, NH_ERR_CONFIG, "%s: hidden_size: is absent", r->name);
	c->vocab = get_int(r, "vocab_size", NULL, 0, 1, MOST_WIDTH);
	c->hidden = get_int(r, "hidden_size", NULL, 0, 1, MOST_WIDTH);
	c->tied = get_bool(r, "tie_word_embeddings", NULL, false);
	c->proj_bias = get_bool(r, "use_bias", NULL, false);
	c->mlp_bias = get_bool(r, "mlp_bias", NULL, false);
	c->conv_bias = get_bool(r, "use_conv_bias", "mamba_conv_bias", true);
	c->chunk = get_int(r, "chunk_size", "mamba_chunk_size", 2048, 1, (int64_t)1 << 20);
	c->max_positions = get_int(r, "max_position_embeddings", NULL, 4096, 1, (int64_t)1 << 40);
	c->eps = get_real(r, "layer_norm_epsilon", NULL, 1e-5);
	if (!(c->eps > 0 && c->eps < 1))
		FAIL(r, NH_ERR_CONFIG, "%s: layer_norm_epsilon: is %g, expected a number > 0 and < 1", r->name, c->eps);
	read_dtype(r, c);
	read_ssm_cache(r, c);
	read_ignored(r, &c->ignored);
}

static void read_all(reader *r, nm_config *c, char *kinds)
{
	bool blocks = present(r->config, "block_configs");
	c->puzzle = blocks || config_is_puzzle(r->config);
	r->s = nm_config_check_keys(r->config, r->name, c->puzzle, r->log, r->e);
	if (c->puzzle && !blocks)
		FAIL(r, NH_ERR_CONFIG, "%s: block_configs: is absent, expected one block for each layer of a Puzzle model", r->name);
	read_globals(r, c);
	if (r->s == NH_OK) read_pattern(r, c, kinds);
	if (r->s != NH_OK) return;
	c->layer = mem_array((size_t)c->layers, sizeof *c->layer);
	c->pattern = mem_strdup(kinds);
	if (!c->layer || !c->pattern) {
		r->s = ERR_NOMEM(r->e);
		return;
	}
	read_layers(r, c, c->layer, kinds, c->layers, c->puzzle ? json_object_get(r->config, "block_configs") : NULL, "block_configs");
	if (r->s == NH_OK) read_mtp(r, c, kinds);
}

nh_status nm_config_read(nm_config *out, const json_t *config, const char *name, const logger *log, nh_error *e)
{
	memset(out, 0, sizeof *out);
	TRY(config_check(config, name, e));
	char *kinds = mem_alloc(NM_MAX_LAYERS + 1);
	reader r = {.config = config, .name = name, .log = log, .e = e};
	if (!kinds) return ERR_NOMEM(e);
	read_all(&r, out, kinds);
	if (r.s == NH_OK && r.defaults.len && !r.defaults.failed)
		log_line(log, NH_LOG_NOTICE, "%s: absent, class default used:%.*s", name, (int)r.defaults.len - 1, r.defaults.data);
	buf_deinit(&r.defaults);
	mem_free(kinds);
	if (r.s != NH_OK) nm_config_deinit(out);
	return r.s;
}

void nm_config_deinit(nm_config *c)
{
	mem_free(c->layer);
	mem_free(c->mtp_layer);
	mem_free(c->pattern);
	memset(c, 0, sizeof *c);
}

int nm_config_count(const nm_config *c, char kind)
{
	int n = 0;
	for (int i = 0; i < c->layers; i++) n += c->layer[i].kind == kind;
	return n;
}

uint64_t nm_config_ssm_bytes(const nm_config *c)
{
	uint64_t n = 0;
	for (int i = 0; i < c->layers; i++) n += (uint64_t)(c->layer[i].mamba.inner * c->layer[i].mamba.state) * num_bytes(c->ssm_dtype);
	return n;
}

uint64_t nm_config_conv_bytes(const nm_config *c)
{
	uint64_t n = 0;
	for (int i = 0; i < c->layers; i++)
		if (c->layer[i].kind == NM_MAMBA) n += (uint64_t)((c->layer[i].mamba.taps - 1) * c->layer[i].mamba.channels) * num_bytes(NUM_BF16);
	return n;
}

uint64_t nm_config_state_bytes(const nm_config *c) { return nm_config_ssm_bytes(c) + nm_config_conv_bytes(c); }

static uint64_t kv_elements(const nm_layer_config *l, int n)
{
	uint64_t sum = 0;
	for (int i = 0; i < n; i++) sum += 2 * (uint64_t)(l[i].attn.kv_heads * l[i].attn.head_dim);
	return sum;
}

uint64_t nm_config_kv_elements(const nm_config *c) { return kv_elements(c->layer, c->layers); }

uint64_t nm_config_mtp_kv_elements(const nm_config *c) { return kv_elements(c->mtp_layer, c->mtp_inner); }
