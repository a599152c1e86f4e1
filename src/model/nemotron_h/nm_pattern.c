/* SPDX-License-Identifier: Apache-2.0
 * nm_pattern.c: letters and names of layer kinds. One table owns both, so a new kind is one line here.
 */
#include "model/nemotron_h/nm_pattern.h"

#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"

static const struct {
	char letter;
	const char *name, *other; /* other: what newer transformers write */
} KINDS[] = {
    {NM_MAMBA, "mamba", "linear_attention"},
    {NM_ATTN, "attention", "full_attention"},
    {NM_MLP, "mlp", "mlp"},
    {NM_MOE, "moe", "moe"},
};

const char *nm_kind_name(char kind)
{
	for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
		if (KINDS[i].letter == kind) return KINDS[i].name;
	return "?";
}

char nm_kind_parse(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
		if (strcmp(name, KINDS[i].name) == 0 || strcmp(name, KINDS[i].other) == 0) return KINDS[i].letter;
	return 0;
}

nh_status nm_pattern_read(const json_t *value, const char *name, const char *key, char *text, int *count, nh_error *e)
{
	char found[64];
	const char *letters = json_string_value(value);
	size_t n = letters ? json_string_length(value) : json_array_size(value);
	*count = 0;
	*text = 0;
	jsn_brief(value, found);
	if (n == 0)
		return ERR(
		    e, NH_ERR_CONFIG, "%s: %s: is %s, expected letters of M * - E or a list of mamba, attention, mlp, moe", name, key, found);
	if (n > NM_MAX_LAYERS) return ERR(e, NH_ERR_LIMIT, "%s: %s: has %zu layers, the limit is %d", name, key, n, NM_MAX_LAYERS);
	for (size_t i = 0; letters && i < n; i++) {
		text[i] = letters[i];
		if (letters[i] & 0x80 || strcmp(nm_kind_name(letters[i]), "?") == 0)
			return ERR(e, NH_ERR_CONFIG, "%s: %s: character %zu is '%c', expected one of M * - E", name, key, i,
			    letters[i] & 0x80 || !letters[i] ? '?' : letters[i]);
	}
	for (size_t i = 0; !letters && i < n; i++) {
		const char *item = json_string_value(json_array_get(value, i));
		text[i] = item ? nm_kind_parse(item) : 0;
		if (text[i]) continue;
		jsn_brief(json_array_get(value, i), found);
		return ERR(e, NH_ERR_CONFIG, "%s: %s: item %zu is %s, expected mamba, linear_attention, attention, full_attention, mlp or moe",
		    name, key, i, found);
	}
	text[n] = 0;
	*count = (int)n;
	return NH_OK;
}
