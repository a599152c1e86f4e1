/* SPDX-License-Identifier: Apache-2.0
 * mk.h: random checkpoints in the layout of the published ones, for tests and for trying shapes. Called by the command and by test programs.
 * Knows how published files look (model.md 1, 2), not how they are read: the names and shapes here are written down a second time on
 * purpose, so that loader and writer can disagree.
 * Breaks first: same options = same bytes. A value depends on seed, tensor name and index only, never on order or shards.
 */
#ifndef MK_H
#define MK_H

#include <jansson.h>

#include "base/base_arena.h"
#include "base/base_log.h"
#include "model/nemotron_h/nm_config.h"
#include "num/num_types.h"

/* Which layers have which scheme, as published (model.md 2.6). */
#define MK_FORMAT_LIST(X)                                                                              \
	X(MK_BF16, "bf16")   /* nothing quantised */                                                       \
	X(MK_FP8, "fp8")     /* Nano FP8, Super FP8: all but attention, latent projections and head */     \
	X(MK_NVFP4, "nvfp4") /* Nano NVFP4: the same in W4A4 */                                            \
	X(MK_W4A16, "w4a16") /* the same in W4A16 */                                                       \
	X(MK_MIXED, "mixed") /* Lightning: Mamba FP8; experts, shared experts, dense layers, head W4A16 */ \
	X(MK_SUPER, "super") /* Super and Ultra NVFP4: routed experts W4A4; the rest of fp8's FP8 */

typedef enum mk_format {
#define MK_FORMAT_ENUM(name, text) name,
	MK_FORMAT_LIST(MK_FORMAT_ENUM)
#undef MK_FORMAT_ENUM
	    MK_FORMAT_COUNT
} mk_format;

typedef struct mk_options {
	mk_format format;
	uint64_t seed;
	const char *from;    /* a config.json whose keys replace the small defaults; NULL: none */
	const char *like;    /* a preset whose keys do (fmt/preset.h); NULL: none. Excludes `from`. Its values are those of load/dummy.h */
	int layers;          /* of the preset; 0: all */
	const char *pattern; /* letters; NULL: "MEM*E-", or that of `from` */
	const char *const *config; /* [config_count] "KEY=VALUE", VALUE as JSON or else a string; applied last */
	size_t config_count;
	int shards;              /* 0: by size, at most 5 GB a file; 1: one file without index */
	uint64_t shard_bytes;    /* where shards is 0: at most so many in a file; 0: MK_SHARD_BYTES */
	bool list_form;          /* layers_block_type instead of hybrid_override_pattern */
	bool latent, mtp;        /* moe_latent_size = half the hidden size; one MTP depth */
	bool puzzle;             /* block_configs with other widths, experts and windows per layer */
	bool kv_fp8, kv_bf16;    /* neither: FP8 where the format is quantised, as published */
	bool f32_params;         /* A_log, D, dt_bias and router in F32, with values that bf16 cannot hold */
	bool force;              /* write into a folder that is not empty */
	const char *tokenizer;   /* a tokenizer.json to copy; NULL: one of bytes and letter pairs is made */
	const logger *log;       /* may be NULL */
	nh_progress_fn progress; /* bytes; may be NULL */
	void *progress_user;
} mk_options;

/* Writes the folder `out`, which must not exist or be empty (see force). It appears when all of it is written. */
nh_status mk_write(const char *out, const mk_options *o, nh_error *e);

/* --- the parts; each is a file --- */

/* mk_config.c: config.json without quantization_config. */
nh_status mk_config(json_t **out, const mk_options *o, nh_error *e);

/* mk_value.c: one parameter before quantisation. Values are bf16 numbers, or f32 numbers where `wide`. */
typedef enum mk_fill { MK_MATRIX, MK_NORM, MK_A_LOG, MK_D, MK_DT_BIAS, MK_BIAS, MK_ROUTER_BIAS, MK_KV_SCALE } mk_fill;

typedef struct mk_source {
	const char *name; /* of the module (matrices) or of the tensor */
	mk_fill fill;
	int64_t n, k; /* k = 1 for vectors */
	double std;   /* MK_MATRIX */
	bool wide;    /* F32, and no value is a bf16 number */
	num_scheme scheme;
	uint64_t seed;     /* from options and name */
	double amax;       /* largest magnitude; < 0: not known yet */
	float input_scale; /* where the scheme has one */
} mk_source;

uint64_t mk_seed(uint64_t seed, const char *name);
double mk_value(const mk_source *s, uint64_t i); /* element i, row by row */
void mk_find_amax(mk_source *s);
float mk_weight_scale(const mk_source *s); /* FP8: amax / 448; FP4: amax / (6 * 448), the second-level scale */

/* mk_plan.c: all tensors of the checkpoint, in the order of the layers. */
typedef enum mk_part { MK_VALUES, MK_FP8_CODES, MK_FP4_CODES, MK_BLOCK_SCALES, MK_SCALE, MK_INPUT_SCALE } mk_part;

typedef struct mk_tensor {
	const char *name;
	mk_source *source;
	mk_part part;
	num_dtype dtype; /* of the file */
	int rank;
	int64_t shape[3];
	uint64_t bytes;
	int shard;
} mk_tensor;

typedef struct mk_plan {
	arena memory;       /* names and sources */
	mk_tensor *tensors; /* own */
	size_t count, room;
	uint64_t bytes;
	json_t *ignore;    /* own: module names that the format leaves alone; NULL for bf16 */
	json_t *quantized; /* own: module -> {quant_algo}; NULL unless the format mixes schemes */
	bool fp8_kv;
} mk_plan;

nh_status mk_plan_open(mk_plan *p, const nm_config *c, const mk_options *o, nh_error *e);
void mk_plan_close(mk_plan *p); /* safe on a zeroed one */

/* mk_quant.c: the two spellings of the quantisation, new references; *config_json is NULL where there is nothing to say. */
nh_status mk_quant(const mk_plan *p, mk_format format, json_t **config_json, json_t **hf_json, nh_error *e);

/* mk_text.c: the files beside the weights. */
nh_status mk_text_files(const char *dir, const nm_config *c, const mk_options *o, nh_error *e);
nh_status mk_put_json(const char *dir, const char *name, const json_t *v, nh_error *e);

#define MK_SHARD_BYTES 5000000000u /* of data; a tensor that is larger has a file for itself */

/* mk_tensors.c: the safetensors files and their index. */
nh_status mk_tensor_files(const char *dir, mk_plan *p, const mk_options *o, nh_error *e);

#endif
