/* SPDX-License-Identifier: Apache-2.0
 * inspect.c: the command line of inspections (ins.h). Knows options, nothing of checkpoints.
 */
#include <unistd.h>

#include "base/base_mem.h"
#include "cmd/cmd.h"
#include "cmd/inspect/ins.h"

#define DEFAULT_CONTEXT 8192

static uint64_t machine_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : (uint64_t)16 << 30;
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	inspection i = {0};
	char *cache = cmd_cache_root(a), *builtin = NULL;
	nh_status s = cmd_operands(a) == 0 ? cmd_builtin_model(&builtin, &e) : NH_OK;
	if (s == NH_OK) s = ins_open(&i, builtin != NULL ? builtin : cmd_operand(a, 0), cache, &e);
	mem_free(cache);
	mem_free(builtin);
	if (s != NH_OK) return cmd_fail_error(a, s, &e);
	int64_t most = i.c.max_positions < DEFAULT_CONTEXT ? i.c.max_positions : DEFAULT_CONTEXT;
	ins_fit fit = ins_fits(&i, cmd_bytes(a, "memory", machine_memory()), (uint64_t)cmd_int(a, "context", most), i.m->shape.fp8_kv);
	bool tensors = cmd_flag(a, "tensors");
	if (cmd_flag(a, "json")) ins_print_json(&i, &fit, tensors);
	else if (tensors) ins_print_tensors(&i);
	else ins_print(&i, &fit, cmd_flag(a, "layers"));
	bool balanced = i.ledger == NH_OK;
	size_t problems = i.problem_total;
	ins_close(&i);
	return balanced ? CMD_OK : cmd_fail(a, "the tensors do not balance: %zu problems", problems);
}

static const cmd_option options[] = {
    {"tensors", 't', CMD_FLAG, NULL, "every tensor: file, type, shape, bytes, use, rule (tab-separated)", 0, 0},
    {"layers", 'l', CMD_FLAG, NULL, "one line a layer with its formats", 0, 0},
    {"memory", 'm', CMD_BYTES, "SIZE", "memory to fill with sequences, e.g. 80G (default: this machine's)", 0, 0},
    {"context", 0, CMD_INT, "TOKENS", "tokens a sequence (default: 8192, or the model's)", 1, 1e12}, CMD_OPTION_JSON, CMD_OPTION_CACHE,
    CMD_OPTION_QUIET, CMD_OPTION_END};

const cmd_def cmd_inspect = {
    .name = "inspect",
    .summary = "what a model is made of, what it needs, and whether its files add up",
    .usage = "[MODEL]",
    .about = "MODEL is a model folder, org/name in the cache, or a config.json (with or without an index beside it): then shapes come\n"
             "from the configuration. Without MODEL: the built-in model. Exit status 1 when the tensors do not balance.",
    .examples = "nemotron inspect models/tiny\n"
                "nemotron inspect --memory 80G --context 32768 config.json\n"
                "nemotron inspect --tensors nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8 | less\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
