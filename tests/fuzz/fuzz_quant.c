/* SPDX-License-Identifier: Apache-2.0
 * fuzz_quant.c: any bytes as config.json with a quantization_config; a key "hf" in it stands for hf_quant_config.json. Each name that
 * occurs, and some that do not, is resolved.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void resolve(const quant_config *q, const char *name)
{
	quant_rule r;
	nh_error e;
	if (quant_resolve(q, name, &r, &e) != NH_OK) return;
	if ((unsigned)r.scheme >= NUM_SCHEME_COUNT || !*r.why) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"lm_head", "backbone.layers.1.mixer.experts.12.up_proj", "model.layers.5.mixer.k_proj",
	    "backbone.layers.0.mixer.qkv_proj", "mtp.layers.0.eh_proj", "", ".", "backbone.", "x.experts.", ".experts.0", "experts"};
	json_t *v;
	nh_error e;
	quant_config *q;
	num_scheme scheme;
	size_t live = mem_live();
	if (jsn_load_text(&v, (const char *)data, size, "fuzz", &e) != NH_OK) return 0;
	if (quant_open(&q, v, "fuzz", json_object_get(v, "hf"), "fuzz hf", &e) == NH_OK) {
		for (size_t i = 0; i < ARRAY_LEN(names); i++) resolve(q, names[i]);
		for (size_t i = 0; i < quant_layers(q) && i < 50; i++) resolve(q, quant_layer(q, i, &scheme));
		for (size_t i = 0; i < quant_exclusions(q) && i < 50; i++) resolve(q, quant_exclusion(q, i));
		quant_close(q);
	}
	json_decref(v);
	if (mem_live() != live) abort();
	return 0;
}
