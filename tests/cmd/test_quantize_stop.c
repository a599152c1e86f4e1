/* SPDX-License-Identifier: Apache-2.0
 * test_quantize_stop.c: runs of nemotron quantize that do not reach the end: a full disk, a kill, Ctrl-C; continued, they give the bytes of a run that
 * was never stopped. And what is refused, before anything is written.
 */
#include "helper_cmd.h"

#include <string.h>

#include "base/base_mem.h"

#define TEXT                                                                                              \
	"A dog is an animal that barks. In the beginning was a word, and the word was small.\nHe has 12 red " \
	"apples; she has none, but 3 green pears!\n"

#define SAME "for f in $(cd $D/whole && ls -A); do cmp $D/whole/$f $D/q/$f || exit 9; done; test \"$(ls -A $D/q)\" = \"$(ls -A $D/whole)\""

static void a_full_disk_leaves_what_can_be_continued(void **state)
{
	(void)state;
	dir_put("text", TEXT);
	has(NULL, "$N mkmodel -q --shards 4 -c vocab_size=3000 $D/m && $N quantize -q $D/m $D/whole -f mixed --calibration $D/text",
	    "quantised");
	/* The first file holds the embedding and is the largest: with a limit between its size and the others' it fails as the first or, written before, is there. */
	says(NULL, 1, "(trap '' XFSZ; ulimit -f 100; exec $N quantize $D/m $D/q -f mixed --calibration $D/text)", "", "File too large");
	says(NULL, 0, "ls $D/q | grep -c tmp; test ! -e $D/q/config.json && test -e $D/q/quantize.state.json", NULL, NULL);
	says(NULL, 1, "$N quantize $D/m $D/q -f mixed --calibration $D/text", "", "--resume continues it");
	says(NULL, 1, "$N quantize $D/m $D/q -f nvfp4 --resume", "", "begun with another source or other options");
	says(NULL, 1, "$N quantize $D/m $D/q -f mixed --calibration $D/text --calibration-tokens 9 --resume", "", "calibration_tokens");
	says(NULL, 1, "$N mkmodel -q -s 4 $D/other && $N quantize $D/other $D/q -f mixed --calibration $D/text --resume", NULL, "source: is");
	has(NULL, "$N quantize -q $D/m $D/q -f mixed --calibration $D/text --resume -t 3", "quantised");
	says(NULL, 0, SAME, "", NULL);
	says(NULL, 1, "$N quantize $D/m $D/q -f mixed --calibration $D/text --resume", "", "is complete");
}

static void killed_and_resumed_is_the_same(void **state)
{
	(void)state;
	dir_put("text", TEXT);
	has(NULL,
	    "$N mkmodel -q --shards 6 -p MEM*E-ME -c hidden_size=256 -c vocab_size=2000 $D/m && $N quantize -q $D/m $D/whole -f fp8 "
	    "--calibration $D/text",
	    "quantised");
	static const char *const signals[] = {"KILL", "INT"};
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		outcome o = {0};
		bool stopped = false;
		/* Stopped as soon as a second file is there; a run that was faster than the shell is tried again. */
		for (int turn = 0; turn < 20 && !stopped; turn++) {
			o = run_program(NULL, 0,
			    "rm -rf $D/q; $N quantize -t 1 $D/m $D/q -f fp8 --calibration $D/text 2> $D/said & p=$!; while kill -0 $p 2> /dev/null && "
			    "test ! -e "
			    "$D/q/model-00002-of-00006.safetensors; do :; done; kill -%s $p 2> /dev/null; wait $p; test -e $D/q/quantize.state.json && "
			    "echo "
			    "stopped || true",
			    signals[i]);
			stopped = o.out.data != NULL && strstr(o.out.data, "stopped") != NULL;
			outcome_free(&o);
		}
		if (!stopped) NOT_RUN("the program is faster than the shell that stops it");
		says(NULL, 0, "test ! -e $D/q/config.json && ls $D/q | grep -c safetensors > /dev/null", NULL, NULL);
		if (i == 1) says(NULL, 0, "ls $D/q | grep tmp || grep -c resume $D/said", "1\n", NULL);
		dir_put("q/model-00006-of-00006.safetensors.tmp.1.0", "half"); /* as a killed run leaves it */
		has(NULL, "$N quantize -q $D/m $D/q -f fp8 --calibration $D/text --resume", "files were there already");
		says(NULL, 0, SAME, "", NULL);
	}
}

static void what_is_refused_is_refused_by_name(void **state)
{
	(void)state;
	dir_put("text", TEXT);
	dir_put("word", "");
	has(NULL, "$N mkmodel -q $D/m && $N mkmodel -q -f mixed $D/mixed && $N mkmodel -q --kv-fp8 $D/kv", "m");
	says(NULL, 2, "$N quantize $D/m $D/q", "", "--format is missing");
	says(NULL, 2, "$N quantize $D/m $D/q -f int4", "", "fp8|nvfp4|mixed");
	says(NULL, 2, "$N quantize $D/m $D/q -f fp8", "", "--calibration is missing");
	says(NULL, 2, "$N quantize $D/m $D/q -f mixed", "", "--calibration is missing");
	says(NULL, 2, "$N quantize $D/m $D/q -f fp8 --weight-only --calibration $D/text", "", "--weight-only goes with");
	says(NULL, 2, "$N quantize $D/m $D/q -f nvfp4 --kv-cache fp8", "", "needs --calibration");
	says(NULL, 1, "$N quantize $D/mixed $D/q -f nvfp4", "", "quantised already (MIXED_PRECISION, FP8 keys and values)");
	says(NULL, 1, "$N quantize $D/kv $D/q -f nvfp4", "", "quantised already");
	says(NULL, 1, "$N quantize $D/absent $D/q -f nvfp4", "", "absent");
	says(NULL, 1, "$N quantize $D/m $D/m -f nvfp4", "", "expected a new or empty folder");
	says(NULL, 1, "$N quantize $D/m $D/text -f nvfp4", "", "is not a folder");
	says(NULL, 1, "$N quantize $D/m $D/q -f fp8 --calibration $D/none", "", "none");
	says(NULL, 1, "$N quantize $D/m $D/q -f nvfp4 --eval $D/none", "", "none: is not there");
	says(NULL, 1, "$N quantize $D/m $D/q -f fp8 --calibration $D/word", "", "a calibration text needs more");
	says(NULL, 1, "$N quantize $D/m $D/no/such/q -f nvfp4", NULL, "No such file");
	says(NULL, 0, "test ! -e $D/q", "", NULL); /* nothing was begun */
	/* A null of that name is no quantisation, and does not stand there twice. */
	has(NULL,
	    "$N mkmodel -q -c quantization_config=null $D/null && $N quantize -q $D/null $D/q -f nvfp4 && grep -c quantization_config "
	    "$D/q/config.json",
	    "1\n");
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {
	    ONE(a_full_disk_leaves_what_can_be_continued), ONE(killed_and_resumed_is_the_same), ONE(what_is_refused_is_refused_by_name)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
