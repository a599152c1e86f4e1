/* SPDX-License-Identifier: Apache-2.0
 * qz.h: from a BF16 checkpoint to a quantised one in the published layout (model.md 2, 7, 8). The parts of the command, one file each; what is decided
 * (qz_plan.c) is apart from what is measured (qz_calib.c), computed (qz_codes.c), written (qz_shard.c, qz_config.c) and judged (qz_report.c, qz_quality.c).
 * Knows names of tensors, not the model: the library says whether the result is one.
 * Breaks first: same source, options and calibration text = same bytes, whatever the number of threads and however often it was stopped.
 */
#ifndef QZ_H
#define QZ_H

#include "base/base_arena.h"
#include "base/base_jobs.h"
#include "cmd/cmd.h"
#include "fmt/st_set.h"
#include "num/num_types.h"

#define QZ_PRODUCER "nemotron.c quantize"
#define QZ_STATE "quantize.state.json" /* in the folder that is not finished */
#define QZ_REVISION 1                  /* of the codes: a folder begun by another revision is not continued */

typedef enum qz_format { QZ_FP8, QZ_NVFP4, QZ_MIXED } qz_format;

typedef struct qz_options {
	qz_format format;
	bool weight_only;  /* FP4 layers without input scales */
	bool kv_fp8;       /* k_scale, v_scale and the cache's scheme */
	const char *calib; /* text; NULL: none */
	int64_t calib_tokens;
} qz_options;

/* --- qz_plan.c: what happens to each tensor --- */

typedef enum qz_role {
	QZ_KEEP, /* copied as it is: norms, biases, convolution, state parameters, the MTP block */
	QZ_MAMBA,
	QZ_MLP,
	QZ_EXPERT,
	QZ_SHARED,
	QZ_HEAD,
	QZ_ATTN, /* a linear layer that every published format leaves alone, as the next ones */
	QZ_LATENT,
	QZ_OTHER, /* router, convolution: no linear layer, but exclusion lists name it */
	QZ_EMBED
} qz_role;

/* Where the range of an activation is measured, per layer. */
typedef enum qz_site { QZ_INPUT, QZ_OUT_INPUT, QZ_HIDDEN, QZ_EXPERT_IN, QZ_EXPERT_HIDDEN, QZ_KEYS, QZ_VALUES, QZ_SITES } qz_site;

typedef struct qz_item {
	const st_tensor *t; /* borrow: the source's "<module>.weight", or any tensor that is kept */
	const char *module; /* own (arena); NULL for what has no ".weight" */
	qz_role role;
	num_scheme scheme; /* NUM_SCHEME_NONE: copied */
	qz_site site;      /* of the matrix's input */
	int layer;         /* -1: outside layers */
	int expert;        /* -1: none */
	bool up;           /* of an expert: the first matrix */
	float scale;       /* weight_scale or weight_scale_2; set while its shard is written */
} qz_item;

typedef struct qz_layer {
	char kind;       /* M * - E, or 0 */
	bool keep;       /* Mamba right before attention: the Nano releases leave it alone */
	bool odd_expert; /* some expert's columns do not divide by 16: FP4 leaves all of the layer's experts alone */
} qz_layer;

typedef struct qz_plan {
	arena memory;
	const st_set *set;
	qz_item *items; /* own; one a source tensor, in the set's order */
	size_t count;
	qz_layer *layers; /* own */
	int layer_count;
	size_t quantised, odd; /* matrices; those left alone because 16 does not divide their columns */
	uint64_t source_bytes;
	const qz_options *o;
} qz_plan;

/* NH_ERR_TENSOR where nothing can be quantised, or a matrix is no float matrix. */
nh_status qz_plan_open(qz_plan *p, const st_set *set, const qz_options *o, nh_error *e);
void qz_plan_close(qz_plan *p); /* safe on a zeroed one */

/* --- qz_codes.c: scales and codes of one matrix; row blocks run on the pool --- */

typedef struct qz_matrix {
	const char *name; /* for errors */
	num_dtype dtype;  /* BF16, F16 or F32 */
	const uint8_t *data;
	int64_t n, k;
} qz_matrix;

/* Largest magnitude. NH_ERR_NUMERIC names the first element that is not finite. */
nh_status qz_amax(jobs *pool, const qz_matrix *m, float *amax, nh_error *e);
/* Per-tensor FP8 scale: of amax / 448 times 2^(j/8), j = -4..4, the one with the least squared error. amax 0 gives 1. */
nh_status qz_fp8_scale(jobs *pool, const qz_matrix *m, float amax, float *scale, nh_error *e);
void qz_fp8_codes(jobs *pool, const qz_matrix *m, float scale, uint8_t *codes); /* codes [n, k] */
/* weight_scale_2: amax / (6 * 448), so that the largest block scale is 448. amax 0 gives 1. */
float qz_fp4_second(float amax);
/* codes [n, k / 2], scales [n, k / 16] e4m3. A block's scale is the one near amax / 6 with the least squared error; its codes are e2m1 of
 * w / (scale * second), to nearest even. */
void qz_fp4_codes(jobs *pool, const qz_matrix *m, float second, uint8_t *codes, uint8_t *scales);

/* --- qz_calib.c: ranges of activations on a text --- */

/* amax [layer_count * QZ_SITES] is filled; 0: nothing came by there. *tokens is what was run. */
nh_status qz_calibrate(const cmd_args *a, const char *in, const qz_plan *p, jobs *pool, double *amax, int64_t *tokens, nh_error *e);
/* Scale of an activation or of keys and values whose largest magnitude is amax: amax / 448, FP4 amax / (6 * 448); 1 where amax is 0. */
float qz_input_scale(num_scheme scheme, double amax);

/* --- qz_shard.c: one file of the result --- */

typedef struct qz_writing {
	const cmd_args *a;
	qz_plan *plan;
	const double *amax; /* as qz_calibrate has it; NULL: no calibration */
	jobs *pool;
	cmd_progress *progress;
	uint64_t done; /* source bytes */
} qz_writing;

/* Writes the tensors of source file `file` to `path`, under a temporary name first. */
nh_status qz_shard(qz_writing *w, size_t file, const char *path, nh_error *e);

/* --- qz_config.c: the documents --- */

/* hf_quant_config.json, the index (where the source has one) and config.json, the last of all. */
nh_status qz_documents(const qz_plan *p, const char *in, const char *out, nh_error *e);
/* Copies what lies beside the weights: tokenizer, generation config, template, licence... */
nh_status qz_copy_rest(const char *in, const char *out, nh_error *e);

/* --- qz_state.c: the folder, and what a later run must agree with --- */

typedef struct qz_state {
	char *out;     /* own */
	json_t *facts; /* own: format, source, calibration... */
	double *amax;  /* own; NULL: not measured */
	size_t amax_count;
	int64_t tokens; /* of the calibration */
} qz_state;

/* A new folder (absent or empty), or with `resume` one that a run with the same facts has begun. `amax_count` 0: no calibration. */
nh_status qz_state_open(qz_state *s, const char *out, json_t *facts, bool resume, size_t amax_count, nh_error *e);
nh_status qz_state_save(const qz_state *s, nh_error *e);
void qz_state_finish(const qz_state *s); /* the folder is complete */
void qz_state_close(qz_state *s);

/* --- qz_report.c, qz_quality.c --- */

/* Relative errors of the weights that lie in `out`, decoded from its files, by layer and role. New reference. */
nh_status qz_weight_report(const qz_plan *p, const char *out, jobs *pool, json_t **report, nh_error *e);
/* Log-loss of source and result on a text and the KL divergence between them, full vocabulary. New reference. */
nh_status qz_quality(const cmd_args *a, const char *in, const char *out, const char *text, int64_t tokens, json_t **report, nh_error *e);

#endif
