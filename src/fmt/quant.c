/* SPDX-License-Identifier: Apache-2.0
 * quant.c: resolution: which rule decides a module. Reading the documents is quant_read.c.
 * A published map has up to 50,000 keys, so lookups are binary searches over names whose style prefix is cut off.
 */
#include "fmt/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "fmt/quant_impl.h"

static const char *const STYLES[] = {"model.backbone.", "backbone.", "model."};

const char *quant_plain_name(const char *module)
{
	for (size_t i = 0; i < ARRAY_LEN(STYLES); i++)
		if (strncmp(module, STYLES[i], strlen(STYLES[i])) == 0) return module + strlen(STYLES[i]);
	return module;
}

/* Modules outside the tree: a pattern "model.*" must not reach them. */
static bool is_outside(const char *plain) { return strncmp(plain, "lm_head", 7) == 0 || strncmp(plain, "mtp", 3) == 0; }

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* One bracket expression at p ("[..."): its length, or 0 when it is not closed (then '[' is itself). */
static size_t bracket(const char *p, char c, bool *hit)
{
	size_t i = 1;
	bool negate = p[i] == '!', in = false;
	i += negate;
	size_t first = i;
	for (; p[i] && (p[i] != ']' || i == first); i++) {
		if (p[i + 1] == '-' && p[i + 2] && p[i + 2] != ']') {
			in = in || (c >= p[i] && c <= p[i + 2]);
			i += 2;
		} else in = in || p[i] == c;
	}
	if (!p[i]) return 0;
	*hit = in != negate;
	return i + 1;
}

/* Shell wildcards over the whole name; one backtracking point, so the time is at most |pattern| * |name|. */
static bool wild(const char *p, const char *s)
{
	const char *star = NULL, *retry = NULL;
	while (*s) {
		bool hit = false;
		size_t n = *p == '[' ? bracket(p, *s, &hit) : 0;
		if (n == 0) {
			n = *p != 0;
			hit = *p == '?' || (*p && *p == *s);
		}
		if (*p == '*') {
			star = ++p;
			retry = s;
		} else if (hit) {
			p += n;
			s++;
		} else if (star) {
			p = star;
			s = ++retry;
		} else return false;
	}
	while (*p == '*') p++;
	return *p == 0;
}

/* pattern[0..n) somewhere in s, with no number of s cut at either end. */
static bool inside(const char *pattern, size_t n, const char *s)
{
	for (const char *at = s; n && (at = memmem(at, strlen(at), pattern, n)) != NULL; at++) {
		bool cut_left = at > s && digit(at[-1]) && digit(pattern[0]);
		bool cut_right = digit(at[n]) && digit(pattern[n - 1]);
		if (!cut_left && !cut_right) return true;
	}
	return false;
}

static bool matches(const char *pattern, const char *name)
{
	size_t n = strlen(pattern);
	if (inside(pattern, n, name)) return true;
	if (!strpbrk(pattern, "*?[")) return false;
	if (wild(pattern, name)) return true;
	bool subtree =
	    n >= 2 && pattern[n - 1] == '*' && pattern[n - 2] != '.' && !strpbrk(pattern, "?[") && memchr(pattern, '*', n - 1) == NULL;
	return subtree && inside(pattern, n - 1, name); /* "foo" alone; "foo.*" is in "foo*" */
}

bool quant_excludes(const char *pattern, const char *module)
{
	const char *plain = quant_plain_name(module), *cut = quant_plain_name(pattern);
	char name[QUANT_NAME_MAX + 32];
	if (!*pattern || strlen(plain) > QUANT_NAME_MAX) return false;
	if (is_outside(plain)) return matches(pattern, plain) || (cut != pattern && is_outside(cut) && matches(cut, plain));
	/* A plain path with a prefix can only match from the front, in whatever style it is written: the common case, and the cheap one. */
	if (cut != pattern && !strpbrk(cut, "*?[")) {
		size_t n = strlen(cut);
		return n && strncmp(cut, plain, n) == 0 && !(digit(cut[n - 1]) && digit(plain[n]));
	}
	if (matches(pattern, plain)) return true;
	for (size_t i = 0; i < ARRAY_LEN(STYLES); i++) {
		snprintf(name, sizeof name, "%s%s", STYLES[i], plain);
		if (matches(pattern, name)) return true;
	}
	return false;
}

static int by_name(const void *key, const void *item) { return strcmp(key, ((const quant_entry *)item)->name); }

static const quant_entry *find(const quant_config *q, const char *name)
{
	return q->layer_count ? bsearch(name, q->layers, q->layer_count, sizeof *q->layers, by_name) : NULL;
}

/* Collects schemes that must be one. */
typedef struct agreement {
	const quant_entry *first;
	const quant_entry *other; /* one that disagrees */
} agreement;

static void agree(agreement *a, const quant_entry *x)
{
	if (!x) return;
	if (!a->first) a->first = x;
	else if (x->scheme != a->first->scheme && !a->other) a->other = x;
}

static void agree_sibling(agreement *a, const quant_config *q, const char *parent, size_t n, const char *leaf)
{
	char name[QUANT_NAME_MAX + 32];
	snprintf(name, sizeof name, "%.*s.%s", (int)n, parent, leaf);
	agree(a, find(q, name));
}

/* All keys below "parent." (n characters of parent). */
static void agree_below(agreement *a, const quant_config *q, const char *parent, size_t n)
{
	char low[QUANT_NAME_MAX + 32];
	snprintf(low, sizeof low, "%.*s.", (int)n, parent);
	size_t lo = 0, hi = q->layer_count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (strcmp(q->layers[mid].name, low) < 0) lo = mid + 1;
		else hi = mid;
	}
	for (; lo < q->layer_count && strncmp(q->layers[lo].name, low, n + 1) == 0; lo++) agree(a, &q->layers[lo]);
}

static nh_status decide(const quant_config *q, const agreement *a, const char *module, const char *rule, quant_rule *out, nh_error *e)
{
	if (a->other)
		return ERR(e, NH_ERR_CONFIG, "%s: quantized_layers: %.120s follows from %.120s (%s) and %.120s (%s), which must agree", q->source,
		    module, a->first->name, num_scheme_name(a->first->scheme), a->other->name, num_scheme_name(a->other->scheme));
	out->scheme = a->first->scheme;
	snprintf(out->why, sizeof out->why, "quantized_layers: %s %.100s", rule, a->first->name);
	return NH_OK;
}

static const char *const GROUPS[][4] = {{"q_proj", "k_proj", "v_proj", NULL}, {"gate_proj", "up_proj", NULL, NULL}};
static const char *const FUSED[] = {"qkv_proj", "gate_up_proj"};

/* Rule 3. The dense MLP and the experts of this family have no gate_proj, so the second group is for names only. */
static void agree_group(agreement *a, const quant_config *q, const char *plain, size_t parent, const char *leaf, bool fused)
{
	for (size_t g = 0; g < ARRAY_LEN(GROUPS); g++) {
		bool member = fused && strcmp(leaf, FUSED[g]) == 0;
		for (size_t i = 0; GROUPS[g][i]; i++) member = member || (!fused && strcmp(leaf, GROUPS[g][i]) == 0);
		for (size_t i = 0; member && GROUPS[g][i]; i++) agree_sibling(a, q, plain, parent, GROUPS[g][i]);
	}
}

static nh_status resolve_listed(const quant_config *q, const char *plain, quant_rule *out, nh_error *e)
{
	const char *dot = strrchr(plain, '.'), *leaf = dot ? dot + 1 : plain;
	size_t parent = dot ? (size_t)(dot - plain) : 0;
	agreement group = {0}, whole = {0}, below = {0}, beside = {0}, shards = {0};
	const quant_entry *exact = find(q, plain);
	if (parent) agree_group(&group, q, plain, parent, leaf, false);
	if (group.other) return decide(q, &group, plain, "group", out, e);
	if (exact) {
		agreement a = {.first = exact};
		return decide(q, &a, plain, "exact key", out, e);
	}
	if (group.first) return decide(q, &group, plain, "same group as", out, e);
	const char *experts = strstr(plain, ".experts.");
	size_t n = experts ? (size_t)(experts - plain) + 8 : strlen(plain);
	bool routed = experts || (n > 8 && strcmp(plain + n - 8, ".experts") == 0);
	if (experts) {
		char name[QUANT_NAME_MAX + 32];
		snprintf(name, sizeof name, "%.*s", (int)n, plain);
		agree(&whole, find(q, name));
		if (whole.first) return decide(q, &whole, plain, "key of the whole", out, e);
	}
	agree_below(&below, q, plain, n);
	if (below.first) return decide(q, &below, plain, "from", out, e);
	if (routed) {
		static const char *const LEAVES[] = {"up_proj", "down_proj", "gate_proj"};
		for (size_t i = 0; i < ARRAY_LEN(LEAVES); i++) agree_sibling(&beside, q, plain, n - 8, LEAVES[i]);
		if (beside.first) return decide(q, &beside, plain, "parent's", out, e);
	}
	if (parent) agree_group(&shards, q, plain, parent, leaf, true);
	if (shards.first) return decide(q, &shards, plain, "shard", out, e);
	snprintf(out->why, sizeof out->why, "quantized_layers: not listed");
	return NH_OK;
}

/* One algorithm for the whole model never means these: no checkpoint quantises them that way. */
static bool never_quantised(const char *plain)
{
	static const char *const LEAVES[] = {
	    "embeddings", "embed_tokens", "conv1d", "gate", "norm", "norm_f", "enorm", "hnorm", "final_layernorm"};
	const char *dot = strrchr(plain, '.'), *leaf = dot ? dot + 1 : plain;
	for (size_t i = 0; i < ARRAY_LEN(LEAVES); i++)
		if (strcmp(leaf, LEAVES[i]) == 0) return true;
	return false;
}

nh_status quant_resolve(const quant_config *q, const char *module, quant_rule *out, nh_error *e)
{
	const char *plain = quant_plain_name(module);
	memset(out, 0, sizeof *out);
	out->scheme = NUM_SCHEME_NONE;
	if (strlen(plain) > QUANT_NAME_MAX) return ERR(e, NH_ERR_LIMIT, "%.60s...: module name over %d bytes", module, QUANT_NAME_MAX);
	if (!q->source || (!q->mixed && q->all == NUM_SCHEME_NONE)) {
		snprintf(out->why, sizeof out->why, "no quantisation");
		return NH_OK;
	}
	for (size_t i = 0; i < q->pattern_count; i++)
		if (quant_excludes(q->patterns[i], module)) {
			snprintf(out->why, sizeof out->why, "ignore: pattern %.150s", q->patterns[i]);
			return NH_OK;
		}
	if (q->mixed) return resolve_listed(q, plain, out, e);
	if (never_quantised(plain)) {
		snprintf(out->why, sizeof out->why, "kind is never quantised");
		return NH_OK;
	}
	out->scheme = q->all;
	snprintf(out->why, sizeof out->why, "quant_algo: %s", quant_algorithm(q));
	return NH_OK;
}

num_dtype quant_kv(const quant_config *q) { return q->kv; }

const char *quant_source(const quant_config *q) { return q->source; }

const char *quant_algorithm(const quant_config *q)
{
	if (q->mixed) return "MIXED_PRECISION";
	switch (q->all) {
	case NUM_SCHEME_FP8: return "FP8";
	case NUM_SCHEME_NVFP4: return "NVFP4";
	case NUM_SCHEME_W4A16: return "W4A16_NVFP4";
	default: return "none";
	}
}

size_t quant_layers(const quant_config *q) { return q->layer_count; }

const char *quant_layer(const quant_config *q, size_t i, num_scheme *scheme)
{
	if (i >= q->layer_count) return NULL;
	*scheme = q->layers[i].scheme;
	return q->layers[i].name;
}

size_t quant_exclusions(const quant_config *q) { return q->pattern_count; }

const char *quant_exclusion(const quant_config *q, size_t i) { return i < q->pattern_count ? q->patterns[i] : NULL; }
