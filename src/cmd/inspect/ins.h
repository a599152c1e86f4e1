/* SPDX-License-Identifier: Apache-2.0
 * ins.h: what is to be told about a checkpoint: its architecture, the use of every tensor, formats with the rule behind each, and what a
 * token costs. Works on files, on config.json with an index, and on config.json alone; then shapes come from the configuration. Reads headers
 * and small parameters only. Breaks first: every number is computed by the code that runs the model (loader, dry arm), not beside it.
 */
#ifndef INS_H
#define INS_H

#include <jansson.h>

#include "base/base_arena.h"
#include "base/base_log.h"
#include "cmd/cmd_args.h"
#include "exec/wrap.h"
#include "fmt/model_dir.h"
#include "fmt/quant.h"
#include "fmt/st_set.h"
#include "load/loader.h"
#include "model/model.h"
#include "model/nemotron_h/nm_config.h"

/* What a tensor is for. */
#define INS_ROLE_LIST(X)                      \
	X(INS_EMBEDDING, "embedding")             \
	X(INS_MAMBA, "mamba projections")         \
	X(INS_ATTENTION, "attention projections") \
	X(INS_DENSE, "dense layers")              \
	X(INS_ROUTED, "routed experts")           \
	X(INS_SHARED, "shared experts")           \
	X(INS_LATENT, "latent projections")       \
	X(INS_ROUTER, "router")                   \
	X(INS_HEAD, "head")                       \
	X(INS_SMALL, "norms, conv, decays")       \
	X(INS_MTP, "MTP block")                   \
	X(INS_IGNORED, "ignored")

typedef enum ins_role {
#define INS_ROLE_ENUM(name, text) name,
	INS_ROLE_LIST(INS_ROLE_ENUM)
#undef INS_ROLE_ENUM
	    INS_ROLE_COUNT
} ins_role;

const char *ins_role_name(ins_role role);

/* A copy of the loader's report on one module or parameter. */
typedef struct ins_module {
	const char *name, *rule;
	ins_role role;
	int layer; /* -1 outside layers */
	num_scheme scheme;
	num_dtype dtype;
	int64_t n, k;
	uint64_t bytes; /* of all its parts in the files */
	bool matrix, used;
} ins_module;

/* Modules of one role and one format. */
typedef struct ins_group {
	ins_role role;
	num_scheme scheme;
	num_dtype dtype;
	uint64_t modules, params, bytes;
	const char *rule; /* of the first; "; others alike" where rules differ in the module they name */
	bool more_rules;
	uint8_t layers[(NM_MAX_LAYERS + 7) / 8];
} ins_group;

#define INS_MAX_GROUPS 64

/* What one token costs, by the dry arm. */
typedef struct ins_cost {
	uint64_t read[INS_ROLE_COUNT];            /* weight bytes of one decode step of one sequence */
	uint64_t read_total;                      /* without the embedding: one row of it */
	uint64_t params_read;                     /* parameters used for a token */
	uint64_t decode_flops;                    /* without attention over the context */
	uint64_t prefill_flops;                   /* a prompt token, in a piece of one scan chunk, without earlier context */
	uint64_t context_flops;                   /* added by 1000 tokens of context, decode */
	uint64_t scratch_decode, scratch_prefill; /* bytes */
} ins_cost;

typedef struct inspection {
	model_dir dir;
	char name[256];
	json_t *config;
	quant_config *quant;
	nm_config c;
	st_set *set;     /* NULL without files */
	st_index *index; /* NULL unless there is an index and no files */
	exec *x;         /* dry */
	loader *l;
	model *m;
	char identity[65]; /* "" without files */

	arena memory;
	ins_module *modules; /* own; in the order of the loader */
	size_t count, room;
	ins_group groups[INS_MAX_GROUPS];
	size_t group_count;

	uint64_t params, mtp_params;                          /* elements, scales not counted */
	uint64_t bytes, mtp_bytes;                            /* in the files */
	uint64_t scheme_bytes[NUM_SCHEME_COUNT], param_bytes; /* in use */
	ins_cost cost;

	nh_status ledger; /* NH_OK: balanced */
	nh_error ledger_error;
	const char *problems[48];            /* in memory */
	size_t problem_count, problem_total; /* kept; found */
	const char *notices[32];
	size_t notice_count;
	bool nomem;
} inspection;

/* Everything but config.json that is missing or wrong is told in the inspection, not as an error. */
nh_status ins_open(inspection *i, const char *path, const char *cache_root, nh_error *e);
void ins_close(inspection *i); /* safe on a zeroed one */

/* ins_roles.c */
ins_role ins_role_of(const char *module, bool used);
int ins_layer_of(const char *module);
void ins_group_all(inspection *i);
void ins_layers_text(const ins_group *g, char *out, size_t room); /* "0-3,7" */
const char *ins_format_name(num_scheme scheme, num_dtype dtype);
uint64_t ins_role_bytes(const inspection *i, ins_role role);

/* ins_cost.c: fills i->cost. */
nh_status ins_measure(inspection *i, nh_error *e);

/* ins_index.c: balances an index against the shapes. */
void ins_check_index(inspection *i);
void ins_problem(inspection *i, const char *format, ...) BASE_PRINTF(2, 3);

/* How many sequences of `context` tokens fit beside the weights. */
typedef struct ins_fit {
	uint64_t memory, weights, kv_token, state, sequence; /* bytes; sequence: one of them with all its tokens */
	uint64_t context, sequences;
} ins_fit;
ins_fit ins_fits(const inspection *i, uint64_t memory, uint64_t context, bool fp8_kv);

/* One tensor of the files, or of what the configuration asks for. */
typedef struct ins_tensor {
	const char *name, *file; /* file "" without files */
	char shape[96];
	const char *dtype;
	uint64_t bytes;
	const ins_module *module; /* NULL: not understood */
} ins_tensor;
/* Calls fn for each tensor, by name; false from fn stops. */
void ins_tensors(const inspection *i, bool (*fn)(void *user, const ins_tensor *t), void *user);

/* ins_text.c, ins_json.c */
void ins_print(const inspection *i, const ins_fit *fit, bool layers);
void ins_print_tensors(const inspection *i);
void ins_print_json(const inspection *i, const ins_fit *fit, bool tensors);

#endif
