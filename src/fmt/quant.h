/* SPDX-License-Identifier: Apache-2.0
 * quant.h: how each linear layer of a checkpoint is stored, from config.json's quantization_config and hf_quant_config.json, and which rule said so.
 * Knows module names, no tensor: whether the file really holds the scales is the loader's ledger. Breaks first: an algorithm, cache scheme or
 * group size that is not understood must be refused by name, never read as bf16.
 */
#ifndef FMT_QUANT_H
#define FMT_QUANT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/base_status.h"
#include "num/num_types.h"

#define QUANT_GROUP 16 /* elements of an NVFP4 block scale; the only size there is */

typedef struct quant_config quant_config;

/* The decision for one module. */
typedef struct quant_rule {
	num_scheme scheme;
	char why[200]; /* "quantized_layers: exact key", "ignore: pattern mtp*", ... */
} quant_rule;

/* config: the whole config.json; hf_quant: the whole hf_quant_config.json, or NULL. Without either key the result is an unquantised model.
 * Where both exist config.json is read, and a disagreement in algorithm, cache type, group size, exclusions or layers is NH_ERR_CONFIG with the key.
 * NH_ERR_UNSUPPORTED: another method, algorithm, cache scheme or group size. Nothing is borrowed. Immutable afterwards. */
nh_status quant_open(
    quant_config **out, const json_t *config, const char *config_name, const json_t *hf_quant, const char *hf_name, nh_error *e);
void quant_close(quant_config *q); /* NULL is fine */

/* Loads hf_quant_config.json from hf_path if it is there (NULL: none) and opens. */
nh_status quant_load(quant_config **out, const json_t *config, const char *config_name, const char *hf_path, nh_error *e);

/* module: name without ".weight", e.g. "backbone.layers.3.mixer.in_proj"; the prefixes backbone., model. and model.backbone. mean the same.
 * The first rule that applies decides:
 *   1 excluded by ignore / exclude_modules            -> unquantised
 *   (one algorithm for all: that algorithm, except embeddings, router, convolution and norms)
 *   2 exact key of quantized_layers
 *   3 q_proj, k_proj, v_proj (or gate_proj, up_proj): the listed ones of the group, which must agree
 *   4 inside .experts: the key of the whole, else the experts that are listed, which must agree; keys of the module's children, which must agree
 *   5 inside .experts: the parent's up_proj, down_proj or gate_proj keys
 *   6 a fused qkv_proj or gate_up_proj: its shards; else unquantised
 * Listed layers that had to agree and do not: NH_ERR_CONFIG with both names. */
nh_status quant_resolve(const quant_config *q, const char *module, quant_rule *out, nh_error *e);

/* An exclusion pattern matches a module when it is equal, a substring that cuts no number in two ("layers.1" is not in "layers.10"), or a shell
 * wildcard (* ? [..]) over the whole name; "foo*" also as "foo" and as "foo.*". Each prefix style is tried. */
bool quant_excludes(const char *pattern, const char *module);

num_dtype quant_kv(const quant_config *q);                                    /* NUM_E4M3, or NUM_NONE: the checkpoint asks for nothing */
const char *quant_algorithm(const quant_config *q);                           /* "none", "FP8", "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION" */
const char *quant_source(const quant_config *q);                              /* name of the document that was read, NULL if none */
size_t quant_layers(const quant_config *q);                                   /* entries of quantized_layers */
const char *quant_layer(const quant_config *q, size_t i, num_scheme *scheme); /* name without its style prefix, sorted; NULL past the end */
size_t quant_exclusions(const quant_config *q);
const char *quant_exclusion(const quant_config *q, size_t i); /* as in the file; NULL past the end */

#endif
