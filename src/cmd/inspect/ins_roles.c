/* SPDX-License-Identifier: Apache-2.0
 * ins_roles.c: what a module is for, by its published name (model.md 2.1), and modules put together by role and format.
 * Breaks first: each module is in exactly one role.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/inspect/ins.h"

const char *ins_role_name(ins_role role)
{
	static const char *const names[] = {
#define INS_ROLE_NAME(name, text) text,
	    INS_ROLE_LIST(INS_ROLE_NAME)
#undef INS_ROLE_NAME
	};
	return names[role];
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);
	return n >= m && strcmp(s + n - m, tail) == 0;
}

int ins_layer_of(const char *module)
{
	const char *p = strstr(module, "layers.");
	if (p == NULL || strncmp(module, "mtp.", 4) == 0 || !isdigit((unsigned char)p[7])) return -1;
	return (int)strtol(p + 7, NULL, 10);
}

ins_role ins_role_of(const char *module, bool used)
{
	if (strncmp(module, "mtp.", 4) == 0) return INS_MTP;
	if (!used) return INS_IGNORED;
	if (strstr(module, ".experts.") != NULL) return INS_ROUTED;
	if (strstr(module, "embeddings") != NULL) return INS_EMBEDDING;
	if (ends_with(module, "bias") || ends_with(module, ".weight") || ends_with(module, "_scale")) return INS_SMALL;
	if (strstr(module, ".shared_experts.") != NULL) return INS_SHARED;
	if (ends_with(module, ".in_proj") || ends_with(module, ".out_proj")) return INS_MAMBA;
	if (ends_with(module, "_latent_proj")) return INS_LATENT;
	if (ends_with(module, ".gate")) return INS_ROUTER;
	if (strcmp(module, "lm_head") == 0) return INS_HEAD;
	if (ends_with(module, ".up_proj") || ends_with(module, ".down_proj")) return INS_DENSE;
	return ends_with(module, "_proj") ? INS_ATTENTION : INS_SMALL;
}

const char *ins_format_name(num_scheme scheme, num_dtype dtype)
{
	return scheme == NUM_SCHEME_NONE ? num_dtype_name(dtype) : num_scheme_name(scheme);
}

static ins_group *group_of(inspection *i, const ins_module *m)
{
	for (size_t g = 0; g < i->group_count; g++) {
		ins_group *x = &i->groups[g];
		if (x->role == m->role && x->scheme == m->scheme && x->dtype == m->dtype) return x;
	}
	if (i->group_count == INS_MAX_GROUPS) return &i->groups[INS_MAX_GROUPS - 1];
	ins_group *x = &i->groups[i->group_count++];
	*x = (ins_group){.role = m->role, .scheme = m->scheme, .dtype = m->dtype, .rule = m->rule};
	return x;
}

static int by_role(const void *a, const void *b)
{
	const ins_group *x = a, *y = b;
	if (x->role != y->role) return x->role < y->role ? -1 : 1;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

void ins_group_all(inspection *i)
{
	for (size_t k = 0; k < i->count; k++) {
		const ins_module *m = &i->modules[k];
		ins_group *g = group_of(i, m);
		g->modules++;
		g->params += (uint64_t)m->n * (uint64_t)m->k;
		g->bytes += m->bytes;
		if (m->layer >= 0 && m->layer < NM_MAX_LAYERS) g->layers[m->layer / 8] |= (uint8_t)(1u << m->layer % 8);
		if (g->rule[0] == '\0') g->rule = m->rule;
		if (strcmp(g->rule, m->rule) != 0 && m->rule[0] != '\0') g->more_rules = true;
	}
	qsort(i->groups, i->group_count, sizeof *i->groups, by_role);
}

uint64_t ins_role_bytes(const inspection *i, ins_role role)
{
	uint64_t sum = 0;
	for (size_t g = 0; g < i->group_count; g++) sum += i->groups[g].role == role ? i->groups[g].bytes : 0;
	return sum;
}

void ins_layers_text(const ins_group *g, char *out, size_t room)
{
	size_t at = 0;
	out[0] = '\0';
	for (int i = 0; i < NM_MAX_LAYERS; i++) {
		int from = i;
		while (i < NM_MAX_LAYERS && (g->layers[i / 8] >> i % 8 & 1)) i++;
		if (i == from) continue;
		char item[32];
		int n = i - 1 > from ? snprintf(item, sizeof item, "%d-%d", from, i - 1) : snprintf(item, sizeof item, "%d", from);
		if (at + (size_t)n + 5 >= room) {
			snprintf(out + at, room - at, ",..");
			return;
		}
		at += (size_t)snprintf(out + at, room - at, "%s%s", at ? "," : "", item);
	}
}
