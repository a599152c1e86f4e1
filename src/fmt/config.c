/* SPDX-License-Identifier: Apache-2.0
 * config.c: which documents are ours, and the union of end tokens of both files.
 */
#include "fmt/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"

static const char *const ARCHITECTURES[] = {"NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"};
static const char *const MODEL_TYPES[] = {"nemotron_h", "nemotron_h_puzzle"};
static const char *const WRAPPERS[] = {"text_config", "llm_config", "language_config", "vision_config", "sound_config", "audio_config"};

static bool in_list(const char *s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(s, list[i]) == 0) return true;
	return false;
}

nh_status config_check(const json_t *config, const char *name, nh_error *e)
{
	char found[64];
	if (!json_is_object(config)) {
		jsn_brief(config, found);
		return ERR(e, NH_ERR_CONFIG, "%s: is %s, expected an object", name, found);
	}
	const json_t *list = json_object_get(config, "architectures"), *type = json_object_get(config, "model_type");
	for (size_t i = 0; i < ARRAY_LEN(WRAPPERS); i++)
		if (json_is_object(json_object_get(config, WRAPPERS[i])))
			return ERR(e, NH_ERR_UNSUPPORTED, "%s: %s: the language model is wrapped (tensors under language_model.), expected a plain %s",
			    name, WRAPPERS[i], ARCHITECTURES[0]);
	jsn_brief(list, found);
	bool have_list = list && !json_is_null(list), have_type = type && !json_is_null(type);
	if (have_list && (!json_is_array(list) || json_array_size(list) != 1 || !json_is_string(json_array_get(list, 0))))
		return ERR(e, NH_ERR_CONFIG, "%s: architectures: is %s, expected one name in a list", name, found);
	if (have_list && !in_list(json_string_value(json_array_get(list, 0)), ARCHITECTURES, ARRAY_LEN(ARCHITECTURES)))
		return ERR(e, NH_ERR_UNSUPPORTED, "%s: architectures: is %s, expected %s or %s", name, found, ARCHITECTURES[0], ARCHITECTURES[1]);
	jsn_brief(type, found);
	if (have_type && (!json_is_string(type) || !in_list(json_string_value(type), MODEL_TYPES, ARRAY_LEN(MODEL_TYPES))))
		return ERR(e, NH_ERR_UNSUPPORTED, "%s: model_type: is %s, expected %s or %s", name, found, MODEL_TYPES[0], MODEL_TYPES[1]);
	if (!have_list && !have_type)
		return ERR(e, NH_ERR_CONFIG, "%s: has neither architectures nor model_type, expected %s", name, ARCHITECTURES[0]);
	return NH_OK;
}

bool config_is_puzzle(const json_t *config)
{
	const char *arch = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
	const char *type = json_string_value(json_object_get(config, "model_type"));
	return (arch && strcmp(arch, ARCHITECTURES[1]) == 0) || (type && strcmp(type, MODEL_TYPES[1]) == 0);
}

nh_status config_load(json_t **out, const char *path, nh_error *e)
{
	TRY(jsn_load_path(out, path, JSON_LIMIT_CONFIG, e));
	nh_status s = config_check(*out, path, e);
	if (s != NH_OK) {
		json_decref(*out);
		*out = NULL;
	}
	return s;
}

static nh_status add_end(generation *g, const json_t *v, const char *name, int64_t most, nh_error *e)
{
	int64_t id = json_is_integer(v) ? (int64_t)json_integer_value(v) : -1;
	if (id < 0 || id > most) {
		char found[64];
		jsn_brief(v, found);
		return ERR(e, NH_ERR_CONFIG, "%s: eos_token_id: is %s, expected ids from 0 to %lld", name, found, (long long)most);
	}
	for (int i = 0; i < g->end_count; i++)
		if (g->end[i] == (int32_t)id) return NH_OK;
	if (g->end_count == GENERATION_MAX_END)
		return ERR(e, NH_ERR_LIMIT, "%s: eos_token_id: more than %d ids end a text", name, GENERATION_MAX_END);
	g->end[g->end_count++] = (int32_t)id;
	return NH_OK;
}

static nh_status add_ends(generation *g, const json_t *o, const char *name, int64_t most, nh_error *e)
{
	const json_t *v = json_object_get(o, "eos_token_id");
	if (!v || json_is_null(v)) return NH_OK;
	if (!json_is_array(v)) return add_end(g, v, name, most, e);
	for (size_t i = 0; i < json_array_size(v); i++) TRY(add_end(g, json_array_get(v, i), name, most, e));
	return NH_OK;
}

static nh_status read_id(const json_t *o, const char *name, const char *key, int64_t most, int32_t *out, nh_error *e)
{
	int64_t id;
	TRY(jsn_get_int(o, name, key, *out, -1, most, &id, e));
	*out = (int32_t)id;
	return NH_OK;
}

static bool present(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return v && !json_is_null(v);
}

static nh_status read_real(
    const json_t *o, const char *name, const char *key, double lo, double hi, bool open, double *out, bool *has, nh_error *e)
{
	TRY(jsn_get_real(o, name, key, *out, out, e));
	*has = present(o, key);
	if (*out < lo || *out > hi || (open && *out == lo) || isnan(*out))
		return ERR(e, NH_ERR_CONFIG, "%s: %s: is %g, expected a number %s %g and <= %g", name, key, *out, open ? ">" : ">=", lo, hi);
	return NH_OK;
}

static nh_status read_sampling(generation *g, const json_t *o, const char *name, nh_error *e)
{
	int64_t k, most;
	TRY(jsn_get_bool(o, name, "do_sample", false, &g->do_sample, e));
	g->has_do_sample = present(o, "do_sample");
	TRY(read_real(o, name, "temperature", 0, 1e6, false, &g->temperature, &g->has_temperature, e));
	TRY(read_real(o, name, "top_p", 0, 1, true, &g->top_p, &g->has_top_p, e));
	TRY(read_real(o, name, "min_p", 0, 1, false, &g->min_p, &g->has_min_p, e));
	TRY(read_real(o, name, "repetition_penalty", 0, 1e6, true, &g->repetition_penalty, &g->has_repetition_penalty, e));
	TRY(jsn_get_int(o, name, "top_k", 0, -1, INT32_MAX, &k, e));
	g->top_k = k < 0 ? 0 : (int32_t)k;
	g->has_top_k = present(o, "top_k");
	TRY(jsn_get_int(o, name, "max_new_tokens", 0, 1, INT64_MAX, &most, e));
	g->has_max_new_tokens = present(o, "max_new_tokens");
	g->max_new_tokens = most;
	return NH_OK;
}

nh_status generation_read(
    generation *out, const json_t *config, const char *config_name, const json_t *gen_config, const char *gen_name, nh_error *e)
{
	int64_t vocab;
	memset(out, 0, sizeof *out);
	out->bos = out->pad = -1;
	out->temperature = out->top_p = out->repetition_penalty = 1;
	TRY(jsn_get_int(config, config_name, "vocab_size", (int64_t)INT32_MAX + 1, 1, (int64_t)INT32_MAX + 1, &vocab, e));
	TRY(add_ends(out, config, config_name, vocab - 1, e));
	TRY(read_id(config, config_name, "bos_token_id", vocab - 1, &out->bos, e));
	TRY(read_id(config, config_name, "pad_token_id", vocab - 1, &out->pad, e));
	if (!gen_config) return NH_OK;
	if (!json_is_object(gen_config)) {
		char found[64];
		jsn_brief(gen_config, found);
		return ERR(e, NH_ERR_CONFIG, "%s: is %s, expected an object", gen_name, found);
	}
	TRY(add_ends(out, gen_config, gen_name, vocab - 1, e));
	TRY(read_id(gen_config, gen_name, "bos_token_id", vocab - 1, &out->bos, e));
	TRY(read_id(gen_config, gen_name, "pad_token_id", vocab - 1, &out->pad, e));
	generation_unserved(gen_config, out->unserved, sizeof out->unserved);
	return read_sampling(out, gen_config, gen_name, e);
}

nh_status generation_load(generation *out, const json_t *config, const char *config_name, const char *path, nh_error *e)
{
	json_t *gen = NULL;
	if (path && file_exists(path)) TRY(jsn_load_path(&gen, path, JSON_LIMIT_CONFIG, e));
	nh_status s = generation_read(out, config, config_name, gen, path, e);
	json_decref(gen);
	return s;
}
