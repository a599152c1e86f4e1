/* SPDX-License-Identifier: Apache-2.0
 * test_api_struct.c: structs that carry their size: programs older and newer than the library.
 */
#include "api/api_impl.h"

#include <string.h>

#include "test.h"

typedef struct thing {
	size_t size;
	int a, b;
} thing;
typedef struct longer {
	size_t size;
	int a, b;
	int64_t c;
} longer;

static void in(void **state)
{
	(void)state;
	nh_error e = {0};
	thing t = {.a = 9, .b = 9};
	assert_int_equal(api_in(&t, sizeof t, NULL, "thing", &e), NH_OK);
	assert_int_equal(t.a, 9); /* defaults stay */
	struct {
		size_t size;
		int a;
	} old = {12, 5};
	assert_int_equal(api_in(&t, sizeof t, &old, "thing", &e), NH_OK);
	assert_int_equal(t.a, 5);
	assert_int_equal(t.b, 0);
	assert_int_equal(t.size, sizeof t);
	longer n = {.size = sizeof n, .a = 1, .b = 2};
	assert_int_equal(api_in(&t, sizeof t, &n, "thing", &e), NH_OK);
	assert_int_equal(t.b, 2);
	n.c = 1;
	assert_int_equal(api_in(&t, sizeof t, &n, "thing", &e), NH_ERR_UNSUPPORTED);
	assert_string_equal(e.text, "thing: byte 16 is set, this library knows 16 bytes: it is older than the program");
	n.size = 0;
	assert_int_equal(api_in(&t, sizeof t, &n, "thing", &e), NH_ERR_ARG);
	n.size = SIZE_MAX;
	assert_int_equal(api_in(&t, sizeof t, &n, "thing", &e), NH_ERR_ARG);
}

static void out(void **state)
{
	(void)state;
	struct {
		size_t size;
		int a, guard;
	} old = {.guard = 77};
	thing t = {.a = 3, .b = 4};
	api_out(&old, 12, &t, sizeof t);
	assert_int_equal(old.size, 12);
	assert_int_equal(old.a, 3);
	assert_int_equal(old.guard, 77);
	longer n = {.c = 6};
	api_out(&n, sizeof n, &t, sizeof t);
	assert_int_equal(n.size, sizeof n);
	assert_int_equal(n.b, 4);
	assert_int_equal(n.c, 6); /* not ours to touch */
	api_init(&n, sizeof n, &t, sizeof t);
	assert_int_equal(n.c, 0);
	api_out(NULL, 8, &t, sizeof t);
	api_out(&n, 4, &t, sizeof t);
}

static void init_functions(void **state)
{
	(void)state;
	nh_request_options o;
	memset(&o, 0xFF, sizeof o);
	nh_request_options_init(&o, sizeof o);
	assert_int_equal(o.size, sizeof o);
	assert_int_equal(o.max_tokens, -1);
	assert_true(o.top_p == 1 && o.repetition_penalty == 1 && o.temperature == 0);
	assert_null(o.trace);
	nh_engine_options eo;
	nh_engine_options_init(&eo, sizeof eo);
	assert_int_equal(eo.step_tokens, 0);
	nh_model_options mo;
	nh_model_options_init(&mo, sizeof mo);
	assert_int_equal(mo.log_level, NH_LOG_NOTICE);
	assert_int_equal(nh_version(), 0x000100);
	assert_string_equal(nh_version_text(), "0.1.0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(in), cmocka_unit_test(out), cmocka_unit_test(init_functions)};
	return cmocka_run_group_tests_name("api_struct", tests, NULL, NULL);
}
