/* SPDX-License-Identifier: Apache-2.0
 * test_mkmodel.c: the command line of nemotron mkmodel through the built program; test_mk.c looks at what it writes.
 */
#include "helper_cmd.h"

#include <string.h>

#include "base/base_mem.h"

static void options_reach_the_files(void **state)
{
	(void)state;
	has(NULL, "$N mkmodel $D/a && grep -c hybrid_override_pattern $D/a/config.json", "/a\n1\n");
	has(NULL, "$N mkmodel --list-form -p ME $D/b && tr -d ' \\n' < $D/b/config.json", "\"layers_block_type\":[\"mamba\",\"moe\"]");
	has(NULL, "$N mkmodel -f mixed -c vocab_size=600 -c foo=bar $D/c && cat $D/c/config.json", "\"vocab_size\": 600");
	has(NULL, "cat $D/c/config.json", "\"foo\": \"bar\"");
	has(NULL, "cat $D/c/hf_quant_config.json", "\"quant_algo\": \"MIXED_PRECISION\"");
	has(NULL, "$N mkmodel --puzzle --mtp --shards 3 $D/d && cat $D/d/config.json && ls $D/d", "model-00002-of-00003.safetensors");
	has(NULL, "cat $D/d/config.json", "\"mtp_block_configs\"");
	has(NULL, "$N mkmodel --kv-fp8 $D/e && cat $D/e/hf_quant_config.json", "\"kv_cache_quant_algo\": \"FP8\"");
	has(NULL,
	    "$N mkmodel --tokenizer $D/a/tokenizer.json -c vocab_size=600 $D/f && cmp $D/f/tokenizer.json $D/a/tokenizer.json && echo same",
	    "same");
	has(NULL, "$N mkmodel --from $D/c/config.json -f fp8 -s 5 $D/g && cat $D/g/config.json", "\"quant_algo\": \"FP8\"");
	has(NULL, "$N inspect $D/g", "each used once");
	has(NULL, "$N inspect $D/d", "Nemotron-H Puzzle");
}

static void seeds_and_repetition(void **state)
{
	(void)state;
	has(NULL,
	    "$N mkmodel -s 1 $D/a && $N mkmodel -s 1 $D/b && $N mkmodel -s 2 $D/c && cmp $D/a/model.safetensors $D/b/model.safetensors && echo "
	    "same",
	    "same");
	says(NULL, 1, "cmp $D/a/model.safetensors $D/c/model.safetensors > /dev/null", "", NULL);
}

static void the_made_tokenizer_takes_any_text(void **state)
{
	(void)state;
	static const char text[] = "Hello world, na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC <|im_end|>\t\r\n  x";
	has(NULL, "$N mkmodel -c vocab_size=1200 $D/a", "/a\n");
	says(text, 0, "$N tokenize $D/a | $N tokenize --decode $D/a", text, NULL);
	says("the", 0, "$N tokenize --pieces $D/a", "134\tt\n486\the\n", NULL);
	says("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", 0, "$N template $D/a",
	    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think></think>", NULL);
	says(NULL, 0, "$N mkmodel -c vocab_size=100 $D/small && ls $D/small | grep -c tokenizer.json || true", NULL,
	    "no tokenizer.json is written");
}

/* Every format, plain, latent and puzzle, answers: with every op's contract checked. */
static void every_format_runs(void **state)
{
	(void)state;
	static const char *const formats[] = {"bf16", "fp8", "nvfp4", "w4a16", "mixed", "super"};
	static const char *const shapes[] = {
	    "", "--latent --mtp --list-form", "--puzzle --f32-params", "-p ME*ME-M -c n_group=2 -c use_bias=true -c mlp_bias=true"};
	size_t runs = 0;
	for (size_t f = 0; f < ARRAY_LEN(formats); f++) {
		for (size_t k = 0; k < ARRAY_LEN(shapes); k++, runs++) {
			outcome o = run_program(NULL, 0,
			    "$N mkmodel -q --force -f %s %s $D/m > /dev/null && $N run --check --ids -t 0 -n 5 $D/m '20 30 40 50 60 70 80 90 100 110'",
			    formats[f], shapes[k]);
			assert_true(o.out.len > 0);
			outcome_free(&o);
		}
	}
	print_message("%zu checkpoints ran\n", runs);
	assert_int_equal(runs, 24);
}

static void mistakes_are_named(void **state)
{
	(void)state;
	says(NULL, 2, "$N mkmodel", "", "something is missing");
	says(NULL, 2, "$N mkmodel -f int4 $D/x", "", "expected one of bf16|fp8");
	says(NULL, 2, "$N mkmodel -p MXM $D/x", "", "expected letters");
	says(NULL, 2, "$N mkmodel -c hidden_size $D/x", "", "KEY=VALUE");
	says(NULL, 2, "$N mkmodel --kv-fp8 --kv-bf16 $D/x", "", "exclude each other");
	says(NULL, 2, "$N mkmodel --tiny --from a $D/x", "", "exclude each other");
	says(NULL, 2, "$N mkmodel --shard-size 0 $D/x", "", "--shard-size");
	says(NULL, 2, "$N mkmodel --shards 2 --shard-size 1G $D/x", "", "exclude each other");
	says(NULL, 1, "$N mkmodel -c n_groups=3 $D/x", "", "n_groups");
	says(NULL, 1, "$N mkmodel $D/no/such/parent", "", "No such file");
	says(NULL, 1, "mkdir $D/full && echo > $D/full/file && $N mkmodel $D/full", "", "--force");
	says(NULL, 0, "$N mkmodel --force $D/full > /dev/null && ls $D | wc -l", "1\n", NULL); /* nothing else was left behind */
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(options_reach_the_files), ONE(seeds_and_repetition), ONE(the_made_tokenizer_takes_any_text),
	    ONE(every_format_runs), ONE(mistakes_are_named)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
