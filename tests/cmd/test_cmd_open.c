/* SPDX-License-Identifier: Apache-2.0
 * test_cmd_open.c: opening without files: drawn weights of a folder's configuration, built-in shapes, routing that is drawn; and what is refused.
 */
#include "helper_cmd.h"

#include <string.h>

#include "base/base_mem.h"

#define TINY NH_SOURCE_DIR "/models/tiny"

static void drawn_weights_repeat_and_are_not_the_files(void **state)
{
	(void)state;
	static const char *const kinds[] = {"--load-format dummy", "--load-format dummy --uniform-routing", "--load-format auto"};
	char text[3][200];
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		for (int again = 0; again < 2; again++) {
			outcome o = run_program(NULL, 0, "$N run -q -m " TINY " %s --ids -t 0 -n 12 '98 31 46'", kinds[i]);
			assert_true(o.out.len > 4 && o.out.len < sizeof text[i]);
			if (again) assert_string_equal(text[i], o.out.data);
			memcpy(text[i], o.out.data, o.out.len + 1);
			outcome_free(&o);
		}
		for (size_t k = 0; k < i; k++) assert_string_not_equal(text[i], text[k]);
	}
}

/* The folder needs its configuration alone; text is refused by name where there is no tokenizer. */
static void a_configuration_is_enough(void **state)
{
	(void)state;
	has(NULL, "mkdir $D/c && cp " TINY "/config.json $D/c && $N run -q -m $D/c --load-format dummy --ids -t 0 -n 3 '1 2' | wc -w", "3");
	says(NULL, 1, "$N run -q -m $D/c --load-format dummy --raw -n 3 x", "", "no tokenizer.json");
	says(NULL, 1, "$N run -q -m $D/c --ids -n 3 '1 2'", "", NULL);
	has(NULL, "$N run -q -m $D/c --load-format dummy --check --ids -t 0 -n 3 --json '1 2'", "\"token_ids\"");
}

static void wrong_wishes_are_refused(void **state)
{
	(void)state;
	says(NULL, 1, "$N run --like nano --ids 1", "", "lightning-30b, nano-30b, super-120b, ultra-550b");
	says(NULL, 1, "$N run --like nano-30b:int4 --ids 1", "", "bf16, fp8, nvfp4");
	says(NULL, 1, "$N run --like super-120b --layers 89 --ids 1", "", "super-120b has 88");
	says(NULL, 1, "$N run -m " TINY " --load-format dummy --layers 2 --ids 1", "", "only a preset");
	says(NULL, 1, "$N run -m " TINY " --like nano-30b --ids 1", "", "exclude each other");
	says(NULL, 2, "$N run --like nano-30b Hello", "", "must be token ids");
	says(NULL, 2, "$N chat --like nano-30b", "", "no tokenizer");
	says(NULL, 2, "$N run --load-format other --ids 1", "", "load-format");
}

#define SMALL                                                                                                                    \
	"-c vocab_size=512 -c hidden_size=64 -c n_routed_experts=8 -c num_experts_per_tok=2 -c moe_intermediate_size=32 "            \
	"-c intermediate_size=32 -c moe_shared_expert_intermediate_size=64 -c mamba_num_heads=8 -c mamba_head_dim=16 -c n_groups=2 " \
	"-c ssm_state_size=16 -c num_attention_heads=4 -c head_dim=16"

static void a_checkpoint_like_a_release(void **state)
{
	(void)state;
	has(NULL, "$N mkmodel --like lightning-30b --layers 8 " SMALL " $D/l && $N inspect $D/l", "each used once");
	has(NULL, "cat $D/l/config.json", "MEMEM*EM");
	has(NULL, "cat $D/l/hf_quant_config.json", "MIXED_PRECISION");
	has(NULL, "$N mkmodel --like lightning-30b --layers 8 -f bf16 " SMALL " $D/b && $N inspect $D/b", "each used once");
	says(NULL, 0, "test -e $D/b/hf_quant_config.json || echo plain", "plain\n", NULL);
	says(NULL, 2, "$N mkmodel --layers 8 $D/x", "", "--layers needs --like");
	says(NULL, 2, "$N mkmodel --like nano $D/x", "", "expected a name that is one of");
	says(NULL, 2, "$N mkmodel --like nano-30b --tiny $D/x", "", "--like excludes");
}

int main(void)
{
	if (program_missing()) return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(drawn_weights_repeat_and_are_not_the_files, dir_setup, dir_teardown),
	    cmocka_unit_test_setup_teardown(a_configuration_is_enough, dir_setup, dir_teardown),
	    cmocka_unit_test_setup_teardown(wrong_wishes_are_refused, dir_setup, dir_teardown),
	    cmocka_unit_test_setup_teardown(a_checkpoint_like_a_release, dir_setup, dir_teardown)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
