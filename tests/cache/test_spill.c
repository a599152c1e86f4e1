/* SPDX-License-Identifier: Apache-2.0
 * test_spill.c: the folder gives back what it was given, to the right prompt and tag only; it stays below its limit; what is damaged,
 * foreign, gone or not writable costs a counter and nothing else.
 */
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cache/seqfile_impl.h"
#include "cache/spill.h"
#include "helper_host.h"

enum { UNIT = 128, MOST = 1000 };

typedef struct fixture {
	host h;
	seqmem m;
	char folder[256];
	spill *s;
	jobs *writer; /* NULL: spill_store writes itself */
	int lines;    /* told to the log */
	logger log;
} fixture;

static void count_line(void *user, nh_log_level level, const char *text)
{
	(void)level;
	assert_non_null(strstr(text, "spill: "));
	++*(int *)user;
}

static void set_up(fixture *f, const char *name, uint64_t limit)
{
	memset(f, 0, sizeof *f);
	host_open(&f->h, NUM_BF16, 2, 20);
	host_seqmem(&f->h, &f->m, MOST);
	host_folder(f->folder, name);
	f->log = (logger){count_line, &f->lines, NH_LOG_WARN};
	assert_int_equal(spill_open(&f->s, f->folder, limit, "tag", &f->log, f->writer, NULL), NH_OK);
}

static void tear_down(fixture *f)
{
	spill_close(f->s);
	seqmem_deinit(&f->m);
	host_close(&f->h);
	host_folder_remove(f->folder);
	assert_int_equal(mem_live(), 0);
}

static void reopen(fixture *f, uint64_t limit, const char *tag)
{
	spill_close(f->s);
	assert_int_equal(spill_open(&f->s, f->folder, limit, tag, &f->log, f->writer, NULL), NH_OK);
}

static void store_in(fixture *f, spill *s, const int32_t *ids, int64_t length)
{
	swapped *copy;
	host_compute(&f->h, &f->m, ids, length);
	assert_int_equal(swap_out(&copy, &f->m, NULL), NH_OK);
	spill_store(s, ids, length, copy);
}

static void store(fixture *f, const int32_t *ids, int64_t length) { store_in(f, f->s, ids, length); }

/* The length that is found, 0: none; and what is found is right. */
static int64_t find(fixture *f, const int32_t *ids, int64_t n, int64_t longer_than)
{
	swapped *copy;
	assert_int_equal(spill_find(f->s, ids, n, longer_than, UNIT, &f->h.s, &f->h.p, &copy, NULL), NH_OK);
	if (!copy) return 0;
	host_poison(&f->h);
	assert_int_equal(swap_in(copy, &f->m, NULL), NH_OK);
	host_check(&f->h, &f->m, ids);
	seqmem_release(&f->m);
	int64_t length = swap_length(copy);
	swap_free(copy);
	return length;
}

static spill_stats stats_of(const fixture *f)
{
	spill_stats s;
	spill_get_stats(f->s, &s);
	return s;
}

static size_t files_in(const char *folder)
{
	file_list l;
	assert_int_equal(file_list_dir(&l, folder, NULL), NH_OK);
	size_t n = l.count;
	file_list_free(&l);
	return n;
}

/* The path of the nth file of the folder, by name. */
static void nth_path(const fixture *f, size_t n, char path[400])
{
	file_list l;
	assert_int_equal(file_list_dir(&l, f->folder, NULL), NH_OK);
	assert_true(n < l.count);
	snprintf(path, 400, "%s/%s", f->folder, l.names[n]);
	file_list_free(&l);
}

static void stored_is_found(void **state)
{
	(void)state;
	static int32_t ids[MOST], other[MOST];
	fixture f;
	int found = 0;
	host_prompt(ids, MOST, MOST, 1, 0);
	host_prompt(other, MOST, 300, 1, 5);
	set_up(&f, "stored", 1 << 22);
	for (int64_t units = 1; units <= 5; units += 2) store(&f, ids, units * UNIT);
	store(&f, other, 4 * UNIT);
	for (int again = 0; again < 2; again++) {
		for (int64_t n = 1; n < 800; n += 9, found++) {
			int64_t want = n > 5 * UNIT ? 5 * UNIT : n > 3 * UNIT ? 3 * UNIT : n > UNIT ? UNIT : 0;
			assert_int_equal(find(&f, ids, n, 0), want);
			assert_int_equal(find(&f, ids, n, 3 * UNIT), want > 3 * UNIT ? want : 0);
		}
		assert_int_equal(find(&f, ids, 5 * UNIT, 0), 3 * UNIT); /* at most n - 1 */
		assert_int_equal(find(&f, ids, 5 * UNIT + 1, 0), 5 * UNIT);
		assert_int_equal(find(&f, other, 900, 0), 4 * UNIT);
		assert_int_equal(find(&f, other, 500, 0), UNIT);
		reopen(&f, 1 << 22, "tag");
		if (again == 0) assert_int_equal(stats_of(&f).bytes > 0, 1);
	}
	assert_int_equal(found, 2 * 89);
	/* Stored twice is stored once. */
	store(&f, ids, UNIT);
	assert_int_equal(stats_of(&f).stored, 0);
	assert_int_equal(files_in(f.folder), 4);
	/* Only at multiples of the unit that is asked for. */
	swapped *copy;
	assert_int_equal(spill_find(f.s, ids, 900, 0, 2 * UNIT, &f.h.s, &f.h.p, &copy, NULL), NH_OK);
	assert_null(copy);
	/* Another tag has its own files, and leaves these alone. */
	reopen(&f, 1 << 22, "another tag");
	assert_int_equal(stats_of(&f).bytes, 0);
	reopen(&f, 1, "another tag");
	assert_int_equal(find(&f, ids, 900, 0), 0);
	assert_int_equal(stats_of(&f).bytes, 0);
	assert_int_equal(files_in(f.folder), 4);
	reopen(&f, 1 << 22, "tag");
	assert_int_equal(find(&f, ids, 900, 0), 5 * UNIT);
	assert_int_equal(f.lines, 0);
	tear_down(&f);
}

static uint64_t bytes_on_disk(const char *folder)
{
	file_list l;
	uint64_t sum = 0;
	assert_int_equal(file_list_dir(&l, folder, NULL), NH_OK);
	for (size_t i = 0; i < l.count; i++) {
		struct stat st;
		char path[400];
		snprintf(path, sizeof path, "%s/%s", folder, l.names[i]);
		assert_int_equal(stat(path, &st), 0);
		sum += (uint64_t)st.st_size;
	}
	file_list_free(&l);
	return sum;
}

static void the_oldest_go_first(void **state)
{
	(void)state;
	enum { PROMPTS = 6 };
	static int32_t ids[PROMPTS][UNIT * 2 + 1];
	fixture f;
	set_up(&f, "oldest", 1 << 22);
	for (int i = 0; i < PROMPTS; i++) host_prompt(ids[i], 2 * UNIT + 1, 0, 0, (uint64_t)i + 1);
	store(&f, ids[0], UNIT);
	const uint64_t one = stats_of(&f).bytes;
	assert_int_equal(one, SEQFILE_HEAD_BYTES + 4 * UNIT + swap_content_bytes(&f.h.s, &f.h.p, UNIT) + 8);
	assert_int_equal(one, bytes_on_disk(f.folder));
	reopen(&f, 3 * one, "tag");
	for (int i = 1; i < 3; i++) store(&f, ids[i], UNIT);
	assert_int_equal(find(&f, ids[0], UNIT + 1, 0), UNIT); /* 1 is the oldest now */
	store(&f, ids[3], UNIT);
	assert_int_equal(bytes_on_disk(f.folder), 3 * one);
	assert_int_equal(find(&f, ids[1], UNIT + 1, 0), 0);
	store(&f, ids[2], UNIT); /* used again: 0 is the oldest */
	/* The order outlives the process. */
	char path[400];
	struct timespec when[2] = {{0}};
	for (size_t i = 0; i < 3; i++) { /* the clock of the file system may be coarse: spell out the order */
		nth_path(&f, i, path);
		seqfile_head head;
		int32_t *own;
		swapped *copy;
		assert_int_equal(seqfile_read(path, &head, &own, &f.h.s, &f.h.p, &copy, NULL), NH_OK);
		for (int k = 0; k < 4; k++) {
			static const int ORDER[] = {1, 9, 3, 2};
			if (memcmp(own, ids[k], UNIT * sizeof **ids) == 0)
				for (int j = 0; j < 2; j++) when[j] = (struct timespec){1000 + ORDER[k], 0};
		}
		assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
		mem_free(own);
		swap_free(copy);
	}
	reopen(&f, 3 * one, "tag"); /* oldest first: 0, 3, 2 */
	assert_int_equal(find(&f, ids[0], UNIT + 1, 0), UNIT);
	reopen(&f, 3 * one, "tag"); /* 3, 2, 0: reading told the file system */
	store(&f, ids[4], UNIT);
	assert_int_equal(find(&f, ids[3], UNIT + 1, 0), 0);
	assert_int_equal(find(&f, ids[0], UNIT + 1, 0), UNIT);
	assert_int_equal(find(&f, ids[2], UNIT + 1, 0), 0 + UNIT);
	/* A smaller limit cuts at once; a file that is larger than the limit is not tried. */
	reopen(&f, one, "tag");
	assert_int_equal(bytes_on_disk(f.folder), one);
	store(&f, ids[5], 2 * UNIT);
	assert_int_equal(bytes_on_disk(f.folder), one);
	assert_int_equal(stats_of(&f).stored, 0);
	assert_int_equal(stats_of(&f).failed_writes, 0);
	reopen(&f, 0, "tag");
	assert_int_equal(files_in(f.folder), 0);
	store(&f, ids[5], UNIT);
	assert_int_equal(files_in(f.folder), 0);
	tear_down(&f);
}

static void flip(const char *path, long at)
{
	FILE *file = fopen(path, "r+b");
	assert_non_null(file);
	assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
	int c = fgetc(file);
	assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
	fputc(c ^ 4, file);
	fclose(file);
}

static void what_does_not_verify_is_deleted(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	static const long AT[] = {0, 8, 30, 265, 400, 2000, -1};
	fixture f;
	char path[400];
	int damaged = 0;
	host_prompt(ids, MOST, MOST, 1, 0);
	set_up(&f, "damaged", 1 << 22);
	for (size_t i = 0; i < ARRAY_LEN(AT) + 2; i++, damaged++) {
		store(&f, ids, 2 * UNIT);
		nth_path(&f, 0, path);
		if (i < ARRAY_LEN(AT)) flip(path, AT[i]);
		else assert_int_equal(truncate(path, i == ARRAY_LEN(AT) ? 0 : 1000), 0);
		store(&f, ids, UNIT); /* the next best is found instead */
		if (i % 2) reopen(&f, 1 << 22, "tag");
		spill_stats before = stats_of(&f), after;
		assert_int_equal(find(&f, ids, 900, 0), UNIT);
		after = stats_of(&f);
		assert_int_equal(after.rejected, before.rejected + 1);
		assert_int_equal(after.loaded, before.loaded + 1);
		assert_int_equal(files_in(f.folder), 1);
		assert_int_equal(find(&f, ids, 900, UNIT), 0);
		nth_path(&f, 0, path);
		assert_int_equal(unlink(path), 0);
		reopen(&f, 1 << 22, "tag");
	}
	assert_int_equal(damaged, 9);
	assert_int_equal(f.lines, 9);
	tear_down(&f);
}

/* A good file under the name of other ids, of another length, of another tag. */
static void names_prove_nothing(void **state)
{
	(void)state;
	static int32_t ids[MOST], other[MOST];
	fixture f;
	char a[400], b[400];
	host_prompt(ids, MOST, MOST, 1, 0);
	host_prompt(other, MOST, MOST, 2, 0);
	set_up(&f, "names", 1 << 22);
	store(&f, ids, UNIT);
	nth_path(&f, 0, a);
	store(&f, other, UNIT);
	nth_path(&f, 0, b);
	if (strcmp(a, b) == 0) nth_path(&f, 1, b);
	assert_int_equal(rename(b, a), 0); /* `other` where `ids` is looked for */
	assert_int_equal(find(&f, ids, 900, 0), 0);
	assert_int_equal(find(&f, other, 900, 0), 0); /* gone */
	assert_int_equal(stats_of(&f).rejected, 0);
	assert_int_equal(files_in(f.folder), 1); /* a good file, only in the way */
	assert_int_equal(unlink(a), 0);
	reopen(&f, 1 << 22, "tag");
	store(&f, ids, 2 * UNIT);
	nth_path(&f, 0, b);
	store(&f, ids, UNIT);
	assert_int_equal(rename(b, a), 0);
	assert_int_equal(find(&f, ids, 900, 0), 0);
	assert_int_equal(stats_of(&f).rejected, 1);
	assert_int_equal(files_in(f.folder), 0);
	/* The head of another tag. */
	reopen(&f, 1 << 22, "other tag");
	store(&f, ids, UNIT);
	nth_path(&f, 0, b);
	assert_int_equal(rename(b, a), 0);
	reopen(&f, 1 << 22, "tag");
	assert_int_equal(find(&f, ids, 900, 0), 0);
	assert_int_equal(stats_of(&f).rejected, 1);
	assert_int_equal(files_in(f.folder), 0);
	tear_down(&f);
}

static void write_file(const char *folder, const char *name, time_t when)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fputs("strange", file);
	fclose(file);
	struct timespec times[2] = {{when, 0}, {when, 0}};
	if (when) assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void strange_files_are_left_alone(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	fixture f;
	char path[400], name[200], sub[512];
	host_prompt(ids, MOST, MOST, 1, 0);
	set_up(&f, "strange", 1 << 22);
	store(&f, ids, UNIT);
	nth_path(&f, 0, path);
	char stem[100];
	snprintf(stem, sizeof stem, "%.16s", path_base(path)); /* our tag */
	static const char *const STRANGE[] = {"readme.txt", "x.nhs", "%s.nhs", "%s-0123456789abcdef-12", "%s-0123456789abcdeF-128.nhs",
	    "%s-0123456789abcdef-0.nhs", "%s-0123456789abcdef-0128.nhs", "%s-0123456789abcdef--28.nhs", "%s-0123456789abcdef-128.nhsx",
	    "%s-0123456789abcdef-99999999999999999999999999.nhs", "0123456789abcdef-0123456789abcdef-128.nhs", "%s-0123", "%s-"};
	for (size_t i = 0; i < ARRAY_LEN(STRANGE); i++) {
		const char *mark = strstr(STRANGE[i], "%s");
		snprintf(name, sizeof name, "%s%s", mark ? stem : "", mark ? mark + 2 : STRANGE[i]);
		write_file(f.folder, name, 0);
	}
	snprintf(sub, sizeof sub, "%s/%s-1123456789abcdef-128.nhs", f.folder, stem);
	assert_int_equal(mkdir(sub, 0777), 0);
	/* Remains of a write that was cut off: deleted when they are old. */
	snprintf(name, sizeof name, "%s-2123456789abcdef-128.nhs.tmp.77.1", stem);
	write_file(f.folder, name, time(NULL) - 2 * 3600);
	snprintf(name, sizeof name, "%s-2123456789abcdef-128.nhs.tmp.77.2", stem);
	write_file(f.folder, name, 0);
	const size_t all = files_in(f.folder);
	assert_int_equal(all, 1 + ARRAY_LEN(STRANGE) + 3);
	reopen(&f, 1 << 22, "tag");
	assert_int_equal(files_in(f.folder), all - 1);
	assert_int_equal(find(&f, ids, 900, 0), UNIT);
	reopen(&f, 0, "tag"); /* all of its own go, and only they */
	assert_int_equal(files_in(f.folder), all - 2);
	assert_int_equal(f.lines, 0);
	/* Places that cannot be a folder. */
	nh_error e;
	spill *s;
	snprintf(sub, sizeof sub, "%s/readme.txt", f.folder);
	assert_int_equal(spill_open(&s, sub, 1, "tag", NULL, NULL, &e), NH_ERR_IO);
	assert_non_null(strstr(e.text, "readme.txt: is there already, expected a folder"));
	snprintf(sub, sizeof sub, "%s/readme.txt/x", f.folder);
	assert_int_equal(spill_open(&s, sub, 1, "tag", NULL, NULL, &e), NH_ERR_IO);
	assert_null(s);
	snprintf(sub, sizeof sub, "%s/new", f.folder);
	assert_int_equal(spill_open(&s, sub, 1, "tag", NULL, NULL, &e), NH_OK);
	assert_true(file_is_dir(sub));
	spill_close(s);
	spill_close(NULL);
	tear_down(&f);
}

static void a_full_disk_is_no_error(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	fixture f;
	struct rlimit was, little;
	host_prompt(ids, MOST, MOST, 1, 0);
	set_up(&f, "full", 1 << 22);
	store(&f, ids, UNIT);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_IGN);
	little = (struct rlimit){9000, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	for (int64_t i = 2; i < 5; i++) store(&f, ids, i * UNIT);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	spill_stats s = stats_of(&f);
	assert_int_equal(s.failed_writes, 3);
	assert_int_equal(s.stored, 1);
	assert_int_equal(f.lines, 1); /* told once */
	assert_int_equal(files_in(f.folder), 1);
	assert_int_equal(find(&f, ids, 900, 0), UNIT);
	/* The folder is taken away and comes back. */
	char path[400], aside[300];
	nth_path(&f, 0, path);
	snprintf(aside, sizeof aside, "%s_aside", f.folder);
	assert_int_equal(rename(f.folder, aside), 0);
	store(&f, ids, 2 * UNIT);
	assert_int_equal(stats_of(&f).failed_writes, 4);
	assert_int_equal(find(&f, ids, 900, 0), 0);
	assert_int_equal(rename(aside, f.folder), 0);
	store(&f, ids, 2 * UNIT);
	assert_int_equal(find(&f, ids, 900, 0), 2 * UNIT);
	tear_down(&f);
}

/* Two processes with one folder: each deletes files under the other's hands, and writes the same ones. */
static void two_share_a_folder(void **state)
{
	(void)state;
	static int32_t ids[4][UNIT + 1];
	fixture f;
	spill *other;
	for (int i = 0; i < 4; i++) host_prompt(ids[i], UNIT + 1, 0, 0, (uint64_t)i + 1);
	set_up(&f, "two", 1 << 22);
	for (int i = 0; i < 2; i++) store(&f, ids[i], UNIT);
	assert_int_equal(spill_open(&other, f.folder, 1 << 22, "tag", NULL, NULL, NULL), NH_OK);
	store_in(&f, other, ids[2], UNIT);
	store(&f, ids[2], UNIT); /* the same file again */
	assert_int_equal(files_in(f.folder), 3);
	const uint64_t one = stats_of(&f).bytes / 3;
	spill_close(other);
	assert_int_equal(spill_open(&other, f.folder, one, "tag", NULL, NULL, NULL), NH_OK); /* deletes two */
	assert_int_equal(files_in(f.folder), 1);
	int found = 0;
	for (int i = 0; i < 3; i++) found += find(&f, ids[i], UNIT + 1, 0) > 0;
	assert_int_equal(found, 1);
	spill_stats s = stats_of(&f);
	assert_int_equal(s.rejected, 0);
	assert_int_equal(s.bytes, one);
	store(&f, ids[3], UNIT);
	assert_int_equal(find(&f, ids[3], UNIT + 1, 0), UNIT);
	spill_close(other);
	tear_down(&f);
}

/* A writer that is busy with something else until it is told. */
typedef struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool open;
} gate;

static void wait_at(void *user)
{
	gate *g = user;
	pthread_mutex_lock(&g->lock);
	while (!g->open) pthread_cond_wait(&g->moved, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void open_gate(gate *g, bool open)
{
	pthread_mutex_lock(&g->lock);
	g->open = open;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

static void set_up_beside(fixture *f, gate *g, const char *name, uint64_t limit)
{
	set_up(f, name, limit);
	*g = (gate){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	assert_int_equal(jobs_create(&f->writer, 1, NULL), NH_OK);
	reopen(f, limit, "tag");
	assert_int_equal(jobs_submit(f->writer, wait_at, g), NH_OK);
}

static void tear_down_beside(fixture *f)
{
	spill_close(f->s);
	f->s = NULL;
	jobs_destroy(f->writer);
	tear_down(f);
}

static void written_beside_the_engine(void **state)
{
	(void)state;
	static int32_t ids[MOST], other[MOST];
	fixture f;
	gate g;
	host_prompt(ids, MOST, MOST, 1, 0);
	host_prompt(other, MOST, MOST, 2, 0);
	set_up_beside(&f, &g, "beside", 1 << 22);
	for (int64_t units = 1; units <= 3; units++) store(&f, ids, units * UNIT);
	store(&f, other, 2 * UNIT);
	store(&f, ids, UNIT); /* on its way already */
	assert_int_equal(stats_of(&f).pending, 4);
	assert_int_equal(stats_of(&f).stored, 0);
	assert_int_equal(files_in(f.folder), 0);
	/* Found before there is a file, with the right bits; each time anew. */
	for (int again = 0; again < 2; again++) {
		assert_int_equal(find(&f, ids, 900, 0), 3 * UNIT);
		assert_int_equal(find(&f, ids, 3 * UNIT, 0), 2 * UNIT);
		assert_int_equal(find(&f, other, 900, 0), 2 * UNIT);
		assert_int_equal(find(&f, other, 900, 2 * UNIT), 0);
	}
	assert_int_equal(stats_of(&f).loaded, 6);
	open_gate(&g, true);
	jobs_drain(f.writer);
	assert_int_equal(files_in(f.folder), 4);
	assert_int_equal(stats_of(&f).pending, 4);         /* not looked at yet */
	assert_int_equal(find(&f, ids, 900, 0), 3 * UNIT); /* from the file: the memory is given back */
	assert_int_equal(stats_of(&f).pending, 0);
	assert_int_equal(stats_of(&f).stored, 4);
	assert_int_equal(stats_of(&f).bytes, bytes_on_disk(f.folder));
	/* Closing waits for what is on its way. */
	open_gate(&g, false);
	assert_int_equal(jobs_submit(f.writer, wait_at, &g), NH_OK);
	store(&f, other, 5 * UNIT);
	open_gate(&g, true);
	reopen(&f, 1 << 22, "tag");
	assert_int_equal(files_in(f.folder), 5);
	assert_int_equal(find(&f, other, 900, 0), 5 * UNIT);
	assert_int_equal(f.lines, 0);
	tear_down_beside(&f);
}

/* So much may be on its way; what comes then is lost and counted, and nobody waits. */
static void a_slow_disk_is_not_waited_for(void **state)
{
	(void)state;
	static int32_t ids[SPILL_PENDING + 1][UNIT + 1];
	fixture f;
	gate g;
	set_up_beside(&f, &g, "slow", 1 << 22);
	for (int i = 0; i <= SPILL_PENDING; i++) {
		host_prompt(ids[i], UNIT + 1, 0, 0, (uint64_t)i + 1);
		store(&f, ids[i], UNIT);
	}
	assert_int_equal(stats_of(&f).pending, SPILL_PENDING);
	assert_int_equal(stats_of(&f).dropped, 1);
	assert_int_equal(find(&f, ids[SPILL_PENDING], UNIT + 1, 0), 0);
	open_gate(&g, true);
	jobs_drain(f.writer);
	store(&f, ids[SPILL_PENDING], UNIT);
	assert_int_equal(stats_of(&f).dropped, 1);
	jobs_drain(f.writer);
	spill_adopt(f.s);
	assert_int_equal(files_in(f.folder), SPILL_PENDING + 1);
	assert_int_equal(stats_of(&f).stored, SPILL_PENDING + 1);
	/* What is on its way is not deleted to make room for another. */
	const uint64_t one = stats_of(&f).bytes / (SPILL_PENDING + 1);
	reopen(&f, 2 * one, "tag");
	assert_int_equal(files_in(f.folder), 2);
	open_gate(&g, false);
	assert_int_equal(jobs_submit(f.writer, wait_at, &g), NH_OK);
	for (int i = 0; i < 3; i++) store(&f, ids[i], UNIT);
	assert_int_equal(files_in(f.folder), 0);
	assert_int_equal(stats_of(&f).dropped, 1);
	assert_int_equal(stats_of(&f).bytes, 2 * one);
	open_gate(&g, true);
	reopen(&f, 2 * one, "tag");
	assert_int_equal(find(&f, ids[0], UNIT + 1, 0), UNIT);
	assert_int_equal(find(&f, ids[1], UNIT + 1, 0), UNIT);
	assert_int_equal(find(&f, ids[2], UNIT + 1, 0), 0);
	assert_int_equal(f.lines, 0);
	tear_down_beside(&f);
}

static void a_write_that_fails_later_is_forgotten(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	fixture f;
	gate g;
	struct rlimit was, little;
	host_prompt(ids, MOST, MOST, 1, 0);
	set_up_beside(&f, &g, "later", 1 << 22);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_IGN);
	little = (struct rlimit){9000, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	for (int64_t i = 1; i < 4; i++) store(&f, ids, i * UNIT);
	assert_int_equal(find(&f, ids, 900, 0), 3 * UNIT); /* still in memory */
	assert_int_equal(f.lines, 0);
	open_gate(&g, true);
	jobs_drain(f.writer);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(find(&f, ids, 900, 0), 0);
	spill_stats s = stats_of(&f);
	assert_int_equal(s.failed_writes, 3);
	assert_int_equal(s.stored, 0);
	assert_int_equal(s.pending, 0);
	assert_int_equal(s.bytes, 0);
	assert_int_equal(f.lines, 1);
	assert_int_equal(files_in(f.folder), 0);
	store(&f, ids, 2 * UNIT); /* there is room again */
	jobs_drain(f.writer);
	assert_int_equal(find(&f, ids, 900, 0), 2 * UNIT);
	assert_int_equal(stats_of(&f).stored, 1);
	tear_down_beside(&f);
}

static void memory_may_fail(void **state)
{
	(void)state;
	static int32_t ids[MOST];
	fixture f;
	swapped *copy = NULL, *found = NULL;
	nh_error e;
	host_prompt(ids, MOST, MOST, 1, 0);
	set_up(&f, "memory", 1 << 22);
	host_compute(&f.h, &f.m, ids, UNIT);
	uint64_t stores = 0, finds = 0, opens = 0;
	for (;; stores++) {
		size_t live = mem_live();
		assert_int_equal(swap_copy(&copy, &f.m, NULL), NH_OK);
		mem_fail_after(stores);
		spill_store(f.s, ids, UNIT, copy);
		mem_fail_after(SIZE_MAX);
		if (stats_of(&f).stored) break;
		assert_in_range(mem_live() - live, 0, 1); /* the index may have grown */
		assert_int_equal(stats_of(&f).failed_writes, stores + 1);
		assert_int_equal(files_in(f.folder), 0);
	}
	assert_in_range(stores, 5, 12);
	for (;; finds++) {
		mem_fail_after(finds);
		nh_status r = spill_find(f.s, ids, 900, 0, UNIT, &f.h.s, &f.h.p, &found, &e);
		mem_fail_after(SIZE_MAX);
		if (r == NH_OK) break;
		assert_int_equal(r, NH_ERR_NOMEM);
		assert_null(found);
		assert_int_equal(files_in(f.folder), 1);
	}
	assert_int_equal(finds, 3);
	assert_non_null(found);
	swap_free(found);
	for (;; opens++) {
		spill *s;
		size_t live = mem_live();
		mem_fail_after(opens);
		nh_status r = spill_open(&s, f.folder, 1 << 22, "tag", NULL, NULL, &e);
		mem_fail_after(SIZE_MAX);
		if (r == NH_OK) {
			spill_stats stats;
			spill_get_stats(s, &stats);
			assert_true(stats.bytes > 0);
			spill_close(s);
			break;
		}
		assert_int_equal(r, NH_ERR_NOMEM);
		assert_null(s);
		assert_int_equal(mem_live(), live);
	}
	assert_in_range(opens, 5, 12);
	assert_int_equal(files_in(f.folder), 1);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stored_is_found),
	    cmocka_unit_test(the_oldest_go_first),
	    cmocka_unit_test(what_does_not_verify_is_deleted),
	    cmocka_unit_test(names_prove_nothing),
	    cmocka_unit_test(strange_files_are_left_alone),
	    cmocka_unit_test(a_full_disk_is_no_error),
	    cmocka_unit_test(two_share_a_folder),
	    cmocka_unit_test(written_beside_the_engine),
	    cmocka_unit_test(a_slow_disk_is_not_waited_for),
	    cmocka_unit_test(a_write_that_fails_later_is_forgotten),
	    cmocka_unit_test(memory_may_fail),
	};
	return cmocka_run_group_tests_name("spill", tests, NULL, NULL);
}
