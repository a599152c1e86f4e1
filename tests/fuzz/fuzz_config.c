/* SPDX-License-Identifier: Apache-2.0
 * fuzz_config.c: any bytes as config.json (and as generation_config.json next to it). What is accepted must be consistent: these
 * numbers size allocations.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/config.h"
#include "fuzz_file.h"
#include "model/nemotron_h/nm_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layer(const nm_layer_config *l)
{
	const nm_mamba_dims *m = &l->mamba;
	const nm_attn_dims *a = &l->attn;
	const nm_moe_dims *x = &l->moe;
	if (l->kind == NM_MAMBA && (m->heads < 1 || m->heads % m->groups || m->channels != m->heads * m->head_dim + 2 * m->groups * m->state))
		abort();
	if (l->kind == NM_ATTN && (a->heads < 1 || a->heads % a->kv_heads || a->head_dim < 1 || a->window < 0)) abort();
	if (l->kind == NM_MLP && l->mlp.width < 1) abort();
	if (l->kind == NM_MOE && (x->experts < x->chosen || x->chosen < 1 || x->experts % x->n_group || x->in_width < 1 || x->width < 1))
		abort();
}

/* The same bytes as files. */
static void as_files(const uint8_t *data, size_t size, const json_t *v)
{
	char path[40];
	nh_error e;
	generation g;
	json_t *again;
	int fd = fuzz_file(path, data, size);
	if (config_load(&again, path, &e) == NH_OK) {
		if (!json_equal(again, v)) abort();
		json_decref(again);
	}
	generation_load(&g, v, "fuzz", path, &e);
	generation_load(&g, v, "fuzz", NULL, &e);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v;
	nh_error e;
	nm_config c;
	generation g;
	size_t live = mem_live();
	if (jsn_load_text(&v, (const char *)data, size, "fuzz", &e) != NH_OK) return 0;
	if (nm_config_read(&c, v, "fuzz", NULL, &e) == NH_OK) {
		if (c.layers < 1 || c.layers > NM_MAX_LAYERS || strlen(c.pattern) != (size_t)c.layers || c.chunk < 1 || c.vocab < 1) abort();
		for (int i = 0; i < c.layers; i++) check_layer(&c.layer[i]);
		for (int i = 0; i < c.mtp_inner; i++) check_layer(&c.mtp_layer[i]);
		if (nm_config_state_bytes(&c) >> 60 || nm_config_kv_elements(&c) >> 60) abort();
		if (nm_config_count(&c, NM_MAMBA) + nm_config_count(&c, NM_ATTN) + nm_config_count(&c, NM_MLP) + nm_config_count(&c, NM_MOE) !=
		    c.layers)
			abort();
		if (nm_config_mtp_kv_elements(&c) >> 60) abort();
		nm_config_deinit(&c);
	}
	if (generation_read(&g, v, "fuzz", v, "fuzz", &e) == NH_OK && (g.end_count < 0 || g.end_count > GENERATION_MAX_END)) abort();
	as_files(data, size, v);
	json_decref(v);
	if (mem_live() != live) abort();
	return 0;
}
