/* SPDX-License-Identifier: Apache-2.0
 * test_base_file.c: reading, mapping, listing, digests, and that a half-written file never carries its final name.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"

static char g_dir[64]; /* a fresh folder for each test */

static int enter(void **state)
{
	(void)state;
	snprintf(g_dir, sizeof g_dir, "/tmp/test_base_file.XXXXXX");
	return mkdtemp(g_dir) ? 0 : -1;
}

static const char *at(const char *name)
{
	static char path[4][512];
	static unsigned turn;
	char *p = path[turn++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", g_dir, name);
	return p;
}

static int leave(void **state)
{
	(void)state;
	file_list l;
	if (file_list_dir(&l, g_dir, NULL) != NH_OK) return -1;
	for (size_t i = 0; i < l.count; i++)
		if (unlink(at(l.names[i])) != 0) rmdir(at(l.names[i]));
	file_list_free(&l);
	return rmdir(g_dir);
}

static size_t entries(void)
{
	file_list l;
	nh_error e;
	if (file_list_dir(&l, g_dir, &e) != NH_OK) fail_msg("%s", e.text);
	size_t n = l.count;
	file_list_free(&l);
	return n;
}

static void put(const char *name, const void *data, size_t len)
{
	FILE *f = fopen(at(name), "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *name, const char *text)
{
	buf b = {0};
	nh_error e;
	if (file_read(at(name), 1 << 20, &b, &e) != NH_OK) fail_msg("%s", e.text);
	assert_string_equal(b.data, text);
	buf_deinit(&b);
}

static void reads_up_to_the_limit(void **state)
{
	(void)state;
	buf b = {0};
	nh_error e;
	put("a", "12345", 5);
	assert_int_equal(file_read(at("a"), 5, &b, &e), NH_OK);
	assert_string_equal(b.data, "12345");
	buf_deinit(&b);
	assert_int_equal(file_read(at("a"), 4, &b, &e), NH_ERR_LIMIT);
	assert_null(b.data);
	assert_non_null(strstr(e.text, at("a")));
	assert_non_null(strstr(e.text, "4 bytes"));
	put("empty", "", 0);
	assert_int_equal(file_read(at("empty"), 0, &b, &e), NH_OK);
	assert_true(b.len == 0 && b.data && !b.data[0]);
	buf_deinit(&b);
	mem_fail_after(0);
	assert_int_equal(file_read(at("a"), 5, &b, &e), NH_ERR_NOMEM);
	mem_fail_after(SIZE_MAX);
	assert_int_equal(mem_live(), 0);
}

static void refuses_what_is_no_regular_file(void **state)
{
	(void)state;
	buf b = {0};
	file_map m;
	nh_error e;
	assert_int_equal(file_read(at("none"), 9, &b, &e), NH_ERR_NOTFOUND);
	assert_non_null(strstr(e.text, at("none")));
	assert_int_equal(file_read(g_dir, 9, &b, &e), NH_ERR_IO);
	assert_non_null(strstr(e.text, "a folder"));
	assert_int_equal(mkfifo(at("pipe"), 0600), 0);
	assert_int_equal(file_read(at("pipe"), 9, &b, &e), NH_ERR_IO); /* and does not wait for a writer */
	assert_int_equal(file_map_open(&m, at("pipe"), &e), NH_ERR_IO);
	assert_int_equal(file_map_open(&m, "/dev/zero", &e), NH_ERR_IO);
	assert_null(m.data);
	assert_int_equal(symlink("loop", at("loop")), 0);
	assert_int_equal(file_read(at("loop"), 9, &b, &e), NH_ERR_IO);
	assert_false(file_exists(at("loop")));
	assert_true(file_is_dir(g_dir) && file_exists(g_dir) && !file_is_dir(at("none")) && !file_is_dir(at("pipe")));
}

static void maps(void **state)
{
	(void)state;
	file_map m;
	nh_error e;
	enum { N = 100000 };
	uint8_t *data = mem_alloc(N);
	for (size_t i = 0; i < N; i++) data[i] = (uint8_t)(i * 7 + (i >> 8));
	put("m", data, N);
	assert_int_equal(file_map_open(&m, at("m"), &e), NH_OK);
	assert_int_equal(m.size, N);
	assert_memory_equal(m.data, data, N);
	file_map_drop(&m, 5000, 50000);
	file_map_drop(&m, 0, N);
	file_map_drop(&m, N, 1);              /* outside: ignored */
	file_map_drop(&m, 1, SIZE_MAX);       /* wraps: ignored */
	assert_memory_equal(m.data, data, N); /* dropped pages come back from the file */
	file_map_close(&m);
	file_map_close(&m);
	put("m0", "", 0);
	assert_int_equal(file_map_open(&m, at("m0"), &e), NH_OK);
	assert_true(m.size == 0 && m.data);
	file_map_close(&m);
	mem_free(data);
	assert_int_equal(mem_live(), 0);
}

static void writes_appear_whole(void **state)
{
	(void)state;
	file_writer w;
	nh_error e;
	put("out", "old", 3);
	assert_int_equal(file_writer_open(&w, at("out"), &e), NH_OK);
	file_writer_put(&w, "new", 3);
	file_writer_put(&w, " text", 5);
	assert_holds("out", "old");
	assert_int_equal(entries(), 2);
	assert_int_equal(file_writer_commit(&w, &e), NH_OK);
	assert_holds("out", "new text");
	assert_int_equal(entries(), 1);
	file_writer_abort(&w); /* safe after commit */
	assert_holds("out", "new text");
	assert_int_equal(mem_live(), 0);
}

static void aborted_writes_leave_nothing(void **state)
{
	(void)state;
	file_writer w, v;
	nh_error e;
	assert_int_equal(file_writer_open(&w, at("out"), &e), NH_OK);
	assert_int_equal(file_writer_open(&v, at("out"), &e), NH_OK); /* two at once do not meet */
	file_writer_put(&w, "1", 1);
	file_writer_put(&v, "2", 1);
	file_writer_abort(&w);
	assert_int_equal(file_writer_commit(&v, &e), NH_OK);
	assert_holds("out", "2");
	assert_int_equal(entries(), 1);
	memset(&w, 0, sizeof w);
	file_writer_abort(&w);
	assert_int_equal(mem_live(), 0);
}

/* The disk is full: writes fail past 64 KiB, at once for large pieces, at the flush for small ones. */
static void failed_writes_leave_nothing(void **state)
{
	(void)state;
	static char block[200000];
	struct rlimit old, tight;
	nh_error e;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	put("out", "old", 3);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = 65536;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	static const size_t pieces[] = {sizeof block, 70000, 1000};
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		file_writer w;
		e.text[0] = 0;
		assert_int_equal(file_writer_open(&w, at("out"), &e), NH_OK);
		for (size_t done = 0; done < sizeof block; done += pieces[i]) file_writer_put(&w, block, pieces[i]);
		errno = 0; /* the cause is remembered from where it happened */
		failed += file_writer_commit(&w, &e) == NH_ERR_IO && strstr(e.text, at("out")) && strstr(e.text, strerror(EFBIG));
	}
	file_writer w;
	assert_int_equal(file_writer_open(&w, at("out"), &e), NH_OK);
	file_writer_put(&w, block, 65536);
	file_writer_put(&w, block, 10); /* buffered: fails at the last flush only */
	failed += file_writer_commit(&w, &e) == NH_ERR_IO && strstr(e.text, strerror(EFBIG));
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, handler);
	assert_int_equal(failed, 4);
	assert_holds("out", "old");
	assert_int_equal(entries(), 1);
	assert_int_equal(mem_live(), 0);
}

static void unwritable_places_are_named(void **state)
{
	(void)state;
	file_writer w;
	nh_error e;
	assert_int_equal(file_writer_open(&w, at("no/such/folder"), &e), NH_ERR_NOTFOUND);
	assert_non_null(strstr(e.text, at("no/such/folder")));
	assert_int_equal(mkdir(at("sub"), 0700), 0);
	assert_int_equal(file_writer_open(&w, at("sub"), &e), NH_OK);
	file_writer_put(&w, "x", 1);
	assert_int_equal(file_writer_commit(&w, &e), NH_ERR_IO); /* a folder is in the way */
	assert_true(file_is_dir(at("sub")));
	assert_int_equal(entries(), 1);
	for (size_t n = 0; n < 2; n++) {
		mem_fail_after(n);
		assert_int_equal(file_writer_open(&w, at("x"), &e), NH_ERR_NOMEM);
		mem_fail_after(SIZE_MAX);
	}
	assert_int_equal(entries(), 1);
	assert_int_equal(mem_live(), 0);
}

/* Each single write fails once, and the ones behind it would succeed: the old file stays. Each single read: an error that names the file. */
static void one_failure_is_enough(void **state)
{
	(void)state;
	nh_error e;
	size_t writes = 0, reads = 0;
	put("out", "old", 3);
	for (bool hit = true; hit; writes += hit) {
		file_writer w = {0};
		mem_fault_set(MEM_FAULT_WRITE, writes, 1);
		nh_status s = file_writer_open(&w, at("out"), &e);
		if (s == NH_OK) file_writer_put(&w, "new", 3);
		if (s == NH_OK) s = file_writer_commit(&w, &e);
		hit = mem_fault_hits(MEM_FAULT_WRITE) > 0;
		mem_fault_set(MEM_FAULT_WRITE, SIZE_MAX, 0);
		assert_int_equal(s, hit ? NH_ERR_IO : NH_OK);
		if (hit) assert_non_null(strstr(e.text, at("out")));
		assert_holds("out", hit ? "old" : "new");
		assert_int_equal(entries(), 1);
	}
	for (bool hit = true; hit; reads += hit) {
		buf b = {0};
		file_map m = {0};
		file_list l = {0};
		FILE *f = NULL;
		size_t size;
		char three[3];
		mem_fault_set(MEM_FAULT_READ, reads, 1);
		nh_status s = file_read(at("out"), 10, &b, &e);
		if (s == NH_OK) s = file_map_open(&m, at("out"), &e);
		if (s == NH_OK) s = file_open(&f, &size, at("out"), &e);
		if (s == NH_OK && !file_get(f, three, 3)) s = ERR(&e, NH_ERR_IO, "%s: get", at("out"));
		if (s == NH_OK) s = file_list_dir(&l, at("."), &e);
		hit = mem_fault_hits(MEM_FAULT_READ) > 0;
		mem_fault_set(MEM_FAULT_READ, SIZE_MAX, 0);
		assert_int_equal(s, hit ? NH_ERR_IO : NH_OK);
		if (f) fclose(f);
		file_list_free(&l);
		file_map_close(&m);
		buf_deinit(&b);
		assert_int_equal(mem_live(), 0);
	}
	printf("%zu writes and %zu reads failed\n", writes, reads);
	assert_true(writes >= 6 && reads >= 10);
}

static void lists_sorted(void **state)
{
	(void)state;
	static const char *const names[] = {"b", "a", "\xC3\xA9", "B", ".hidden", "a10", "a2"};
	static const char *const sorted[] = {".hidden", "B", "a", "a10", "a2", "b", "\xC3\xA9"};
	file_list l;
	nh_error e;
	assert_int_equal(file_list_dir(&l, g_dir, &e), NH_OK);
	assert_int_equal(l.count, 0);
	file_list_free(&l);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) put(names[i], "", 0);
	assert_int_equal(file_list_dir(&l, g_dir, &e), NH_OK);
	assert_int_equal(l.count, ARRAY_LEN(sorted));
	for (size_t i = 0; i < l.count; i++) assert_string_equal(l.names[i], sorted[i]);
	file_list_free(&l);
	for (size_t n = 0; n < 8; n++) {
		mem_fail_after(n);
		assert_int_equal(file_list_dir(&l, g_dir, &e), NH_ERR_NOMEM);
		mem_fail_after(SIZE_MAX);
		assert_int_equal(mem_live(), 0);
	}
	assert_int_equal(file_list_dir(&l, at("none"), &e), NH_ERR_NOTFOUND);
	assert_int_equal(file_list_dir(&l, at("a"), &e), NH_ERR_IO);
	assert_non_null(strstr(e.text, at("a")));
}

static void joins_paths(void **state)
{
	(void)state;
	static const char *const rows[][3] = {
	    {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a//", "b", "a/b"}, {"/", "b", "/b"}, {"//", "b", "/b"}, {"", "b", "b"}, {"a", "", "a/"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *p = path_join(rows[i][0], rows[i][1]);
		assert_string_equal(p, rows[i][2]);
		mem_free(p);
	}
	assert_string_equal(path_base("a/b/c"), "c");
	assert_string_equal(path_base("c"), "c");
	assert_string_equal(path_base("a/"), "");
}

/* FIPS 180-4's examples, and the million letters a in pieces of an odd size. */
static void digests_known_texts(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
	    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	char hex[65];
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		sha256 *s = sha256_create();
		sha256_update(s, rows[i][0], strlen(rows[i][0]));
		sha256_finish(s, hex);
		assert_string_equal(hex, rows[i][1]);
	}
	char as[997];
	memset(as, 'a', sizeof as);
	sha256 *s = sha256_create();
	for (size_t left = 1000000; left;) {
		size_t n = left < sizeof as ? left : sizeof as;
		sha256_update(s, as, n);
		left -= n;
	}
	sha256_finish(s, hex);
	assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	mem_fail_after(0);
	assert_null(sha256_create());
	mem_fail_after(SIZE_MAX);
	assert_int_equal(mem_live(), 0);
}

typedef struct tally {
	int calls, stop_at;
	uint64_t done, total;
} tally;

static bool count_bytes(void *user, const char *what, uint64_t done, uint64_t total)
{
	tally *t = user;
	assert_string_equal(what, "bytes");
	assert_true(done > t->done && done <= total);
	t->done = done;
	t->total = total;
	return ++t->calls != t->stop_at;
}

static void digests_files(void **state)
{
	(void)state;
	enum { N = 2500000 };
	char hex[65], again[65];
	nh_error e;
	char *data = mem_alloc(N);
	for (size_t i = 0; i < N; i++) data[i] = (char)(i * i >> 3);
	put("big", data, N);
	sha256 *s = sha256_create();
	sha256_update(s, data, N);
	sha256_finish(s, hex);
	mem_free(data);
	tally t = {0};
	assert_int_equal(file_sha256(at("big"), again, count_bytes, &t, &e), NH_OK);
	assert_string_equal(again, hex);
	assert_true(t.calls == 3 && t.done == N && t.total == N);
	t = (tally){.stop_at = 2};
	assert_int_equal(file_sha256(at("big"), again, count_bytes, &t, &e), NH_ERR_CANCELLED);
	assert_int_equal(t.calls, 2);
	assert_string_equal(again, "");
	assert_int_equal(file_sha256(at("none"), again, NULL, NULL, &e), NH_ERR_NOTFOUND);
	put("empty", "", 0);
	assert_int_equal(file_sha256(at("empty"), again, NULL, NULL, &e), NH_OK);
	assert_string_equal(again, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_int_equal(mem_live(), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    IN_FOLDER(reads_up_to_the_limit),
	    IN_FOLDER(refuses_what_is_no_regular_file),
	    IN_FOLDER(maps),
	    IN_FOLDER(writes_appear_whole),
	    IN_FOLDER(aborted_writes_leave_nothing),
	    IN_FOLDER(failed_writes_leave_nothing),
	    IN_FOLDER(unwritable_places_are_named),
	    IN_FOLDER(one_failure_is_enough),
	    IN_FOLDER(lists_sorted),
	    cmocka_unit_test(joins_paths),
	    cmocka_unit_test(digests_known_texts),
	    IN_FOLDER(digests_files),
	};
	return cmocka_run_group_tests_name("base_file", tests, NULL, NULL);
}
