/* SPDX-License-Identifier: Apache-2.0
 * test_seqfile.c: what was written is read back; a file with one byte less, one bit changed, or of another version is refused with the
 * reason and before anything is used; a write that fails leaves the file that was there.
 */
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cache/seqfile_impl.h"
#include "helper_host.h"

enum { N = 70, TOKENS = 73 };

typedef struct fixture {
	host h;
	seqmem m;
	int32_t ids[TOKENS];
	swapped *state;
	seqfile_head head;
	char folder[256], path[300];
} fixture;

static void set_up(fixture *f, const char *name)
{
	memset(f, 0, sizeof *f);
	host_prompt(f->ids, TOKENS, 0, 0, 11);
	host_open(&f->h, NUM_BF16, 2, 8);
	host_seqmem(&f->h, &f->m, 256);
	host_compute(&f->h, &f->m, f->ids, N);
	assert_int_equal(swap_copy(&f->state, &f->m, NULL), NH_OK);
	f->head = (seqfile_head){.tokens = TOKENS, .computed = N, .generated = 5, .segment = 64, .created = 1700000000};
	memset(f->head.identity, 'a', 64);
	snprintf(f->head.model, sizeof f->head.model, "tiny");
	snprintf(f->head.arm, sizeof f->head.arm, "toy");
	memset(f->head.tier, 't', sizeof f->head.tier - 1); /* full */
	snprintf(f->head.kv_dtype, sizeof f->head.kv_dtype, "bf16");
	host_folder(f->folder, name);
	snprintf(f->path, sizeof f->path, "%s/a.nhs", f->folder);
	assert_int_equal(seqfile_write(f->path, &f->head, f->ids, f->state, NULL), NH_OK);
}

static void tear_down(fixture *f)
{
	swap_free(f->state);
	seqmem_deinit(&f->m);
	host_close(&f->h);
	host_folder_remove(f->folder);
	assert_int_equal(mem_live(), 0);
}

static void assert_same_head(const seqfile_head *a, const seqfile_head *b)
{
	assert_string_equal(a->identity, b->identity);
	assert_string_equal(a->model, b->model);
	assert_string_equal(a->arm, b->arm);
	assert_string_equal(a->tier, b->tier);
	assert_string_equal(a->numerics, b->numerics);
	assert_string_equal(a->kv_dtype, b->kv_dtype);
	assert_true(a->tokens == b->tokens && a->computed == b->computed && a->generated == b->generated && a->segment == b->segment &&
	            a->created == b->created);
}

static void written_is_read(void **state)
{
	(void)state;
	fixture f;
	seqfile_head head;
	int32_t *ids;
	swapped *s;
	set_up(&f, "seqfile");
	assert_int_equal(seqfile_head_read(f.path, &head, NULL), NH_OK);
	assert_same_head(&head, &f.head);
	assert_int_equal(head.version, SEQFILE_VERSION);
	assert_int_equal(head.content_bytes, swap_bytes(f.state));
	memset(&head, 0, sizeof head);
	assert_int_equal(seqfile_read(f.path, &head, &ids, &f.h.s, &f.h.p, &s, NULL), NH_OK);
	assert_same_head(&head, &f.head);
	assert_memory_equal(ids, f.ids, sizeof f.ids);
	seqmem_release(&f.m);
	host_poison(&f.h);
	assert_int_equal(swap_in(s, &f.m, NULL), NH_OK);
	assert_int_equal(f.m.length, N);
	host_check(&f.h, &f.m, f.ids);
	mem_free(ids);
	swap_free(s);

	/* Nothing computed and no tokens: still a sequence. */
	swapped *none;
	seqfile_head empty = {.tokens = 0};
	assert_int_equal(swap_blank(&none, &f.h.s, &f.h.p, 0, NULL), NH_OK);
	assert_int_equal(seqfile_write(f.path, &empty, NULL, none, NULL), NH_OK);
	assert_int_equal(seqfile_read(f.path, &head, &ids, &f.h.s, &f.h.p, &s, NULL), NH_OK);
	assert_int_equal(head.tokens, 0);
	assert_int_equal(swap_length(s), 0);
	mem_free(ids);
	swap_free(s);
	swap_free(none);
	tear_down(&f);
}

/* The bytes of the format, independent of the code that walks over them. */
static void the_layout_is_what_it_is(void **state)
{
	(void)state;
	fixture f;
	buf b = {0};
	set_up(&f, "layout");
	assert_int_equal(file_read(f.path, 1 << 20, &b, NULL), NH_OK);
	const unsigned char *at = (const unsigned char *)b.data;
	assert_int_equal(SEQFILE_HEAD_BYTES, 308);
	assert_int_equal(b.len, 308 + TOKENS * 4 + swap_bytes(f.state) + 8);
	assert_memory_equal(at, "NHSEQ\0\0\0\1\0\0\0\0\0\0\0aaaa", 20);
	assert_string_equal((const char *)at + 16 + 68, "tiny");
	assert_string_equal((const char *)at + 16 + 68 + 64, "toy");
	assert_memory_equal(at + 260, "\x49\0\0\0\0\0\0\0\x46\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\xf1\x53\x65\0\0\0\0", 40);
	assert_memory_equal(at + 308, f.ids, sizeof f.ids);
	assert_memory_equal(at + 308 + sizeof f.ids, swap_content(f.state), swap_bytes(f.state));
	uint64_t sum = XXH3_64bits(at, b.len - 8);
	for (int i = 0; i < 8; i++) assert_int_equal(at[b.len - 8 + (size_t)i], (sum >> 8 * i) & 0xFF);
	buf_deinit(&b);
	tear_down(&f);
}

static nh_status read_bytes(fixture *f, const void *bytes, size_t n, nh_error *e)
{
	seqfile_head head;
	int32_t *ids = NULL;
	swapped *s = NULL;
	char nothing;
	FILE *in = n ? fmemopen((void *)(uintptr_t)bytes, n, "rb") : fmemopen(&nothing, 1, "rb");
	assert_non_null(in);
	memset(&head, 0x5A, sizeof head);
	nh_status r = seqfile_read_stream(in, n, "file", &head, &ids, &f->h.s, &f->h.p, &s, e);
	if (r != NH_OK) {
		assert_true(ids == NULL && s == NULL);
		for (size_t i = 0; i < sizeof head; i++) assert_int_equal(((unsigned char *)&head)[i], 0x5A);
	}
	mem_free(ids);
	swap_free(s);
	fclose(in);
	return r;
}

static void damage_is_refused(void **state)
{
	(void)state;
	fixture f;
	buf b = {0};
	nh_error e;
	set_up(&f, "damage");
	assert_int_equal(file_read(f.path, 1 << 20, &b, NULL), NH_OK);
	unsigned char *at = (unsigned char *)b.data;
	size_t cuts = 0, flips = 0;
	assert_int_equal(read_bytes(&f, at, b.len, &e), NH_OK);
	for (size_t n = 0; n < b.len; n += n < 400 || n + 20 > b.len ? 1 : 13, cuts++)
		assert_int_equal(read_bytes(&f, at, n, &e), NH_ERR_FORMAT);
	for (size_t i = 0; i < b.len; i += i < 700 || i + 20 > b.len ? 1 : 7, flips++) {
		at[i] ^= (unsigned char)(1u << i % 8);
		nh_status r = read_bytes(&f, at, b.len, &e);
		at[i] ^= (unsigned char)(1u << i % 8);
		assert_int_equal(r, i >= 8 && i < 12 ? NH_ERR_UNSUPPORTED : NH_ERR_FORMAT);
	}
	assert_true(cuts > 500 && flips > 1000);
	assert_int_equal(read_bytes(&f, at, b.len, &e), NH_OK);
	/* One byte more than it says. */
	buf_char(&b, 0);
	assert_int_equal(read_bytes(&f, b.data, b.len, &e), NH_ERR_FORMAT);
	buf_deinit(&b);
	tear_down(&f);
}

static void put_number(unsigned char *at, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(v >> 8 * i);
}

/* Files whose checksum is right and whose words are not. */
static void lies_are_refused(void **state)
{
	(void)state;
	static const struct {
		size_t at;
		int bytes;
		uint64_t value;
		nh_status status;
		const char *text;
	} LIES[] = {
	    {0, 1, 'M', NH_ERR_FORMAT, "file: not a sequence file"},
	    {8, 4, 2, NH_ERR_UNSUPPORTED, "file: version 2, expected 1"},
	    {8, 4, 0, NH_ERR_UNSUPPORTED, "file: version 0, expected 1"},
	    {12, 4, 1, NH_ERR_FORMAT, "file: the head is damaged"},
	    {16 + 67, 1, 'x', NH_ERR_FORMAT, "file: the head is damaged"},                /* behind the end of a text */
	    {16 + 68 + 64 + 32 + 31, 1, 'x', NH_ERR_FORMAT, "file: the head is damaged"}, /* a text without an end */
	    {260, 8, UINT64_MAX, NH_ERR_FORMAT, "file: tokens: -1, expected 0 to 274877906944"},
	    {260, 8, (uint64_t)1 << 39, NH_ERR_FORMAT, "file: tokens: 549755813888, expected 0 to 274877906944"},
	    {260, 8, TOKENS + 1, NH_ERR_FORMAT, " bytes, its head says "},
	    {260, 8, N - 1, NH_ERR_FORMAT, "file: computed: 70, expected 0 to the 69 tokens"},
	    {268, 8, UINT64_MAX, NH_ERR_FORMAT, "file: computed: -1, expected"},
	    {268, 8, N + 1, NH_ERR_FORMAT, "this model makes "},
	    {276, 8, TOKENS + 1, NH_ERR_FORMAT, "file: generated: 74, expected 0 to the 73 tokens"},
	    {276, 8, UINT64_MAX, NH_ERR_FORMAT, "file: generated: -1, expected"},
	    {284, 8, N + 1, NH_ERR_FORMAT, "file: segment: 71, expected 0 to the 70 computed tokens"},
	    {284, 8, UINT64_MAX, NH_ERR_FORMAT, "file: segment: -1, expected"},
	    {300, 8, UINT64_MAX, NH_ERR_FORMAT, "file: contents: 18446744073709551615 bytes, expected at most"},
	    {308 + 4, 4, 0xFFFFFFFF, NH_ERR_FORMAT, "file: token 1: -1, expected no negative id"},
	};
	fixture f;
	buf b = {0};
	nh_error e;
	set_up(&f, "lies");
	assert_int_equal(file_read(f.path, 1 << 20, &b, NULL), NH_OK);
	unsigned char *keep = mem_alloc(b.len), *at = (unsigned char *)b.data;
	memcpy(keep, at, b.len);
	for (size_t i = 0; i < ARRAY_LEN(LIES); i++) {
		memcpy(at, keep, b.len);
		put_number(at + LIES[i].at, LIES[i].value, LIES[i].bytes);
		put_number(at + b.len - 8, XXH3_64bits(at, b.len - 8), 8);
		assert_int_equal(read_bytes(&f, at, b.len, &e), LIES[i].status);
		if (!strstr(e.text, LIES[i].text)) fail_msg("lie %d: %s", (int)i, e.text);
	}
	memcpy(at, keep, b.len);
	/* Sizes are believed from the file, not from its head: nothing is allocated for what is not there. */
	seqfile_head head;
	FILE *in = fmemopen(at, b.len, "rb");
	assert_int_equal(seqfile_read_stream(in, SEQFILE_LIMIT + 1, "file", &head, NULL, NULL, NULL, NULL, &e), NH_ERR_LIMIT);
	assert_int_equal(seqfile_read_stream(in, b.len, "file", &head, NULL, NULL, NULL, NULL, &e), NH_OK);
	fclose(in);
	in = fmemopen(at, b.len - 10, "rb"); /* shorter than the file system said */
	assert_int_equal(seqfile_read_stream(in, b.len, "file", &head, NULL, NULL, NULL, NULL, &e), NH_ERR_IO);
	fclose(in);
	/* Another model's shapes. */
	host other;
	host_open(&other, NUM_E4M3, 2, 8);
	int32_t *ids;
	swapped *s;
	assert_int_equal(seqfile_read(f.path, &head, &ids, &other.s, &other.p, &s, &e), NH_ERR_FORMAT);
	assert_true(ids == NULL && s == NULL);
	host_close(&other);
	assert_int_equal(seqfile_head_read(f.folder, &head, &e), NH_ERR_IO);
	snprintf(f.path, sizeof f.path, "%s/none", f.folder);
	assert_int_equal(seqfile_head_read(f.path, &head, &e), NH_ERR_NOTFOUND);
	assert_non_null(strstr(e.text, "/none: "));
	mem_free(keep);
	buf_deinit(&b);
	tear_down(&f);
}

static void a_failed_write_leaves_what_was_there(void **state)
{
	(void)state;
	fixture f;
	nh_error e;
	seqfile_head head, bad;
	file_list l;
	set_up(&f, "failed");
	bad = f.head;
	bad.computed = N - 1;
	assert_int_equal(seqfile_write(f.path, &bad, f.ids, f.state, &e), NH_ERR_ARG);
	bad = f.head;
	bad.generated = TOKENS + 1;
	assert_int_equal(seqfile_write(f.path, &bad, f.ids, f.state, &e), NH_ERR_FORMAT);
	f.ids[3] = -f.ids[3] - 1;
	assert_int_equal(seqfile_write(f.path, &f.head, f.ids, f.state, &e), NH_ERR_FORMAT);
	f.ids[3] = -f.ids[3] - 1;

	/* A full disk: no file may grow beyond so much. */
	struct rlimit was, little;
	int full = 0;
	f.head.created = 5;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t most = 0; most < 16384; most += 1000, full++) {
		little = (struct rlimit){most, was.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
		nh_status r = seqfile_write(f.path, &f.head, f.ids, f.state, &e);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
		assert_int_equal(r, NH_ERR_IO);
	}
	assert_int_equal(full, 17);
	int failed = 0;
	for (;; failed++) {
		size_t live = mem_live();
		mem_fail_after((size_t)failed);
		nh_status r = seqfile_write(f.path, &f.head, f.ids, f.state, &e);
		mem_fail_after(SIZE_MAX);
		assert_int_equal(mem_live(), live);
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_NOMEM);
		assert_int_equal(seqfile_head_read(f.path, &head, &e), NH_OK);
		assert_int_equal(head.created, 1700000000);
	}
	assert_true(failed >= 2);
	assert_int_equal(seqfile_head_read(f.path, &head, &e), NH_OK);
	assert_int_equal(head.created, 5);
	assert_int_equal(file_list_dir(&l, f.folder, NULL), NH_OK); /* and no remains */
	assert_int_equal(l.count, 1);
	file_list_free(&l);
	int reads = 0;
	for (;; reads++) {
		int32_t *ids;
		swapped *s;
		mem_fail_after((size_t)reads);
		nh_status r = seqfile_read(f.path, &head, &ids, &f.h.s, &f.h.p, &s, &e);
		mem_fail_after(SIZE_MAX);
		mem_free(ids);
		swap_free(s);
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_NOMEM);
	}
	assert_int_equal(reads, 2);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(written_is_read),
	    cmocka_unit_test(the_layout_is_what_it_is),
	    cmocka_unit_test(damage_is_refused),
	    cmocka_unit_test(lies_are_refused),
	    cmocka_unit_test(a_failed_write_leaves_what_was_there),
	};
	return cmocka_run_group_tests_name("seqfile", tests, NULL, NULL);
}
