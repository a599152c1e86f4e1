/* SPDX-License-Identifier: Apache-2.0
 * mkmodel.c: the command line of the writer of random checkpoints (mk.h). Knows options, nothing of files.
 */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/mkmodel/mk.h"
#include "fmt/preset.h"

static mk_format format_of(const char *text)
{
	static const char *const names[] = {
#define MK_FORMAT_NAME(name, word) word,
	    MK_FORMAT_LIST(MK_FORMAT_NAME)
#undef MK_FORMAT_NAME
	};
	for (int i = 0; i < MK_FORMAT_COUNT; i++)
		if (strcmp(text, names[i]) == 0) return (mk_format)i;
	return MK_BF16; /* the parser lets no other word through */
}

static int run(const cmd_args *a)
{
	cmd_progress progress;
	logger log = {.fn = cmd_log, .user = (void *)(uintptr_t)a, .level = NH_LOG_NOTICE};
	cmd_progress_init(&progress, a);
	cmd_on_interrupt(NULL, NULL);
	const char *like = cmd_string(a, "like", NULL), *habit = like != NULL ? preset_format(like) : "bf16"; /* NULL: mk_write tells */
	mk_options o = {.format = format_of(cmd_string(a, "format", habit != NULL ? habit : "bf16")),
	    .like = like,
	    .layers = (int)cmd_int(a, "layers", 0),
	    .seed = (uint64_t)cmd_int(a, "seed", 0),
	    .from = cmd_string(a, "from", NULL),
	    .pattern = cmd_string(a, "pattern", NULL),
	    .shards = (int)cmd_int(a, "shards", 0),
	    .shard_bytes = cmd_bytes(a, "shard-size", 0),
	    .list_form = cmd_flag(a, "list-form"),
	    .latent = cmd_flag(a, "latent"),
	    .mtp = cmd_flag(a, "mtp"),
	    .puzzle = cmd_flag(a, "puzzle"),
	    .kv_fp8 = cmd_flag(a, "kv-fp8"),
	    .kv_bf16 = cmd_flag(a, "kv-bf16"),
	    .f32_params = cmd_flag(a, "f32-params"),
	    .force = cmd_flag(a, "force"),
	    .tokenizer = cmd_string(a, "tokenizer", NULL),
	    .log = &log,
	    .progress = cmd_progress_show,
	    .progress_user = &progress};
	o.config_count = cmd_list(a, "config", &o.config);
	if (o.kv_fp8 && o.kv_bf16) return cmd_bad_usage(a, "--kv-fp8 and --kv-bf16 exclude each other");
	if (o.from != NULL && cmd_flag(a, "tiny")) return cmd_bad_usage(a, "--tiny and --from exclude each other");
	if (like != NULL && (o.from != NULL || cmd_flag(a, "tiny"))) return cmd_bad_usage(a, "--like excludes --tiny and --from");
	if (cmd_given(a, "shard-size") && o.shard_bytes == 0) return cmd_bad_usage(a, "--shard-size: is 0, expected at least a byte");
	if (o.shards > 0 && o.shard_bytes > 0) return cmd_bad_usage(a, "--shards and --shard-size exclude each other");
	if (like == NULL && o.layers > 0) return cmd_bad_usage(a, "--layers needs --like");
	nh_error e = {0};
	nh_status s = mk_write(cmd_operand(a, 0), &o, &e);
	cmd_progress_clear(&progress);
	if (s == NH_OK) cmd_outf("%s\n", cmd_operand(a, 0));
	return s == NH_OK ? CMD_OK : s == NH_ERR_ARG ? cmd_bad_usage(a, "%s", e.text) : cmd_fail_error(a, s, &e);
}

static const cmd_option options[] = {{"tiny", 0, CMD_FLAG, NULL, "a small model with every kind of layer (the default)", 0, 0},
    {"from", 0, CMD_STRING, "CONFIG", "start from the keys of this config.json instead", 0, 0},
    {"like", 0, CMD_STRING, "NAME[:FORMAT]",
        "a published shape: lightning-30b, nano-30b, super-120b or ultra-550b;\n--format is then the release's unless given; the values "
        "are\nthose of --like where a model runs, so that both answer alike",
        0, 0},
    {"layers", 0, CMD_INT, "N", "with --like: the first N layers", 1, 1000},
    {"pattern", 'p', CMD_STRING, "LETTERS", "the layers: M mamba, * attention, - dense, E experts (default: MEM*E-)", 0, 0},
    {"format", 'f', CMD_CHOICE, "bf16|fp8|nvfp4|w4a16|mixed|super", "which layers are quantised, and how, as in the published releases", 0,
        0},
    {"config", 'c', CMD_LIST, "KEY=VALUE", "sets a key of config.json; may be repeated", 0, 0},
    {"seed", 's', CMD_INT, "N", "another seed gives other values (default: 0)", 0, 9e15},
    {"shards", 0, CMD_INT, "N", "number of safetensors files; above 1 with an index\n(default: as many as --shard-size asks for)", 1,
        99999},
    {"shard-size", 0, CMD_BYTES, "SIZE", "bytes of data in a file at most, such as 2G (default: 5 GB)", 0, 0},
    {"list-form", 0, CMD_FLAG, NULL, "the layers as layers_block_type instead of a string of letters", 0, 0},
    {"latent", 0, CMD_FLAG, NULL, "routed experts at half the hidden width", 0, 0},
    {"mtp", 0, CMD_FLAG, NULL, "a multi-token-prediction block", 0, 0},
    {"puzzle", 0, CMD_FLAG, NULL, "block_configs: widths, experts and windows that differ by layer", 0, 0},
    {"kv-fp8", 0, CMD_FLAG, NULL, "FP8 keys and values (the default where the format is quantised)", 0, 0},
    {"kv-bf16", 0, CMD_FLAG, NULL, "BF16 keys and values", 0, 0},
    {"f32-params", 0, CMD_FLAG, NULL, "A_log, D, dt_bias and routers in F32, with values that bf16 cannot hold", 0, 0},
    {"tokenizer", 0, CMD_STRING, "FILE", "a tokenizer.json to copy (default: one of bytes and letter pairs)", 0, 0},
    {"force", 0, CMD_FLAG, NULL, "write into a folder that has files; replaces a model there", 0, 0}, CMD_OPTION_QUIET, CMD_OPTION_END};

const cmd_def cmd_mkmodel = {
    .name = "mkmodel",
    .summary = "writes a random checkpoint of any shape and format",
    .usage = "OUT",
    .about = "Writes the folder OUT with random weights in the layout of the published checkpoints. The same options give the same\n"
             "bytes on every machine. The model can be run; it has nothing to say.",
    .examples = "nemotron mkmodel my-model\n"
                "nemotron mkmodel --format mixed --pattern MEMEM*E --list-form --mtp --shards 3 my-lightning\n"
                "nemotron mkmodel --format super --latent -c hidden_size=128 -c n_routed_experts=32 my-super\n"
                "nemotron mkmodel --like lightning-30b --layers 8 my-eight\n"
                "nemotron mkmodel --from config.json -c hidden_size=64 -c vocab_size=512 my-like\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
