/* SPDX-License-Identifier: Apache-2.0
 * loader.h: from the tensors of a checkpoint to imported weights and parameters. Owns the ledger: each tensor is consumed once, each
 * parameter filled once, each scale applied once. Problems are collected, so that one run names them all; loader_finish tells.
 * Knows formats and file names, not what a layer computes. Without files (config only) it hands out shapes with absent data, or dummy values.
 * An arm that repacks gets each matrix alone: its source is given back when it is imported, so that the peak is what was repacked and little more.
 */
#ifndef LOAD_LOADER_H
#define LOAD_LOADER_H

#include "base/base_arena.h"
#include "base/base_log.h"
#include "exec/backend.h"
#include "exec/exec.h"
#include "fmt/quant.h"
#include "fmt/st_set.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

/* What becomes of a parameter's values. */
typedef enum {
	LOAD_MODEL,   /* eager: rounded to bf16, the model dtype, as vLLM loads it; exact: as stored. Kept as F32 */
	LOAD_F32,     /* as stored, in every profile. Kept as F32 */
	LOAD_NEG_EXP, /* -exp(v): A from A_log. Kept wide: F32 eager (exp of the f32 value, rounded), F64 or F32 exact */
} load_kind;

/* One line of the report: what a module or parameter is and why. */
typedef struct load_record {
	const char *module; /* without ".weight" for matrices */
	num_scheme scheme;
	num_dtype dtype;   /* of the file */
	int64_t n, k;      /* k = 1 for vectors */
	size_t file_bytes; /* all parts */
	const char *rule;  /* which rule decided the scheme; "" for parameters */
	bool matrix, used; /* used: false for tensors accounted for but not used by this program */
} load_record;
typedef void (*load_report_fn)(void *user, const load_record *r);

typedef struct loader loader;

typedef struct loader_options {
	const st_set *set;         /* borrow; NULL: shapes only, or dummy */
	const quant_config *quant; /* borrow; NULL: nothing is quantised */
	exec *x;                   /* whose profile decides roundings; may be a dry exec */
	const backend *arm;        /* who imports; NULL with shapes only */
	const logger *log;
	const char *files_name; /* borrow; what errors call the set when no single file is to blame, e.g. the folder */
	load_report_fn report;  /* NULL: none */
	void *report_user;
	nh_progress_fn progress;
	void *progress_user;
	bool dummy;        /* without a set: every tensor is drawn (dummy.h), in the layout that a file would have */
	uint64_t seed;     /* of the drawing */
	int threads;       /* of the drawing; 0: one a processor */
	uint64_t expected; /* bytes that progress counts up to where there is no set; 0: not known */
} loader_options;

/* The loader owns what it hands out (weights' names, converted copies): keep it as long as the model. */
nh_status loader_open(loader **out, const loader_options *options, nh_error *e);
void loader_close(loader *l); /* releases imports and arm memory; NULL is fine */

/* `module` + ".weight" and its companions, as the quantisation rules say, imported by the arm. `out` is filled in any case. Returns failures
 * that end everything (memory, the arm); a missing or wrong tensor goes to the ledger. */
nh_status load_weight(loader *l, const char *module, int64_t n, int64_t k, weight *out, nh_error *e);
/* A matrix that no quantisation rule touches and that the profile may round: the router (nh_numerics.router_weight). */
nh_status load_router(loader *l, const char *module, int64_t n, int64_t k, weight *out, nh_error *e);
/* The embedding table: rows in file memory (or uploaded), BF16 or F32. */
nh_status load_table(loader *l, const char *name, int64_t rows, int64_t cols, tensor *out, nh_error *e);
/* A table used as a weight matrix too: tied heads. */
nh_status load_tied(loader *l, const char *name, const tensor *table, weight *out, nh_error *e);
/* A parameter of `rank` dimensions. */
nh_status load_param(loader *l, const char *name, load_kind kind, int rank, const int64_t *shape, tensor *out, nh_error *e);
/* A scalar ([] or [1]) that may be absent: then `fallback`, *found false. Rounded to bf16 where the profile says kv_scale_bf16. */
nh_status load_kv_scale(loader *l, const char *name, float fallback, float *out, bool *found, nh_error *e);
/* Whether the checkpoint has a tensor of this name (always false with shapes only; loader_shapes_only). Consumes nothing. */
bool loader_shapes_only(const loader *l);
bool load_has(const loader *l, const char *name);
/* Accounts for a tensor of this exact shape without using it: MTP parameters. Matrices follow the quantisation rules. */
nh_status load_skip_weight(loader *l, const char *module, int64_t n, int64_t k, nh_error *e);
nh_status load_skip_param(loader *l, const char *name, int rank, const int64_t *shape, nh_error *e);
/* A tensor that is there but means nothing here; told in a notice. */
nh_status load_ignore(loader *l, const char *name, const char *why, nh_error *e);

/* Balances the ledger: NH_ERR_TENSOR names the first problems (all of them, ten of each kind, go to the log). */
nh_status loader_finish(loader *l, nh_error *e);
/* Sums over what was loaded: bytes in memory by scheme (index NUM_SCHEME_*), and others (tables, parameters). */
const uint64_t *loader_scheme_bytes(const loader *l); /* [NUM_SCHEME_COUNT] */
uint64_t loader_param_bytes(const loader *l);
/* How loading went: bytes of files read or drawn, and the time from loader_open to loader_finish, 0 before it. */
uint64_t loader_bytes_done(const loader *l);
int64_t loader_us(const loader *l);
bool loader_has_w4a4(const loader *l);
bool loader_fp8_kv(const loader *l); /* the checkpoint asks for FP8 KV pages */
const logger *loader_log(const loader *l);
const char *loader_files(const loader *l); /* files_name */
nh_status load_string(loader *l, const char **out, nh_error *e, const char *format, ...)
    BASE_PRINTF(4, 5); /* a name that lives with the loader */

#endif
