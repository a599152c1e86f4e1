/* SPDX-License-Identifier: Apache-2.0
 * model.h: what the engine knows of a model: its shapes, the state that a sequence carries, and one function that computes a step. A family
 * (a folder below this one) fills the table. A model is immutable after open; a forward belongs to the exec that it is given.
 * It refuses to know where it runs: it holds weights that an arm has imported, and speaks ops.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/base_log.h"
#include "exec/backend.h"
#include "exec/exec.h"
#include "load/loader.h"
#include "tensor/paged.h"

/* Shapes of the state of one layer that has any. */
typedef struct model_mamba_shape {
	int layer;
	int64_t taps, channels;         /* conv state [taps - 1, channels] */
	int64_t heads, head_dim, state; /* SSM state */
} model_mamba_shape;

typedef struct model_kv_shape {
	int layer;
	int64_t kv_heads, head_dim;
	float k_scale, v_scale; /* for FP8 pages; 1 where the file has none */
} model_kv_shape;

typedef struct model_shape {
	int layers, hidden, vocab, chunk;
	int64_t max_positions;
	const char *pattern; /* borrow; one letter a layer */
	int mamba_layers, attn_layers;
	const model_mamba_shape *mamba; /* borrow [mamba_layers] */
	const model_kv_shape *kv;       /* borrow [attn_layers] */
	bool fp8_kv;                    /* the checkpoint asks for FP8 pages */
	num_dtype ssm_dtype;            /* what the config asks for the SSM cache; F32 when unset (model.md 4.8) */
	const char *ssm_dtype_text;     /* as the file spells it; "" when unset */
} model_shape;

/* The state pools of all layers, in the order of shape->mamba and shape->kv. */
typedef struct model_state {
	const mamba_state *mamba; /* [mamba_layers] */
	const kv_pages *kv;       /* [attn_layers] */
} model_state;

/* Called with tensors in the arm's memory while a step is computed: names as nh_request.h lists them. */
typedef void (*model_tap_fn)(void *user, const char *name, const tensor *t);

/* Rows whose final hidden state (after the last norm) is wanted besides the logits: what embeddings are made of. */
typedef struct model_hidden {
	int count;
	tensor rows; /* [count] i32, ascending */
	tensor out;  /* filled: [count, hidden] act, in scratch */
} model_hidden;

/* What is wanted of a step besides its logits. */
typedef struct model_tap {
	model_tap_fn fn; /* NULL: none */
	void *user;
	model_hidden *hidden; /* NULL: none */
} model_tap;

typedef struct model model;

typedef struct model_family {
	const char *name;
	/* Binds and imports all weights. The loader's ledger is finished by the caller afterwards. config: the parsed config.json. */
	nh_status (*open)(model **out, const json_t *config, const char *config_name, loader *l, nh_error *e);
	void (*close)(model *m);
	/* Computes one step; *logits [R, V] (act) lies in scratch. Errors are the exec's. */
	void (*forward)(const model *m, exec *x, const step_batch *b, const model_state *s, const model_tap *tap, tensor *logits);
} model_family;

/* The head of every family's model object. */
struct model {
	const model_family *family;
	model_shape shape;
};

#endif
