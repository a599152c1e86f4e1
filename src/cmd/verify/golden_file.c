/* SPDX-License-Identifier: Apache-2.0
 * golden_file.c: reads nemotron-golden/1, generated entries and teacher-forced text, whole-file or inside a golden.
 */
#include "cmd/verify/golden_file.h"

#include <stdio.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"

static const char *text_at(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static nh_status bad(const golden *g, const char *entry, const char *key, const char *expected, nh_error *e)
{
	return ERR(e, NH_ERR_FORMAT, "%s: %s: %s: expected %s", g->path, entry, key, expected);
}

static nh_status read_ids(const golden *g, const char *entry, const json_t *o, const char *key, int32_t **ids, size_t *count, nh_error *e)
{
	const json_t *a = json_object_get(o, key);
	if (!json_is_array(a) || json_array_size(a) == 0) return bad(g, entry, key, "a list of token ids", e);
	*count = json_array_size(a);
	*ids = mem_array(*count, sizeof **ids);
	if (!*ids) return ERR_NOMEM(e);
	for (size_t i = 0; i < *count; i++) {
		const json_t *v = json_array_get(a, i);
		if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
			return bad(g, entry, key, "token ids from 0 up", e);
		(*ids)[i] = (int32_t)json_integer_value(v);
	}
	return NH_OK;
}

/* [[id, log-probability], ...]; more than are kept are dropped from the end. Only the first position of a text, which nothing precedes, may
 * have no list: a step that compares nothing would pass. */
static nh_status read_top(
    const golden *g, const char *entry, const char *key, const json_t *list, bool optional, golden_step *s, nh_error *e)
{
	s->margin = -1;
	if (optional && json_is_null(list)) return NH_OK;
	if (!json_is_array(list) || (!optional && json_array_size(list) == 0)) return bad(g, entry, key, "a list of pairs at each step", e);
	for (size_t i = 0; i < json_array_size(list) && s->count < GOLDEN_TOP; i++) {
		const json_t *pair = json_array_get(list, i), *id = json_array_get(pair, 0), *lp = json_array_get(pair, 1);
		if (json_array_size(pair) != 2 || !json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX ||
		    !jsn_is_number(lp))
			return bad(g, entry, key, "pairs of id and log-probability", e);
		s->top[s->count++] = (golden_top){(int32_t)json_integer_value(id), jsn_number(lp)};
	}
	return NH_OK;
}

static nh_status read_steps(
    const golden *g, golden_entry *x, const json_t *o, const char *key, size_t want, bool first_optional, nh_error *e)
{
	const json_t *lists = json_object_get(o, key), *margins = json_object_get(o, "top2_margin");
	x->steps = mem_array(want, sizeof *x->steps);
	if (!x->steps) return ERR_NOMEM(e);
	if (!json_is_array(lists) || json_array_size(lists) != want) return bad(g, x->name, key, "one list a token", e);
	if (margins && json_array_size(margins) != want) return bad(g, x->name, "top2_margin", "one number a token", e);
	for (size_t i = 0; i < want; i++) {
		TRY(read_top(g, x->name, key, json_array_get(lists, i), first_optional && i == 0, &x->steps[i], e));
		if (margins) x->steps[i].margin = jsn_number(json_array_get(margins, i));
	}
	return NH_OK;
}

/* {prompt_token_ids, prompt_topk} inside a golden, or {prompt_token_ids, logprobs, argmax_after, margin_after} as a file of its own. */
static nh_status read_forced(golden *g, const json_t *o, nh_error *e)
{
	golden_entry *x = &g->forced;
	const json_t *lps = json_object_get(o, "logprobs");
	x->name = json_is_string(json_object_get(o, "name")) ? text_at(o, "name") : "teacher_forced";
	TRY(read_ids(g, x->name, o, "prompt_token_ids", &x->prompt, &x->prompt_tokens, e));
	if (!lps) return read_steps(g, x, o, "prompt_topk", x->prompt_tokens, true, e);
	const json_t *best = json_object_get(o, "argmax_after");
	x->has_logprobs = true;
	x->steps = mem_array(x->prompt_tokens, sizeof *x->steps);
	if (!x->steps) return ERR_NOMEM(e);
	if (json_array_size(lps) != x->prompt_tokens) return bad(g, x->name, "logprobs", "one number a token", e);
	for (size_t i = 1; i < x->prompt_tokens; i++) {
		golden_step *s = &x->steps[i];
		if (!jsn_is_number(json_array_get(lps, i))) return bad(g, x->name, "logprobs", "numbers", e);
		s->top[0] = (golden_top){x->prompt[i], jsn_number(json_array_get(lps, i))};
		s->top[1].id = best ? (int32_t)json_integer_value(json_array_get(best, i - 1)) : -1; /* the arg-max before this token */
		s->count = 1;
		s->margin = jsn_number(json_array_get(json_object_get(o, "margin_after"), i - 1));
	}
	return NH_OK;
}

static nh_status read_gate(golden *g, nh_error *e)
{
	const json_t *gate = json_object_get(g->document, "gate");
	const char *kind = text_at(gate, "kind");
	g->tolerance = GOLDEN_TOLERANCE;
	if (!gate) { /* teacher files have none: without rounding they are exact, else a distance */
		g->gate = strcmp(g->numerics.rounding, "none") == 0 ? GOLDEN_EXACT : GOLDEN_DISTANCE;
		return NH_OK;
	}
	if (strcmp(kind, "exact") == 0) g->gate = GOLDEN_EXACT;
	else if (strcmp(kind, "strict") == 0) g->gate = GOLDEN_STRICT;
	else if (strcmp(kind, "distance") == 0) g->gate = GOLDEN_DISTANCE;
	else return ERR(e, NH_ERR_FORMAT, "%s: gate.kind: is \"%.40s\", expected exact, strict or distance", g->path, kind);
	g->profiles = json_object_get(gate, "profiles");
	TRY(jsn_get_real(gate, g->path, "tolerance_log_probability", GOLDEN_TOLERANCE, &g->tolerance, e));
	if (g->tolerance > 0 && g->tolerance <= GOLDEN_TOLERANCE) return NH_OK; /* a golden may be stricter, never laxer */
	return ERR(e, NH_ERR_FORMAT, "%s: gate.tolerance_log_probability: is %g, expected a number > 0 and <= %g", g->path, g->tolerance,
	    GOLDEN_TOLERANCE);
}

static nh_status read_head(golden *g, nh_error *e)
{
	const json_t *d = g->document, *oracle = json_object_get(d, "oracle"), *n = json_object_get(d, "numerics"),
	             *s = json_object_get(d, "sampling");
	if (strcmp(text_at(d, "schema"), "nemotron-golden/1") != 0)
		return ERR(e, NH_ERR_FORMAT, "%s: schema: is \"%.40s\", expected \"nemotron-golden/1\"", g->path, text_at(d, "schema"));
	snprintf(g->oracle_text, sizeof g->oracle_text, "%s %s", text_at(oracle, "name"), text_at(oracle, "version"));
	g->oracle = g->oracle_text;
	g->numerics = (nh_profile){.size = sizeof g->numerics,
	    .name = "",
	    .rounding = text_at(n, "rounding"),
	    .w4a4 = text_at(n, "w4a4"),
	    .fp8_attention = text_at(n, "fp8_attention"),
	    .fp8_sums = text_at(n, "fp8_sums"),
	    .router_weight = text_at(n, "router_weight")};
	if (!*g->numerics.rounding) return ERR(e, NH_ERR_FORMAT, "%s: numerics.rounding: absent, expected the oracle's rounding", g->path);
	g->max_tokens = 0;
	TRY(jsn_get_int(s, g->path, "max_tokens", 0, 0, INT32_MAX, &g->max_tokens, e));
	TRY(jsn_get_bool(s, g->path, "ignore_eos", false, &g->ignore_end, e));
	return read_gate(g, e);
}

nh_status golden_load(golden *g, const char *path, nh_error *e)
{
	memset(g, 0, sizeof *g);
	g->path = path;
	TRY(jsn_load_path(&g->document, path, JSON_LIMIT_LARGE, e));
	TRY(read_head(g, e));
	const json_t *list = json_object_get(g->document, "entries"), *forced = json_object_get(g->document, "teacher_forced");
	if (strcmp(text_at(g->document, "kind"), "teacher-forced") == 0) return read_forced(g, g->document, e);
	if (!json_is_array(list)) return ERR(e, NH_ERR_FORMAT, "%s: entries: expected a list", path);
	g->entries = mem_array(json_array_size(list), sizeof *g->entries);
	if (!g->entries) return ERR_NOMEM(e);
	for (; g->entry_count < json_array_size(list);) {
		const json_t *o = json_array_get(list, g->entry_count);
		golden_entry *x = &g->entries[g->entry_count++];
		x->name = json_is_string(json_object_get(o, "name")) ? text_at(o, "name") : "?";
		TRY(read_ids(g, x->name, o, "prompt_token_ids", &x->prompt, &x->prompt_tokens, e));
		TRY(read_ids(g, x->name, o, "token_ids", &x->ids, &x->tokens, e));
		TRY(read_steps(g, x, o, "topk", x->tokens, false, e));
	}
	return forced ? read_forced(g, forced, e) : NH_OK;
}

static void entry_free(golden_entry *x)
{
	mem_free(x->prompt);
	mem_free(x->ids);
	mem_free(x->steps);
}

void golden_free(golden *g)
{
	for (size_t i = 0; i < g->entry_count; i++) entry_free(&g->entries[i]);
	entry_free(&g->forced);
	mem_free(g->entries);
	json_decref(g->document);
	memset(g, 0, sizeof *g);
}

static nh_status same_file(
    const char *path, const nh_model *model, const char *name, const char *digest, nh_progress_fn progress, void *user, nh_error *e)
{
	for (size_t i = 0; i < nh_model_file_count(model); i++) {
		if (strcmp(nh_model_file_name(model, i), name) != 0) continue;
		char hex[65];
		TRY(nh_model_file_sha256(model, i, hex, progress, user, e));
		if (strcmp(hex, digest) == 0) return NH_OK;
		return ERR(e, NH_ERR_CONFIG, "%s: made from another checkpoint: %s has SHA-256 %.16s..., the golden says %.16s...", path, name, hex,
		    digest);
	}
	return ERR(e, NH_ERR_CONFIG, "%s: made from another checkpoint: it names %s, which the model does not have", path, name);
}

static bool is_shard(const char *name)
{
	size_t n = strlen(name);
	return n > 12 && strcmp(name + n - 12, ".safetensors") == 0;
}

nh_status golden_same_files(const char *path, const json_t *m, const nh_model *model, nh_progress_fn progress, void *user, nh_error *e)
{
	const json_t *files = json_object_get(m, "files");
	if (!files) files = json_object_get(m, "sha256");
	const char *config = text_at(m, "config_sha256"), *name;
	json_t *digest;
	if (*config) TRY(same_file(path, model, "config.json", config, progress, user, e));
	json_object_foreach((json_t *)(uintptr_t)files, name, digest)
	    TRY(same_file(path, model, name, json_string_value(digest) ? json_string_value(digest) : "", progress, user, e));
	for (size_t i = 0; i < nh_model_file_count(model); i++)
		if (is_shard(nh_model_file_name(model, i)) && !json_object_get(files, nh_model_file_name(model, i)))
			return ERR(e, NH_ERR_CONFIG, "%s: model.files: has no SHA-256 of %s, which the model has", path, nh_model_file_name(model, i));
	return NH_OK;
}
