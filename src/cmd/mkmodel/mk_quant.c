/* SPDX-License-Identifier: Apache-2.0
 * mk_quant.c: how a checkpoint tells its quantisation, in config.json's words and in hf_quant_config.json's (model.md 2.5). Knows no tensor.
 * Breaks first: both documents say the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "cmd/mkmodel/mk.h"

static int by_text(const void *a, const void *b)
{
	return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

/* A new list in byte order, as the published ones are. */
static json_t *sorted(const json_t *list)
{
	size_t n = json_array_size(list);
	json_t **items = mem_array(n + 1, sizeof *items);
	json_t *out = items != NULL ? json_array() : NULL;
	for (size_t i = 0; out != NULL && i < n; i++) items[i] = json_array_get(list, i);
	if (out != NULL) qsort(items, n, sizeof *items, by_text);
	for (size_t i = 0; out != NULL && i < n; i++) json_array_append(out, items[i]);
	mem_free(items);
	return out;
}

static json_t *group(int bits, bool activations)
{
	json_t *spec = json_pack("{s:b,s:i,s:s}", "dynamic", 0, "num_bits", bits, "type", "float");
	if (bits == 4) json_object_set_new(spec, "group_size", json_integer(16));
	json_t *g = json_pack("{s:O,s:[s]}", "weights", spec, "targets", "Linear");
	if (activations) json_object_set(g, "input_activations", spec);
	json_decref(spec);
	return json_pack("{s:o}", "group_0", g);
}

nh_status mk_quant(const mk_plan *p, mk_format format, json_t **config_json, json_t **hf_json, nh_error *e)
{
	static const char *const algorithms[MK_FORMAT_COUNT] = {
	    [MK_FP8] = "FP8", [MK_NVFP4] = "NVFP4", [MK_W4A16] = "W4A16_NVFP4", [MK_MIXED] = "MIXED_PRECISION", [MK_SUPER] = "MIXED_PRECISION"};
	*config_json = *hf_json = NULL;
	const char *algorithm = algorithms[format];
	if (algorithm == NULL && !p->fp8_kv) return NH_OK;
	json_t *inner = json_object();
	json_object_set_new(inner, "quant_algo", algorithm != NULL ? json_string(algorithm) : json_null());
	json_object_set_new(inner, "kv_cache_quant_algo", p->fp8_kv ? json_string("FP8") : json_null());
	/* With nothing but the cache to say, the published key config.json needs (an algorithm) has no value: only this file speaks. */
	json_t *ignore = p->ignore != NULL ? sorted(p->ignore) : NULL;
	bool uniform4 = format == MK_NVFP4 || format == MK_W4A16;
	if (ignore != NULL) json_object_set(inner, "exclude_modules", ignore);
	if (uniform4) json_object_set_new(inner, "group_size", json_integer(16));
	if (p->quantized != NULL) json_object_set(inner, "quantized_layers", p->quantized);
	*hf_json = json_pack("{s:{s:s,s:s},s:o}", "producer", "name", "nemotron.c mkmodel", "version", "1", "quantization", inner);
	if (algorithm != NULL) {
		json_t *c = json_pack("{s:s,s:s,s:{s:s,s:s}}", "quant_method", "modelopt", "quant_algo", algorithm, "producer", "name",
		    "nemotron.c mkmodel", "version", "1");
		if (ignore != NULL) json_object_set(c, "ignore", ignore);
		if (p->fp8_kv) json_object_set_new(c, "kv_cache_scheme", json_pack("{s:b,s:i,s:s}", "dynamic", 0, "num_bits", 8, "type", "float"));
		if (p->quantized != NULL) json_object_set(c, "quantized_layers", p->quantized);
		else json_object_set_new(c, "config_groups", group(format == MK_FP8 ? 8 : 4, format != MK_W4A16));
		*config_json = c;
	}
	json_decref(ignore);
	return *hf_json == NULL || (algorithm != NULL && *config_json == NULL) ? ERR_NOMEM(e) : NH_OK;
}
