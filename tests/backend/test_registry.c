/* SPDX-License-Identifier: Apache-2.0
 * test_registry.c: the arms of this build by place and by name.
 */
#include "test.h"

#include <string.h>

#include "backend/registry.h"

static void lists_and_finds(void **state)
{
	(void)state;
	int n = 0;
	for (; backend_at(n); n++) {
		assert_ptr_equal(backend_find(backend_at(n)->name), backend_at(n));
		assert_non_null(num_profile(backend_at(n)->default_profile));
		const backend *b = backend_at(n);
		assert_true(b->open && b->close && b->import && b->release && b->alloc && b->free && b->upload && b->download);
	}
	assert_true(n >= 1);
	assert_string_equal(backend_at(n - 1)->name, "ref"); /* the definition is always there */
	assert_null(backend_at(-1));
	assert_null(backend_find("REF"));
	assert_null(backend_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(lists_and_finds)};
	return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
