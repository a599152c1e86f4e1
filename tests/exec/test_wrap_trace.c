/* SPDX-License-Identifier: Apache-2.0
 * test_wrap_trace.c: what a line of a trace says, and which bits its digests see.
 */
#include "test.h"

#include <string.h>

#include "base/base_buf.h"
#include "base/base_mem.h"
#include "exec/wrap.h"
#include "helper_fake.h"

static void collect(void *user, const char *line)
{
	buf_str(user, line);
	buf_char(user, '\n');
}

/* Traces: equal for equal runs, different where one output bit differs, without data where memory is elsewhere. */
static void traces(void **state)
{
	(void)state;
	fake f;
	fake_init(&f);
	int looked = 0, digests = 0;
	for (int id = 0; id < OP_COUNT; id++) {
		char first[2048] = "";
		for (int round = 0; round < 3; round++) {
			buf text = {0};
			exec *x = wrap_trace_create(&f.x, true, collect, &text);
			call c;
			call_make(&c, (op_id)id);
			f.nan = round == 2; /* another output */
			x->layer = 4;
			run_call(x, &c);
			char head[64];
			snprintf(head, sizeof head, "%s layer=4 ", op_name((op_id)id));
			assert_int_equal(strncmp(text.data, head, strlen(head)), 0);
			assert_non_null(strstr(text.data, " > "));
			if (round == 0) {
				snprintf(first, sizeof first, "%s", text.data);
				op_desc d;
				op_describe((op_id)id, &c.a, &d);
				for (int i = 0; i < d.operands; i++) {
					char field[64];
					snprintf(field, sizeof field, " %s=", d.operand[i].field);
					assert_non_null(strstr(text.data, field));
					if (d.operand[i].out) assert_non_null(strstr(strstr(text.data, " > "), field)), digests++;
				}
			} else if (round == 1) {
				assert_string_equal(text.data, first);
			} else if (id != OP_sample_rows && id != OP_kv_write && id != OP_logit_edit && id != OP_state_copy && id != OP_page_copy &&
			           id != OP_all_reduce) {
				assert_string_not_equal(text.data, first); /* the others have no float output of their own */
			}
			looked++;
			call_free(&c);
			buf_deinit(&text);
			wrap_destroy(x);
		}
	}
	f.nan = false;
	assert_int_equal(looked, 3 * OP_COUNT);
	assert_int_equal(digests, 34);

	buf text = {0};
	exec *x = wrap_trace_create(&f.x, false, collect, &text);
	call c;
	call_make(&c, OP_add);
	x->layer = -1;
	run_call(x, &c);
	assert_string_equal(text.data, "add layer=-1 y=bf16[3,16] a=bf16[3,16] b=bf16[3,16]\n");
	f.fail_at = OP_add;
	run_call(x, &c);
	assert_non_null(strstr(text.data, "b=bf16[3,16] > failed\n"));
	call_free(&c);
	buf_deinit(&text);
	wrap_destroy(x);
	fake_deinit(&f);
}

/* The digest of a pool covers the slots that were written, each of them, and no other. */
static void trace_of_pools(void **state)
{
	(void)state;
	static const struct {
		op_id id;
		const char *field;
		int64_t unit; /* elements of a slot */
		int slots;
		bool written[PG * PT];
	} pools[] = {{OP_conv_step, "state", (TAPS - 1) * C, ST, {[0] = true, [1] = true, [2] = true}},
	    {OP_conv_scan, "state", (TAPS - 1) * C, ST, {[1] = true, [4] = true}},
	    {OP_ssm_step, "state", H * P * N, ST, {[0] = true, [1] = true, [2] = true}},
	    {OP_ssm_scan, "state", H * P * N, ST, {[1] = true, [4] = true}},
	    {OP_kv_write, "pages.k", KV * HD, PG * PT, {[0] = true, [18] = true}},
	    {OP_kv_write, "pages.v", KV * HD, PG * PT, {[0] = true, [18] = true}},
	    {OP_state_copy, "pool", H * P * N, ST, {[1] = true, [3] = true}},
	    {OP_page_copy, "pool", PT * KV * HD, PG, {[1] = true, [3] = true}}};
	fake f;
	fake_init(&f);
	int looked = 0;
	for (size_t i = 0; i < ARRAY_LEN(pools); i++) {
		buf plain = {0};
		for (int slot = -1; slot < pools[i].slots; slot++) {
			buf text = {0};
			exec *x = wrap_trace_create(&f.x, true, collect, &text);
			call c;
			call_make(&c, pools[i].id);
			tensor *pool = call_operand(&c, pools[i].field);
			/* The top exponent bit of the slot's last element. The fake adds to it as to all others. */
			if (slot >= 0) ((uint8_t *)pool->data)[(size_t)((slot + 1) * pools[i].unit) * num_bytes(pool->dtype) - 1] ^= 0x40;
			run_call(x, &c);
			if (slot < 0) {
				plain = text;
				memset(&text, 0, sizeof text);
			} else {
				if ((strcmp(text.data, plain.data) != 0) != pools[i].written[slot])
					fail_msg("%s.%s slot %d: %s%s", op_name(pools[i].id), pools[i].field, slot, plain.data, text.data);
				looked++;
			}
			call_free(&c);
			buf_deinit(&text);
			wrap_destroy(x);
		}
		buf_deinit(&plain);
	}
	assert_int_equal(looked, 5 * ST + 2 * PG * PT + PG);
	fake_deinit(&f);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(traces), cmocka_unit_test(trace_of_pools)};
	return cmocka_run_group_tests_name("wrap_trace", tests, NULL, NULL);
}
