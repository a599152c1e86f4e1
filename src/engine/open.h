/* SPDX-License-Identifier: Apache-2.0
 * open.h: from what a person typed to weights on an arm, ready for an engine: folder, configuration, quantisation rules, arm, tensors,
 * family. Immutable after open, but for the exec that an engine uses. Knows nothing of text.
 */
#ifndef ENGINE_OPEN_H
#define ENGINE_OPEN_H

#include <pthread.h>

#include "base/base_buf.h"
#include "engine/engine.h"
#include "fmt/config.h"
#include "fmt/model_dir.h"
#include "fmt/quant.h"
#include "fmt/st_set.h"
#include "load/loader.h"

typedef struct open_options {
	const char *cache_root, *arm, *numerics, *kv_dtype; /* each may be NULL: nh_model_options has the meaning */
	int threads;
	bool check, profile;
	bool dummy, uniform; /* weights drawn instead of read; experts drawn instead of routed */
	const char *like;    /* a preset instead of a folder (fmt/preset.h); NULL: none. It is always drawn */
	int layers;          /* of the preset; 0: all */
	uint64_t dummy_seed;
	const char *isa; /* kernels of a host arm; NULL: the best */
	logger log;
	nh_progress_fn progress;
	void *progress_user;
} open_options;

typedef struct engine_model {
	engine_parts parts;
	model_dir dir;
	json_t *config; /* own */
	generation gen;
	quant_config *quant;                    /* own */
	st_set *set;                            /* own */
	loader *loader;                         /* own */
	model *m;                               /* own */
	exec *base, *uniform, *profile, *check; /* own */
	bool drawn;                             /* by dummy_seed */
	uint64_t dummy_seed;
	logger user_log, log; /* log: one line at a time */
	pthread_mutex_t log_lock;
	char *name;  /* own; org/name, or the folder's name */
	buf formats; /* own; "bf16 11.2 MB, fp8 2.8 MB" */
	uint64_t weight_bytes, kv_bytes_token, state_bytes_sequence, scratch_bytes;
} engine_model;

/* path is not read where options->like is given: dir.dir is "" then. NH_ERR_NOTFOUND, NH_ERR_CONFIG, NH_ERR_TENSOR, NH_ERR_UNSUPPORTED and what the files give. Unknown arm, profile or KV type: NH_ERR_ARG with
 * the choices. *out is NULL on failure. Its address is fixed: parts and log point into it. */
nh_status engine_model_open(engine_model **out, const char *path, const open_options *options, nh_error *e);
/* NH_ERR_STATE while an engine is open on it is the caller's to avoid. NULL is fine. */
void engine_model_close(engine_model *m);
/* SHA-256 as fmt/identity.h has it; reads 64 KiB of each tensor. Of a drawn model: over its configuration and seed. Any thread. */
nh_status engine_model_identity(const engine_model *m, char hex[65], nh_error *e);

#endif
