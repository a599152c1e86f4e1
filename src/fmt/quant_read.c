/* SPDX-License-Identifier: Apache-2.0
 * quant_read.c: reads the two spellings of a quantisation document. In config.json: quant_method, quant_algo, ignore, kv_cache_scheme, config_groups,
 * quantized_layers. In hf_quant_config.json, below "quantization": quant_algo, exclude_modules, kv_cache_quant_algo, quantized_layers.
 * A key that is not known must be null, false, 0 or empty; anything else could change the mathematics.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/quant_impl.h"

#define LAYERS_MOST 2000000u
#define PATTERNS_MOST 100000u

typedef struct reading {
	quant_config *q;
	const char *name;   /* document, for errors */
	const char *prefix; /* "quantization_config." or "quantization." */
	nh_error *e;
} reading;

static nh_status refuse(const reading *r, nh_status code, const char *key, const json_t *v, const char *expected)
{
	char found[64];
	jsn_brief(v, found);
	return ERR(r->e, code, "%s: %s%.120s: is %s, expected %s", r->name, r->prefix, key, found, expected);
}

static bool empty(const json_t *v)
{
	if (!v || json_is_null(v) || json_is_false(v)) return true;
	if (json_is_number(v)) return json_number_value(v) == 0;
	if (json_is_string(v)) return json_string_length(v) == 0;
	return json_is_object(v) ? json_object_size(v) == 0 : json_is_array(v) && json_array_size(v) == 0;
}

static const struct {
	const char *word;
	num_scheme scheme;
} ALGORITHMS[] = {{"FP8", NUM_SCHEME_FP8}, {"NVFP4", NUM_SCHEME_NVFP4}, {"W4A16_NVFP4", NUM_SCHEME_W4A16}};

static bool parse_algorithm(const json_t *v, num_scheme *out)
{
	for (size_t i = 0; json_is_string(v) && i < ARRAY_LEN(ALGORITHMS); i++)
		if (strcasecmp(json_string_value(v), ALGORITHMS[i].word) == 0) {
			*out = ALGORITHMS[i].scheme;
			return true;
		}
	return false;
}

static nh_status check_group(const reading *r, const char *key, const json_t *v)
{
	if (!v || json_is_null(v)) return NH_OK;
	if (json_is_integer(v) && json_integer_value(v) == QUANT_GROUP) return NH_OK;
	return refuse(r, NH_ERR_UNSUPPORTED, key, v, "16");
}

static nh_status read_algorithm(const reading *r, const json_t *v, bool optional)
{
	if (optional && empty(v)) return NH_OK;
	if (json_is_string(v) && strcasecmp(json_string_value(v), "MIXED_PRECISION") == 0) {
		r->q->mixed = true;
		return NH_OK;
	}
	if (parse_algorithm(v, &r->q->all)) return NH_OK;
	return refuse(r, NH_ERR_UNSUPPORTED, "quant_algo", v, "FP8, NVFP4, W4A16_NVFP4 or MIXED_PRECISION");
}

static nh_status read_kv_name(const reading *r, const json_t *v)
{
	if (empty(v)) return NH_OK;
	if (!json_is_string(v) || strcasecmp(json_string_value(v), "FP8") != 0)
		return refuse(r, NH_ERR_UNSUPPORTED, "kv_cache_quant_algo", v, "FP8");
	r->q->kv = NUM_E4M3;
	return NH_OK;
}

static nh_status read_kv_scheme(const reading *r, const json_t *v)
{
	if (empty(v)) return NH_OK;
	const char *type = json_string_value(json_object_get(v, "type"));
	bool fp8 = json_is_object(v) && type && strcmp(type, "float") == 0 && json_integer_value(json_object_get(v, "num_bits")) == 8;
	if (!fp8 || !empty(json_object_get(v, "dynamic")))
		return refuse(r, NH_ERR_UNSUPPORTED, "kv_cache_scheme", v, "type float, num_bits 8, dynamic false");
	r->q->kv = NUM_E4M3;
	return NH_OK;
}

static nh_status read_patterns(const reading *r, const char *key, const json_t *v)
{
	quant_config *q = r->q;
	if (!v || json_is_null(v)) return NH_OK;
	if (!json_is_array(v)) return refuse(r, NH_ERR_CONFIG, key, v, "a list of module names");
	size_t n = json_array_size(v);
	if (n > PATTERNS_MOST) return refuse(r, NH_ERR_LIMIT, key, v, "at most 100000 names");
	q->patterns = mem_array(n ? n : 1, sizeof *q->patterns);
	if (!q->patterns) return ERR_NOMEM(r->e);
	for (size_t i = 0; i < n; i++) {
		const json_t *x = json_array_get(v, i);
		size_t len = json_string_length(x);
		if (!json_is_string(x) || len == 0 || len > QUANT_NAME_MAX)
			return refuse(r, NH_ERR_CONFIG, key, x, "module names of 1 to 400 bytes");
		q->patterns[i] = arena_strndup(&q->text, json_string_value(x), len);
		if (!q->patterns[i]) return ERR_NOMEM(r->e);
		q->pattern_count++;
	}
	return NH_OK;
}

/* One value of quantized_layers: {"quant_algo": ..., "group_size": 16}. */
static nh_status read_layer(const reading *r, const char *module, const json_t *v, quant_entry *out)
{
	char key[200];
	const char *sub;
	json_t *x;
	snprintf(key, sizeof key, "quantized_layers.%.150s", module);
	if (!json_is_object(v)) return refuse(r, NH_ERR_CONFIG, key, v, "an object with quant_algo");
	if (!parse_algorithm(json_object_get(v, "quant_algo"), &out->scheme))
		return refuse(r, NH_ERR_UNSUPPORTED, key, v, "quant_algo FP8, NVFP4 or W4A16_NVFP4");
	json_object_foreach((json_t *)(uintptr_t)v, sub, x)
	{
		if (strcmp(sub, "quant_algo") == 0) continue;
		if (strcmp(sub, "group_size") == 0 && out->scheme != NUM_SCHEME_FP8) TRY(check_group(r, key, x));
		else if (!empty(x)) return refuse(r, NH_ERR_UNSUPPORTED, key, v, "no other key than quant_algo and, for FP4, group_size");
	}
	return NH_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(((const quant_entry *)a)->name, ((const quant_entry *)b)->name); }

static nh_status read_layers(const reading *r, const json_t *v)
{
	quant_config *q = r->q;
	const char *key;
	json_t *x;
	if (!v || json_is_null(v)) return NH_OK;
	if (!json_is_object(v)) return refuse(r, NH_ERR_CONFIG, "quantized_layers", v, "an object");
	if (json_object_size(v) > LAYERS_MOST) return refuse(r, NH_ERR_LIMIT, "quantized_layers", v, "at most 2000000 entries");
	q->layers = mem_array(json_object_size(v) ? json_object_size(v) : 1, sizeof *q->layers);
	if (!q->layers) return ERR_NOMEM(r->e);
	json_object_foreach((json_t *)(uintptr_t)v, key, x)
	{
		const char *plain = quant_plain_name(key);
		if (!*plain || strlen(plain) > QUANT_NAME_MAX || strncmp(plain, "language_model.", 15) == 0)
			return ERR(r->e, NH_ERR_UNSUPPORTED, "%s: %squantized_layers: key %.200s, expected a module of backbone, mtp or lm_head",
			    r->name, r->prefix, key);
		TRY(read_layer(r, key, x, &q->layers[q->layer_count]));
		q->layers[q->layer_count].name = arena_strndup(&q->text, plain, strlen(plain));
		if (!q->layers[q->layer_count].name) return ERR_NOMEM(r->e);
		q->layer_count++;
	}
	if (q->layer_count) qsort(q->layers, q->layer_count, sizeof *q->layers, by_name);
	for (size_t i = 1; i < q->layer_count; i++)
		if (strcmp(q->layers[i].name, q->layers[i - 1].name) == 0 && q->layers[i].scheme != q->layers[i - 1].scheme)
			return ERR(r->e, NH_ERR_CONFIG, "%s: %squantized_layers: %.200s is listed in two prefix styles with different algorithms",
			    r->name, r->prefix, q->layers[i].name);
	return NH_OK;
}

/* config_groups repeats the algorithm in other words; where it contradicts, one of the two would be read wrongly. */
static nh_status check_spec(const reading *r, const char *key, const json_t *v, const num_scheme *scheme, bool activations)
{
	if (empty(v)) return NH_OK;
	const char *type = json_string_value(json_object_get(v, "type"));
	int64_t bits = (int64_t)json_integer_value(json_object_get(v, "num_bits"));
	if (!type || strcmp(type, "float") != 0 || (bits != 4 && bits != 8))
		return refuse(r, NH_ERR_UNSUPPORTED, key, v, "type float, num_bits 4 or 8");
	if (bits == 4) TRY(check_group(r, key, json_object_get(v, "group_size")));
	else if (!empty(json_object_get(v, "group_size"))) return refuse(r, NH_ERR_UNSUPPORTED, key, v, "8 bits without group_size");
	if (json_is_true(json_object_get(v, "dynamic"))) return refuse(r, NH_ERR_UNSUPPORTED, key, v, "dynamic false");
	if (scheme && bits != (*scheme == NUM_SCHEME_FP8 ? 8 : 4)) return refuse(r, NH_ERR_CONFIG, key, v, "the bits of quant_algo");
	if (scheme && activations && *scheme == NUM_SCHEME_W4A16) return refuse(r, NH_ERR_CONFIG, key, v, "none, as quant_algo says W4A16");
	return NH_OK;
}

static nh_status check_groups(const reading *r, const json_t *groups)
{
	const char *name;
	json_t *g;
	char key[200];
	if (empty(groups)) return NH_OK;
	if (!json_is_object(groups)) return refuse(r, NH_ERR_CONFIG, "config_groups", groups, "an object");
	const num_scheme *scheme = r->q->mixed ? NULL : &r->q->all;
	json_object_foreach((json_t *)(uintptr_t)groups, name, g)
	{
		snprintf(key, sizeof key, "config_groups.%.100s.weights", name);
		TRY(check_spec(r, key, json_object_get(g, "weights"), scheme, false));
		snprintf(key, sizeof key, "config_groups.%.100s.input_activations", name);
		TRY(check_spec(r, key, json_object_get(g, "input_activations"), scheme, true));
		snprintf(key, sizeof key, "config_groups.%.100s.output_activations", name);
		if (!empty(json_object_get(g, "output_activations")))
			return refuse(r, NH_ERR_UNSUPPORTED, key, json_object_get(g, "output_activations"), "null");
	}
	return NH_OK;
}

static nh_status refuse_unknown(const reading *r, const json_t *o)
{
	static const char *const KNOWN[] = {"quant_method", "quant_algo", "ignore", "exclude_modules", "kv_cache_scheme", "kv_cache_quant_algo",
	    "config_groups", "quantized_layers", "group_size", "producer", "quantization_status", "version"};
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		bool known = empty(v);
		for (size_t i = 0; !known && i < ARRAY_LEN(KNOWN); i++) known = strcmp(key, KNOWN[i]) == 0;
		if (!known) return refuse(r, NH_ERR_UNSUPPORTED, key, v, "a key that this program knows");
	}
	return NH_OK;
}

static nh_status read_document(const reading *r, const json_t *o, bool hf)
{
	quant_config *q = r->q;
	const json_t *method = json_object_get(o, "quant_method"), *ignore = json_object_get(o, "ignore");
	if (!json_is_object(o)) return ERR(r->e, NH_ERR_CONFIG, "%s: %s is not an object", r->name, r->prefix);
	if (!empty(method) && (!json_is_string(method) || strncasecmp(json_string_value(method), "modelopt", 8) != 0))
		return refuse(r, NH_ERR_UNSUPPORTED, "quant_method", method, "modelopt");
	q->source = arena_strndup(&q->text, r->name, strlen(r->name));
	if (!q->source) return ERR_NOMEM(r->e);
	TRY(refuse_unknown(r, o));
	TRY(read_algorithm(r, json_object_get(o, "quant_algo"), hf));
	TRY(read_kv_name(r, json_object_get(o, "kv_cache_quant_algo")));
	TRY(read_kv_scheme(r, json_object_get(o, "kv_cache_scheme")));
	bool fp4 = q->mixed || q->all == NUM_SCHEME_NVFP4 || q->all == NUM_SCHEME_W4A16;
	const json_t *group = json_object_get(o, "group_size");
	if (fp4) TRY(check_group(r, "group_size", group));
	else if (!empty(group)) return refuse(r, NH_ERR_UNSUPPORTED, "group_size", group, "none for FP8 per tensor");
	if (json_is_integer(group)) q->group = (int64_t)json_integer_value(group);
	if (!empty(ignore) && !empty(json_object_get(o, "exclude_modules")))
		return refuse(r, NH_ERR_CONFIG, "exclude_modules", json_object_get(o, "exclude_modules"), "only one of ignore and exclude_modules");
	TRY(empty(ignore) ? read_patterns(r, "exclude_modules", json_object_get(o, "exclude_modules")) : read_patterns(r, "ignore", ignore));
	TRY(read_layers(r, json_object_get(o, "quantized_layers")));
	if (q->mixed && q->layer_count == 0)
		return refuse(r, NH_ERR_CONFIG, "quantized_layers", json_object_get(o, "quantized_layers"), "the layers of MIXED_PRECISION");
	if (!q->mixed)
		for (size_t i = 0; i < q->layer_count; i++)
			if (q->layers[i].scheme != q->all)
				return ERR(r->e, NH_ERR_CONFIG, "%s: %squantized_layers: %.200s is %s, but quant_algo is %s", r->name, r->prefix,
				    q->layers[i].name, num_scheme_name(q->layers[i].scheme), quant_algorithm(q));
	return check_groups(r, json_object_get(o, "config_groups"));
}

static nh_status read_any(quant_config **out, const json_t *o, const char *name, bool hf, nh_error *e)
{
	quant_config *q = mem_alloc(sizeof *q);
	*out = q;
	if (!q) return ERR_NOMEM(e);
	arena_init(&q->text);
	if (!o) return NH_OK;
	const json_t *inner = json_object_get(o, "quantization");
	bool nested = json_is_object(inner);
	reading r = {q, name, nested ? "quantization." : hf ? "" : "quantization_config.", e};
	return read_document(&r, nested ? inner : o, hf);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Names of both lists in one order, style prefixes cut; the first that one lacks is the difference. */
static nh_status same_patterns(const quant_config *a, const quant_config *b, const char **odd, nh_error *e)
{
	const char **x = mem_array(a->pattern_count + b->pattern_count + 1, sizeof *x);
	if (!x) return ERR_NOMEM(e);
	const char **y = x + a->pattern_count;
	for (size_t i = 0; i < a->pattern_count; i++) x[i] = quant_plain_name(a->patterns[i]);
	for (size_t i = 0; i < b->pattern_count; i++) y[i] = quant_plain_name(b->patterns[i]);
	if (a->pattern_count) qsort(x, a->pattern_count, sizeof *x, by_text);
	if (b->pattern_count) qsort(y, b->pattern_count, sizeof *y, by_text);
	*odd = NULL;
	size_t i = 0, k = 0;
	while (!*odd && (i < a->pattern_count || k < b->pattern_count)) {
		int c = i == a->pattern_count ? 1 : k == b->pattern_count ? -1 : strcmp(x[i], y[k]);
		const char *name = c <= 0 ? x[i] : y[k];
		if (c != 0) *odd = name;
		while (i < a->pattern_count && strcmp(x[i], name) == 0) i++;
		while (k < b->pattern_count && strcmp(y[k], name) == 0) k++;
	}
	mem_free(x);
	return NH_OK;
}

static const char *different_layer(const quant_config *a, const quant_config *b)
{
	for (size_t i = 0; i < a->layer_count || i < b->layer_count; i++) {
		if (i >= a->layer_count) return b->layers[i].name;
		if (i >= b->layer_count || strcmp(a->layers[i].name, b->layers[i].name) != 0 || a->layers[i].scheme != b->layers[i].scheme)
			return a->layers[i].name;
	}
	return NULL;
}

static nh_status compare(const quant_config *a, const quant_config *b, nh_error *e)
{
	const char *odd = NULL;
	if (a->mixed != b->mixed || a->all != b->all)
		return ERR(
		    e, NH_ERR_CONFIG, "%s and %s disagree: quant_algo: %s and %s", a->source, b->source, quant_algorithm(a), quant_algorithm(b));
	if (a->kv != b->kv)
		return ERR(e, NH_ERR_CONFIG, "%s and %s disagree: kv_cache_scheme and kv_cache_quant_algo: %s and %s", a->source, b->source,
		    num_dtype_name(a->kv), num_dtype_name(b->kv));
	if (a->group && b->group && a->group != b->group)
		return ERR(e, NH_ERR_CONFIG, "%s and %s disagree: group_size: %" PRId64 " and %" PRId64, a->source, b->source, a->group, b->group);
	TRY(same_patterns(a, b, &odd, e));
	if (odd) return ERR(e, NH_ERR_CONFIG, "%s and %s disagree: ignore and exclude_modules: only one has %.200s", a->source, b->source, odd);
	odd = different_layer(a, b);
	if (odd) return ERR(e, NH_ERR_CONFIG, "%s and %s disagree: quantized_layers: %.200s", a->source, b->source, odd);
	return NH_OK;
}

nh_status quant_open(
    quant_config **out, const json_t *config, const char *config_name, const json_t *hf_quant, const char *hf_name, nh_error *e)
{
	quant_config *mine = NULL, *other = NULL;
	const json_t *inner = json_object_get(config, "quantization_config");
	*out = NULL;
	if (json_is_null(inner)) inner = NULL;
	nh_status s = inner || !hf_quant ? read_any(&mine, inner, config_name, false, e) : read_any(&mine, hf_quant, hf_name, true, e);
	if (s == NH_OK && inner && hf_quant) {
		s = read_any(&other, hf_quant, hf_name, true, e);
		if (s == NH_OK) s = compare(mine, other, e);
	}
	quant_close(other);
	if (s != NH_OK) quant_close(mine);
	else *out = mine;
	return s;
}

nh_status quant_load(quant_config **out, const json_t *config, const char *config_name, const char *hf_path, nh_error *e)
{
	json_t *hf = NULL;
	*out = NULL;
	if (hf_path && file_exists(hf_path)) TRY(jsn_load_path(&hf, hf_path, JSON_LIMIT_CONFIG, e));
	nh_status s = quant_open(out, config, config_name, hf, hf_path, e);
	json_decref(hf);
	return s;
}

void quant_close(quant_config *q)
{
	if (!q) return;
	mem_free(q->layers);
	mem_free(q->patterns);
	arena_deinit(&q->text);
	mem_free(q);
}
