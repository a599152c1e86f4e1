/* SPDX-License-Identifier: Apache-2.0
 * cmd_open.h: the options by which commands open a model, and the opening: one place, so that --arm means the same everywhere.
 */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H

#include "cmd/cmd.h"
#include "nh/nh.h"

/* Rows for a command's option table. A command may leave rows out; what is not in its table keeps its default. */
#define CMD_OPTION_ARM                                                                                                                  \
	{"arm", 0, CMD_STRING, "NAME", "who computes: cpu or ref (default cpu)", 0, 0},                                                     \
	    {"cpu-isa", 0, CMD_CHOICE, "auto|portable|avx2|avx512", "kernels of the cpu arm (default auto: the best of this processor)", 0, \
	        0},                                                                                                                         \
	{                                                                                                                                   \
		"threads", 't', CMD_INT, "N", "threads of the cpu arm (default 0: one a processor)", 0, 256                                     \
	}
#define CMD_OPTION_NUMERICS                                                                                    \
	{                                                                                                          \
		"numerics", 0, CMD_STRING, "PROFILE", "exact, exact-wo, portable or hopper (default: the arm's)", 0, 0 \
	}
#define CMD_OPTION_KV                                                                                                   \
	{                                                                                                                   \
		"kv-dtype", 0, CMD_CHOICE, "auto|bf16|fp8", "storage of keys and values (default auto: the checkpoint's)", 0, 0 \
	}
#define CMD_OPTION_CHECK                                                                        \
	{                                                                                           \
		"check", 0, CMD_FLAG, NULL, "check the contract of every op while running (slow)", 0, 0 \
	}

/* Weights that no file holds, for trying speed. */
#define CMD_OPTIONS_DUMMY                                                                                                                 \
	{"load-format", 0, CMD_CHOICE, "auto|dummy", "dummy: weights are drawn in the shapes and formats of the configuration", 0, 0},        \
	    {"like", 0, CMD_STRING, "NAME[:FORMAT]",                                                                                          \
	        "no model file: dummy weights like lightning-30b, nano-30b, super-120b\nor ultra-550b, in bf16, fp8, nvfp4, w4a16, mixed or " \
	        "super",                                                                                                                      \
	        0, 0},                                                                                                                        \
	    {"layers", 0, CMD_INT, "N", "with --like: the first N layers", 1, 1000},                                                          \
	{                                                                                                                                     \
		"uniform-routing", 0, CMD_FLAG, NULL, "experts are drawn instead of routed, as measurements of memory traffic assume", 0, 0       \
	}

/* Opens the model at `path` with the command's --load-format, --like, --layers, --uniform-routing, --arm, --numerics, --kv-dtype, --chat-template, --check and --cache, with notices, progress on a terminal and
 * Ctrl-C. profile: used instead of --numerics where not NULL. Both are NULL on failure. engine options NULL: defaults; engine NULL: no engine. */
nh_status cmd_open(const cmd_args *a, const char *path, const char *profile, const nh_engine_options *options, nh_model **model,
    nh_engine **engine, nh_error *e);
/* The same on `arm` where --arm is not given; NULL: the default arm. */
nh_status cmd_open_on(const cmd_args *a, const char *path, const char *arm, const char *profile, const nh_engine_options *options,
    nh_model **model, nh_engine **engine, nh_error *e);

#endif
