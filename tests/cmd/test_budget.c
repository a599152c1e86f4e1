/* SPDX-License-Identifier: Apache-2.0
 * test_budget.c: what a person waits for and what it takes: process start to the first token of the built-in model, and peak memory. Processor time is
 * judged (0.3 s), because the wall clock of a busy machine says nothing about the program; memory is the files' size and 100 MB.
 */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_file.h"

typedef struct {
	double processor_s, wall_s;
	long peak_kb;
	int status;
} usage;

static usage run(const char *const argv[])
{
	usage u = {0};
	struct rusage r;
	int64_t start = clock_us();
	pid_t child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0), dup2(null, 1), dup2(null, 2);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	assert_true(child > 0);
	assert_int_equal(wait4(child, &u.status, 0, &r), child);
	u.wall_s = (double)(clock_us() - start) / 1e6;
	u.processor_s = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
	u.peak_kb = r.ru_maxrss;
	return u;
}

static void first_token_comes_soon(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	NOT_RUN("a budget of the release build");
#endif
	const char *const argv[] = {NH_BINARY_DIR "/nemotron", "run", "What is a dog?", "-n", "1", NULL};
	if (!file_exists(argv[0])) NOT_RUN("%s is not built", argv[0]);
	double best = 1e9;
	usage u = {0};
	for (int i = 0; i < 3; i++) {
		u = run(argv);
		assert_int_equal(u.status, 0);
		if (u.processor_s < best) best = u.processor_s;
	}
	printf("BUDGET start to first token: %.3f s of processor time (%.3f s on the clock), limit 0.3\n", best, u.wall_s);
	assert_true(best > 0 && best < 0.3);
}

static void memory_is_the_files(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	NOT_RUN("a budget of the release build");
#endif
	const char *const argv[] = {NH_BINARY_DIR "/nemotron", "run", "Define patience.", "-n", "40", "--temperature", "0", NULL};
	if (!file_exists(argv[0])) NOT_RUN("%s is not built", argv[0]);
	file_list l;
	nh_error e = {0};
	long files = 0;
	assert_int_equal(file_list_dir(&l, NH_SOURCE_DIR "/models/tiny", &e), NH_OK);
	for (size_t i = 0; i < l.count; i++) {
		char path[600];
		struct stat st;
		snprintf(path, sizeof path, "%s/models/tiny/%s", NH_SOURCE_DIR, l.names[i]);
		assert_int_equal(stat(path, &st), 0);
		files += (long)st.st_size;
	}
	file_list_free(&l);
	usage u = run(argv);
	assert_int_equal(u.status, 0);
	printf("BUDGET peak memory: %ld kB, files %ld kB, limit files + 100 MB\n", u.peak_kb, files / 1000);
	assert_true(u.peak_kb > 1000 && u.peak_kb * 1024L <= files + 100000000L);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(first_token_comes_soon), cmocka_unit_test(memory_is_the_files)};
	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
