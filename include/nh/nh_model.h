/* SPDX-License-Identifier: Apache-2.0
 * nh_model.h: a checkpoint, opened on one arm. Immutable after open; may be shared by threads, except where a function says otherwise.
 * Option and info structs carry their size, so that a program built against an older header keeps working: set it with the _init
 * function (or designated initialiser .size = sizeof) and leave unknown tails zero.
 */
#ifndef NH_MODEL_H
#define NH_MODEL_H

#include "nh_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nh_model nh_model;

typedef struct nh_model_options {
	size_t size;
	const char *cache_root;    /* Hugging Face hub cache in which org/name is looked up; NULL: only folders are understood */
	const char *arm;           /* "cpu", "ref"; NULL: the fastest arm of this build that has the profile */
	const char *numerics;      /* profile: "exact", "exact-wo", "portable", "hopper"; NULL: the arm's default */
	const char *kv_dtype;      /* "auto" (the checkpoint's), "bf16", "fp8"; NULL: auto */
	const char *chat_template; /* path of a template file used instead of the model's own; NULL: the model's */
	int32_t threads;           /* 0: the arm decides */
	bool check;                /* check the contract of every op (slow; for tests and bug reports) */
	bool profile;              /* time every op */
	nh_log_fn log;             /* NULL: silent */
	void *log_user;
	nh_log_level log_level;
	nh_progress_fn progress; /* loading; NULL: none */
	void *progress_user;
	const char
	    *load_format; /* "auto": the tensors of the files; "dummy": drawn from dummy_seed, of the shapes and formats that the configuration
	                          * gives, for trying speed: no tensor is read. NULL: auto */
	const char *like; /* NAME or NAME:FORMAT of a built-in configuration of a published shape (nh_preset_at): no file at all is needed,
	                          * path is not read, weights are dummies. There is no tokenizer and no template then. NULL: none */
	int32_t layers;   /* with like: the first so many layers, 0 all */
	bool uniform_routing; /* experts are drawn, uniformly and independently, instead of routed; for measurements. Arms with host memory */
	uint64_t dummy_seed;
	const char
	    *isa; /* kernels of a host arm: "portable", "avx2", "avx512"; one that the processor lacks is refused. NULL or "auto": the best */
} nh_model_options;

NH_API void nh_model_options_init(nh_model_options *options, size_t size);

/* Opens the checkpoint at `path`: a folder, a cache snapshot, or org/name inside cache_root. Accounts for every tensor of the files; refuses with
 * the first ten of each kind otherwise. *out is NULL on failure. */
NH_API nh_status nh_model_open(nh_model **out, const char *path, const nh_model_options *options, nh_error *error);
/* All engines, tokenisers and templates taken from it must be closed before. NULL is fine. */
NH_API void nh_model_close(nh_model *model);

typedef struct nh_model_info {
	size_t size;
	const char *path;                     /* resolved folder; the name, where there is none (like) */
	const char *name;                     /* last part of the path, or org/name of a cache snapshot */
	const char *identity;                 /* 64 hex digits: SHA-256 over config, tokenizer, tensor headers and samples of every tensor */
	const char *pattern;                  /* one letter a layer: M mamba, * attention, - mlp, E experts */
	const char *arm;                      /* arm that runs it */
	const char *numerics;                 /* profile in use */
	const char *kv_dtype;                 /* "bf16", "fp8", "f64" */
	const char *formats;                  /* weight formats with their bytes, e.g. "bf16 11.2 MB, fp8 2.8 MB" */
	int32_t layers, hidden, vocab, chunk; /* chunk: tokens between two scan edges */
	int64_t max_context;                  /* tokens, from the config */
	uint64_t weight_bytes, scratch_bytes;
	uint64_t kv_bytes_token;       /* KV bytes one token takes over all layers */
	uint64_t state_bytes_sequence; /* recurrent state of one sequence */
	bool has_w4a4;                 /* some weights are NVFP4 W4A4, so profiles exact and exact-wo differ */
	uint64_t load_bytes, load_us;  /* of tensors, read or drawn, and the time until all were on the arm */
	bool dummy;                    /* the weights are drawn: load_format dummy, or like */
	const char *tier;              /* the arm's kernels in use; bits are promised within one: "ref", "avx2" */
} nh_model_info;

/* Pointers live as long as the model. The first call reads a part of every tensor, for the identity. */
NH_API void nh_model_get_info(const nh_model *model, nh_model_info *info, size_t size);

/* Files of the checkpoint (config.json, tokenizer.json, shards ...), sorted by name. */
NH_API size_t nh_model_file_count(const nh_model *model);
NH_API const char *nh_model_file_name(const nh_model *model, size_t index); /* NULL past the end */
/* Full SHA-256 of one file: reads all of it. Any thread. */
NH_API nh_status nh_model_file_sha256(
    const nh_model *model, size_t index, char hex[65], nh_progress_fn progress, void *user, nh_error *error);

/* End tokens: the union of generation_config.json and config.json. */
NH_API size_t nh_model_end_tokens(const nh_model *model, const int32_t **ids);

/* Sampling defaults of generation_config.json; a negative value means the file says nothing. */
typedef struct nh_sampling_defaults {
	size_t size;
	int32_t do_sample; /* -1 absent, 0, 1 */
	int32_t top_k;
	double temperature, top_p, min_p, repetition_penalty;
} nh_sampling_defaults;
NH_API void nh_model_get_sampling_defaults(const nh_model *model, nh_sampling_defaults *defaults, size_t size);

/* The profiles that this build knows, as golden files spell their choices. False past the end. */
typedef struct nh_profile {
	size_t size;
	const char *name, *rounding, *w4a4, *fp8_attention, *fp8_sums, *router_weight;
} nh_profile;
NH_API bool nh_profile_at(size_t index, nh_profile *profile, size_t size);

/* Names for nh_model_options.like, NULL past the end. Any thread. */
NH_API const char *nh_preset_at(size_t index);

#ifdef __cplusplus
}
#endif
#endif
