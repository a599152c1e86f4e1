/* SPDX-License-Identifier: Apache-2.0
 * qz_config.c: the documents of the result (model.md 2.5): both spellings of the quantisation, the index, and the files that are copied. config.json is
 * the source's text with one key added, so that what this program does not know stays as it was. Knows no value of a tensor.
 * Breaks first: both documents say the same, and config.json is written last: without it a folder is no model.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/quantize/qz.h"
#include "nh/nh_version.h"

static const char *algorithm(num_scheme s) { return s == NUM_SCHEME_FP8 ? "FP8" : s == NUM_SCHEME_NVFP4 ? "NVFP4" : "W4A16_NVFP4"; }

static const char *whole_algorithm(const qz_options *o)
{
	if (o->format == QZ_MIXED) return "MIXED_PRECISION";
	return o->format == QZ_FP8 ? "FP8" : o->weight_only ? "W4A16_NVFP4" : "NVFP4";
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Modules that stay as they are and that published lists name, in byte order, and the MTP block. NULL when out of memory. */
static json_t *exclusions(const qz_plan *p)
{
	const char **names = mem_array(p->count + 1, sizeof *names);
	json_t *list = names != NULL ? json_array() : NULL;
	size_t n = 0;
	for (size_t i = 0; names != NULL && i < p->count; i++) {
		const qz_item *it = &p->items[i];
		bool named = it->module != NULL && it->role != QZ_KEEP && (it->role != QZ_EMBED || p->o->format == QZ_MIXED);
		if (named && it->scheme == NUM_SCHEME_NONE) names[n++] = it->module;
	}
	if (n > 0) qsort(names, n, sizeof *names, by_text);
	for (size_t i = 0; list != NULL && i < n; i++) json_array_append_new(list, json_string(names[i]));
	if (list != NULL) json_array_append_new(list, json_string("mtp*"));
	mem_free(names);
	return list;
}

/* Module to algorithm, as MIXED_PRECISION has it. */
static json_t *quantized_layers(const qz_plan *p)
{
	json_t *map = json_object();
	for (size_t i = 0; map != NULL && i < p->count; i++) {
		const qz_item *it = &p->items[i];
		if (it->scheme == NUM_SCHEME_NONE) continue;
		json_t *v = json_pack("{s:s}", "quant_algo", algorithm(it->scheme));
		if (it->scheme != NUM_SCHEME_FP8) json_object_set_new(v, "group_size", json_integer(16));
		json_object_set_new(map, it->module, v);
	}
	return map;
}

static json_t *group(const qz_options *o)
{
	int bits = o->format == QZ_FP8 ? 8 : 4;
	json_t *spec = json_pack("{s:b,s:i,s:s}", "dynamic", 0, "num_bits", bits, "type", "float");
	if (bits == 4) json_object_set_new(spec, "group_size", json_integer(16));
	json_t *g = json_object();
	if (!o->weight_only) json_object_set(g, "input_activations", spec);
	json_object_set(g, "weights", spec);
	json_object_set_new(g, "targets", json_pack("[s]", "Linear"));
	json_decref(spec);
	return json_pack("{s:o}", "group_0", g);
}

static json_t *producer(void) { return json_pack("{s:s,s:s}", "name", QZ_PRODUCER, "version", nh_version_text()); }

/* What stands in config.json below quantization_config, and the whole hf_quant_config.json. */
static nh_status spell(const qz_plan *p, json_t **config, json_t **hf, nh_error *e)
{
	const qz_options *o = p->o;
	json_t *ignore = exclusions(p), *map = o->format == QZ_MIXED ? quantized_layers(p) : NULL;
	json_t *c = json_object(), *inner = json_object();
	if (map == NULL) json_object_set_new(c, "config_groups", group(o));
	json_object_set(c, "ignore", ignore);
	if (o->kv_fp8) json_object_set_new(c, "kv_cache_scheme", json_pack("{s:b,s:i,s:s}", "dynamic", 0, "num_bits", 8, "type", "float"));
	json_object_set_new(c, "producer", producer());
	json_object_set_new(c, "quant_algo", json_string(whole_algorithm(o)));
	json_object_set_new(c, "quant_method", json_string("modelopt"));
	if (map != NULL) json_object_set(c, "quantized_layers", map);
	json_object_set_new(inner, "quant_algo", json_string(whole_algorithm(o)));
	json_object_set_new(inner, "kv_cache_quant_algo", o->kv_fp8 ? json_string("FP8") : json_null());
	json_object_set(inner, "exclude_modules", ignore);
	if (o->format == QZ_NVFP4) json_object_set_new(inner, "group_size", json_integer(16));
	if (map != NULL) json_object_set(inner, "quantized_layers", map);
	*config = c;
	*hf = json_pack("{s:o,s:o}", "producer", producer(), "quantization", inner);
	bool ok = c != NULL && *hf != NULL && ignore != NULL && (o->format != QZ_MIXED || map != NULL);
	json_decref(ignore);
	json_decref(map);
	return ok ? NH_OK : ERR_NOMEM(e);
}

static nh_status put(const char *dir, const char *name, const char *text, size_t len, nh_error *e)
{
	char *path = path_join(dir, name);
	if (path == NULL) return ERR_NOMEM(e);
	file_writer w;
	nh_status s = file_writer_open(&w, path, e);
	mem_free(path);
	if (s != NH_OK) return s;
	file_writer_put(&w, text, len);
	return file_writer_commit(&w, e);
}

static nh_status put_json(const char *dir, const char *name, const json_t *v, nh_error *e)
{
	char *text = json_dumps(v, JSON_INDENT(1));
	if (text == NULL) return ERR_NOMEM(e);
	nh_status s = put(dir, name, text, strlen(text), e);
	free(text);
	return s;
}

/* The source's config.json with the key put in front of its last brace. A null of that name, which some files have, would stand there twice: such a
 * document is written anew. */
static nh_status write_config(const char *in, const char *out, json_t *quant, nh_error *e)
{
	buf text = {0}, whole = {0};
	json_t *doc = NULL;
	char *path = path_join(in, "config.json"), *words = NULL;
	nh_status s = path != NULL ? file_read(path, JSON_LIMIT_CONFIG, &text, e) : ERR_NOMEM(e);
	if (s == NH_OK) s = jsn_load_text(&doc, text.data, text.len, path, e);
	if (s == NH_OK && json_object_get(doc, "quantization_config") != NULL) {
		json_object_set(doc, "quantization_config", quant);
		s = put_json(out, "config.json", doc, e);
	} else if (s == NH_OK) {
		size_t brace = text.len;
		while (text.data[brace - 1] != '}') brace--; /* it is an object, so there is one */
		size_t end = brace - 1;
		while (end > 0 && strchr(" \t\r\n", text.data[end - 1]) != NULL) end--;
		words = json_dumps(quant, JSON_INDENT(1));
		buf_append(&whole, text.data, end);
		buf_str(&whole, text.data[end - 1] == '{' ? "\n" : ",\n");
		buf_str(&whole, " \"quantization_config\": ");
		buf_str(&whole, words != NULL ? words : "");
		buf_str(&whole, "\n}\n");
		s = words == NULL || whole.failed ? ERR_NOMEM(e) : put(out, "config.json", whole.data, whole.len, e);
	}
	free(words);
	json_decref(doc);
	buf_deinit(&text);
	buf_deinit(&whole);
	mem_free(path);
	return s;
}

/* What lies in the finished files. */
static nh_status write_index(const char *out, nh_error *e)
{
	st_file *f;
	file_list l = {0};
	json_t *map = json_object();
	json_int_t total = 0;
	nh_status s = file_list_dir(&l, out, e);
	for (size_t i = 0; s == NH_OK && i < l.count; i++) {
		size_t n = strlen(l.names[i]);
		if (n < 12 || strcmp(l.names[i] + n - 12, ".safetensors") != 0) continue;
		char *path = path_join(out, l.names[i]);
		s = path != NULL ? st_file_open(&f, path, e) : ERR_NOMEM(e);
		mem_free(path);
		if (s != NH_OK) break;
		for (size_t t = 0; t < st_file_count(f); t++) {
			json_object_set_new(map, st_file_at(f, t)->name, json_string(l.names[i]));
			total += (json_int_t)st_file_at(f, t)->bytes;
		}
		st_file_close(f);
	}
	file_list_free(&l);
	json_t *index = json_pack("{s:{s:I},s:o}", "metadata", "total_size", total, "weight_map", map);
	if (s == NH_OK) s = index != NULL ? put_json(out, ST_INDEX_NAME, index, e) : ERR_NOMEM(e);
	json_decref(index);
	return s;
}

nh_status qz_documents(const qz_plan *p, const char *in, const char *out, nh_error *e)
{
	json_t *config = NULL, *hf = NULL;
	char *index = path_join(in, ST_INDEX_NAME);
	nh_status s = index != NULL ? spell(p, &config, &hf, e) : ERR_NOMEM(e);
	if (s == NH_OK && file_exists(index)) s = write_index(out, e);
	if (s == NH_OK) s = put_json(out, "hf_quant_config.json", hf, e);
	if (s == NH_OK) s = write_config(in, out, config, e);
	json_decref(config);
	json_decref(hf);
	mem_free(index);
	return s;
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);
	return n >= m && strcmp(name + n - m, with) == 0;
}

static nh_status copy(const char *from, const char *to, nh_error *e)
{
	file_map m;
	file_writer w;
	TRY(file_map_open(&m, from, e));
	nh_status s = file_writer_open(&w, to, e);
	if (s == NH_OK) {
		file_writer_put(&w, m.data, m.size);
		s = file_writer_commit(&w, e);
	}
	file_map_close(&m);
	return s;
}

nh_status qz_copy_rest(const char *in, const char *out, nh_error *e)
{
	static const char *const weights[] = {
	    ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".gguf", ".nemo", ".onnx"};
	file_list l = {0};
	nh_status s = file_list_dir(&l, in, e);
	for (size_t i = 0; s == NH_OK && i < l.count; i++) {
		const char *name = l.names[i];
		bool skip =
		    name[0] == '.' || strcmp(name, "config.json") == 0 || strcmp(name, "hf_quant_config.json") == 0 || strcmp(name, QZ_STATE) == 0;
		for (size_t k = 0; k < ARRAY_LEN(weights); k++) skip |= ends(name, weights[k]);
		char *from = path_join(in, name), *to = path_join(out, name);
		if (from == NULL || to == NULL) s = ERR_NOMEM(e);
		else if (!skip && !file_is_dir(from)) s = copy(from, to, e);
		mem_free(from);
		mem_free(to);
	}
	file_list_free(&l);
	return s;
}
