/* SPDX-License-Identifier: Apache-2.0
 * bench.c: the command: its options, and the way to one of the benches. Each prints what it measured beside what this machine allows.
 * The invariant that breaks first: a figure stands beside a bound that was read in the same run.
 */
#include <string.h>

#include "cmd/bench/bench.h"

int bench_run_probe(const cmd_args *a)
{
	nh_error e = {0};
	bench b = {0};
	nh_status s = bench_begin(&b, a, "probe", true, &e);
	if (s == NH_OK && !cmd_flag(a, "json")) {
		probe_reading r;
		probe_read_all(b.probe, &r);
		for (int i = 0; i < r.loops; i++) cmd_outf("read        %-20s %8.2f GB/s\n", r.name[i], r.each[i] / 1e9);
		cmd_outf("read        %-20s %8.2f GB/s, %d threads, buffer of %.0f MB\n", "best", r.bytes_s / 1e9, probe_threads(b.probe),
		    (double)probe_bytes(b.probe) / 1e6);
		cmd_outf("in cache    %-20s %8.2f GB/s\n", "", b.cache_bytes_s / 1e9);
		cmd_outf("peak        %-20s %8.2f GFLOP/s\n", b.peak.f32_name, b.peak.f32 / 1e9);
		if (b.peak.bf16 > 0) cmd_outf("peak        %-20s %8.2f GFLOP/s\n", b.peak.bf16_name, b.peak.bf16 / 1e9);
	}
	if (s == NH_OK) s = bench_finish(&b, &e);
	bench_deinit(&b);
	return s == NH_OK ? CMD_OK : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
}

static int run(const cmd_args *a)
{
	static const struct {
		const char *name;
		int (*run)(const cmd_args *a);
	} benches[] = {{"decode", bench_run_model}, {"batch", bench_run_model}, {"prefill", bench_run_model}, {"context", bench_run_model},
	    {"ops", bench_run_ops}, {"tokenize", bench_run_tokenize}, {"load", bench_run_load}, {"probe", bench_run_probe},
	    {"compare", bench_run_compare}};
	const char *what = cmd_operand(a, 0);
	for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
		if (strcmp(benches[i].name, what) == 0) return benches[i].run(a);
	}
	return cmd_bad_usage(a, "%.40s: no bench has that name", what);
}

static const cmd_option options[] = {
    {"passes", 0, CMD_INT, "N", "passes of each figure (default 5)", 1, BENCH_PASSES_MAX},
    {"tokens", 0, CMD_INT, "N", "tokens of each sequence in a pass (default 64)", 1, 1000000},
    {"prompt", 0, CMD_INT, "N", "tokens before them (default 16; prefill 512)", 1, 1e9},
    {"batch", 0, CMD_STRING, "LIST", "batch: sequences side by side (default 1,8,32)", 0, 0},
    {"no-count", 0, CMD_FLAG, NULL, "do not count bytes and operations: a very small model notices the counting", 0, 0},
    {"memory", 0, CMD_BYTES, "SIZE", "for state, keys and values", 0, 0},
    {"op", 0, CMD_STRING, "LIST", "ops: only these, by op or name, such as linear,ssm or in_proj", 0, 0},
    {"format", 0, CMD_STRING, "LIST", "ops: of bf16, fp8, nvfp4, w4a16 (default bf16,fp8,nvfp4)", 0, 0},
    {"rows", 0, CMD_STRING, "LIST", "ops: rows of a call (default 1,8,32,512)", 0, 0},
    {"form", 0, CMD_CHOICE, "auto|decode|prefill", "ops: which kernels (default auto: decode up to 32 rows)", 0, 0},
    {"context", 0, CMD_STRING, "LIST", "tokens that attention sees, such as 1k,32k,128k", 0, 0},
    {"rotate", 0, CMD_BYTES, "SIZE", "ops: weights or state to go through before one is met again (default 1G)", 0, 0},
    {"in-cache", 0, CMD_FLAG, NULL, "ops: one operand instead of many: what a kernel does when memory does not hold it up", 0, 0},
    {"pass-ms", 0, CMD_REAL, "MS", "ops: a pass lasts at least so long (default 50)", 0.01, 60000},
    {"thread-time", 0, CMD_FLAG, NULL, "processor time of one thread instead of the clock, for machines that others use too", 0, 0},
    {"probe-bytes", 0, CMD_BYTES, "SIZE", "of the probe's buffer (default: 16 times the largest cache, 512 MiB to 1 GiB)", 0, 0},
    {"rival", 0, CMD_STRING, "COMMAND",
        "decode, batch, prefill, context, tokenize: another program, run after each of our passes, that prints\ntokens/s (tokenize: MB/s)",
        0, 0},
    {"rival-pattern", 0, CMD_STRING, "REGEX", "its group holds the figure (default: the last number of the output)", 0, 0},
    {"tokenizer", 0, CMD_STRING, "MODEL", "tokenize: whose tokeniser", 0, 0},
    {"any-machine", 0, CMD_FLAG, NULL, "compare: divide figures of different silicon too", 0, 0},
    {"record", 0, CMD_STRING, "FILE", "write what was measured there, as JSON", 0, 0},
    CMD_OPTION_JSON,
    CMD_OPTIONS_DUMMY,
    CMD_OPTION_ARM,
    CMD_OPTION_KV,
    CMD_OPTION_CACHE,
    CMD_OPTION_NUMERICS,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_bench = {
    .name = "bench",
    .summary = "how fast, beside what this machine allows",
    .usage = "BENCH [OPERAND] ...",
    .about = "BENCH is one of\n"
             "  decode [MODEL]     time per token of one sequence\n"
             "  batch [MODEL]      time per step of several (--batch 1,8,32)\n"
             "  prefill [MODEL]    a prompt of --prompt tokens (default 512)\n"
             "  context [MODEL]    time per token after so many tokens (--context 1k,4k)\n"
             "  probe              read bandwidth and arithmetic peak of this machine\n"
             "  ops                each op at the shapes of the 30B model\n"
             "  tokenize FILE      one thread, with the model's tokeniser or --tokenizer's\n"
             "  load [MODEL]       opening, and the memory that it took at most\n"
             "  compare A B        ratios of two records\n"
             "Each figure is a median of passes and stands beside its bound: the larger of bytes / read bandwidth and operations / peak, "
             "both read in\n"
             "the same run, right before and after. share_of_bound is bound / time. What was not measured is told as UNMEASURED.",
    .examples = "nemotron bench decode\n"
                "nemotron bench batch my-model --batch 1,8,32 --json\n"
                "nemotron bench decode --like lightning-30b --layers 8 --uniform-routing\n"
                "nemotron bench probe\n"
                "nemotron bench ops --op linear --format nvfp4 --rows 1,8\n"
                "nemotron bench ops --op experts --threads 1 --thread-time --json\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 3,
    .run = run,
};
