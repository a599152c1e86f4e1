/* SPDX-License-Identifier: Apache-2.0
 * spill.c: a folder of sequence files named <tag>-<ids>-<length>.nhs, and an index of them in memory, made by listing. A name only says where
 * to look: what a file holds is told by its own head, ids and checksum. Other processes may add and delete files at any time; a file that is
 * gone is not there, and one that is unlinked while it is read stays readable. What is being written is in the index from the start, and is
 * found in memory until the file is there.
 * The invariant that breaks first: the index counts at least the bytes of the files that this process stored and did not delete.
 */
#include "cache/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cache/seqfile_impl.h"

enum { TAG_DIGITS = 16, NAME_BYTES = 2 * TAG_DIGITS + 2 + 19 + 5, STALE_SECONDS = 3600 };

/* A file on its way. Before `done` the writer reads everything; the engine's thread may read ids and state under the lock. */
typedef struct spill_write {
	struct spill_write *next;
	pthread_mutex_t *lock; /* borrow; the spill's: state, done */
	char *path;            /* own */
	int32_t *ids;          /* own [head.tokens] */
	swapped *state;        /* own; NULL once written, or given up */
	seqfile_head head;
	uint64_t key, bytes;
	nh_status status;
	nh_error error;
	bool done;
} spill_write;

typedef struct spill_file {
	uint64_t key; /* of the ids */
	int64_t length;
	uint64_t bytes, used; /* used: a serial number; the order of last use */
	spill_write *write;   /* borrow; NULL: the file is there */
} spill_file;

struct spill {
	char *folder; /* own */
	char tag[65]; /* SHA-256 of the tag */
	uint64_t limit, serial;
	const logger *log; /* borrow */
	spill_file *file;  /* own [room]; by key, then length */
	size_t count, room;
	bool told;            /* of a failed write */
	jobs *writer;         /* borrow; may be NULL */
	spill_write *first;   /* own; on their way, the latest first */
	uint64_t on_the_way;  /* their bytes */
	pthread_mutex_t lock; /* of their states */
	spill_stats stats;
};

/* The key of ids[0, n), page after page, so that one walk meets the keys of all borders of pages. */
static uint64_t key_step(uint64_t before, const int32_t *ids, int64_t n)
{
	return XXH3_64bits_withSeed(ids, (size_t)n * sizeof *ids, before);
}

static uint64_t key_of(const int32_t *ids, int64_t length)
{
	uint64_t key = 0;
	for (int64_t at = 0; at < length; at += PAGES_TOKENS)
		key = key_step(key, ids + at, length - at < PAGES_TOKENS ? length - at : PAGES_TOKENS);
	return key;
}

/* The index: sorted, searched by halves. Returns the place where the file is or would be. */
static size_t place_of(const spill *s, uint64_t key, int64_t length)
{
	size_t from = 0, to = s->count;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		const spill_file *f = &s->file[mid];
		if (f->key < key || (f->key == key && f->length < length)) from = mid + 1;
		else to = mid;
	}
	return from;
}

static spill_file *file_of(const spill *s, uint64_t key, int64_t length)
{
	size_t i = place_of(s, key, length);
	return i < s->count && s->file[i].key == key && s->file[i].length == length ? &s->file[i] : NULL;
}

static bool index_room(spill *s)
{
	if (s->count < s->room) return true;
	size_t room = s->room ? s->room * 2 : 16;
	spill_file *file = mem_resize(s->file, room, sizeof *file);
	if (!file) return false;
	s->file = file;
	s->room = room;
	return true;
}

static void index_add(spill *s, const spill_file *f)
{
	size_t i = place_of(s, f->key, f->length);
	memmove(&s->file[i + 1], &s->file[i], (s->count - i) * sizeof *f);
	s->file[i] = *f;
	s->count++;
	s->stats.bytes += f->bytes;
}

static void index_drop(spill *s, spill_file *f)
{
	s->stats.bytes -= f->bytes;
	s->count--;
	memmove(f, f + 1, (size_t)(s->file + s->count - f) * sizeof *f);
}

static char *path_of(const spill *s, const spill_file *f)
{
	char name[NAME_BYTES];
	snprintf(name, sizeof name, "%.*s-%016" PRIx64 "-%" PRId64 ".nhs", TAG_DIGITS, s->tag, f->key, f->length);
	return path_join(s->folder, name);
}

/* Without its path a file cannot be deleted: then it stays in the index too, and its bytes count. */
static bool discard(spill *s, spill_file *f)
{
	char *path = path_of(s, f);
	if (!path) return false;
	bool gone = unlink(path) == 0 || errno == ENOENT;
	mem_free(path);
	if (gone) index_drop(s, f);
	return gone;
}

/* Deletes the files that were used longest ago until `bytes` more fit; those that are being written are no files yet. */
static bool make_room(spill *s, uint64_t bytes)
{
	while (bytes > s->limit || s->stats.bytes > s->limit - bytes) {
		spill_file *oldest = NULL;
		for (size_t i = 0; i < s->count; i++)
			if (!s->file[i].write && (!oldest || s->file[i].used < oldest->used)) oldest = &s->file[i];
		if (bytes > s->limit || !oldest || !discard(s, oldest)) return false;
	}
	return true;
}

static bool read_hex(const char *text, uint64_t *out)
{
	*out = 0;
	for (int i = 0; i < TAG_DIGITS; i++) {
		const char *digits = "0123456789abcdef", *at = text[i] ? strchr(digits, text[i]) : NULL;
		if (!at) return false;
		*out = *out << 4 | (uint64_t)(at - digits);
	}
	return true;
}

/* Exactly what path_of writes; anything else in the folder is not ours. *end: behind it. */
static bool read_name(const spill *s, const char *name, spill_file *f, const char **end)
{
	const size_t n = strlen(name);
	char again[NAME_BYTES];
	if (n < 2 * TAG_DIGITS + 3 || !read_hex(name + TAG_DIGITS + 1, &f->key)) return false;
	const char *digit = name + 2 * TAG_DIGITS + 2;
	for (f->length = 0; *digit >= '0' && *digit <= '9' && f->length < INT64_MAX / 100; digit++) f->length = f->length * 10 + (*digit - '0');
	int written = snprintf(again, sizeof again, "%.*s-%016" PRIx64 "-%" PRId64 ".nhs", TAG_DIGITS, s->tag, f->key, f->length);
	if (f->length == 0 || strncmp(name, again, (size_t)written) != 0) return false;
	*end = name + written;
	return true;
}

typedef struct spill_found {
	spill_file file;
	struct timespec time;
} spill_found;

static int by_time(const void *a, const void *b)
{
	const struct timespec *x = &((const spill_found *)a)->time, *y = &((const spill_found *)b)->time;
	if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* One name of the folder: a file of ours, or (length 0) not; or the remains of a write that was cut off, which are deleted when they are old. */
static nh_status look_at(const spill *s, const char *name, spill_found *found, nh_error *e)
{
	struct stat st;
	const char *end;
	const bool ours = read_name(s, name, &found->file, &end);
	const int64_t length = found->file.length;
	found->file.length = 0;
	if (!ours) return NH_OK;
	char *path = path_join(s->folder, name);
	if (!path) return ERR_NOMEM(e);
	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		const bool remains = strncmp(end, ".tmp.", 5) == 0;
		if (remains && st.st_mtim.tv_sec < time(NULL) - STALE_SECONDS) unlink(path);
		if (*end == 0) found->file.length = length;
		found->file.bytes = (uint64_t)st.st_size;
		found->time = st.st_mtim;
	}
	mem_free(path);
	return NH_OK;
}

static nh_status list(spill *s, nh_error *e)
{
	file_list names;
	size_t n = 0;
	TRY(file_list_dir(&names, s->folder, e));
	spill_found *found = mem_array(names.count, sizeof *found); /* zeroed: nothing is being written */
	nh_status status = found ? NH_OK : ERR_NOMEM(e);
	for (size_t i = 0; i < names.count && status == NH_OK; i++) {
		status = look_at(s, names.names[i], &found[n], e);
		n += status == NH_OK && found[n].file.length > 0;
	}
	if (status == NH_OK && n) qsort(found, n, sizeof *found, by_time);
	for (size_t i = 0; i < n && status == NH_OK; i++) {
		found[i].file.used = ++s->serial;
		if (index_room(s)) index_add(s, &found[i].file);
		else status = ERR_NOMEM(e);
	}
	mem_free(found);
	file_list_free(&names);
	return status;
}

nh_status spill_open(spill **out, const char *folder, uint64_t limit_bytes, const char *tag, const logger *log, jobs *writer, nh_error *e)
{
	*out = NULL;
	if (file_refused(MEM_FAULT_WRITE) || (mkdir(folder, 0777) != 0 && errno != EEXIST))
		return ERR(e, NH_ERR_IO, "%s: cannot make the folder: %s", folder, strerror(errno));
	if (!file_is_dir(folder)) return ERR(e, NH_ERR_IO, "%s: is there already, expected a folder", folder);
	spill *s = mem_alloc(sizeof *s);
	if (s) pthread_mutex_init(&s->lock, NULL);
	sha256 *sum = s ? sha256_create() : NULL;
	if (!sum || !(s->folder = mem_strdup(folder))) {
		char unused[65];
		if (sum) sha256_finish(sum, unused);
		spill_close(s);
		return ERR_NOMEM(e);
	}
	sha256_update(sum, tag, strlen(tag));
	sha256_finish(sum, s->tag);
	s->limit = limit_bytes;
	s->log = log;
	s->writer = writer;
	nh_status status = list(s, e);
	if (status != NH_OK) spill_close(s);
	else {
		make_room(s, 0);
		*out = s;
	}
	return status;
}

static void write_free(spill_write *w)
{
	if (!w) return;
	mem_free(w->path);
	mem_free(w->ids);
	swap_free(w->state);
	mem_free(w);
}

/* On the writer's thread: the only place that waits for a disk. What was written is let go of at once. */
static void write_run(void *user)
{
	spill_write *w = user;
	nh_error e = {0};
	nh_status status = seqfile_write(w->path, &w->head, w->ids, w->state, &e);
	pthread_mutex_lock(w->lock);
	w->status = status;
	w->error = e;
	w->done = true;
	swap_free(w->state);
	w->state = NULL;
	pthread_mutex_unlock(w->lock);
}

static void failed(spill *s, const nh_error *why)
{
	s->stats.failed_writes++;
	if (!s->told) log_line(s->log, NH_LOG_WARN, "spill: %s; evicted prefixes are lost while this lasts", why->text);
	s->told = true;
}

static bool write_done(spill *s, const spill_write *w)
{
	pthread_mutex_lock(&s->lock);
	bool done = w->done;
	pthread_mutex_unlock(&s->lock);
	return done;
}

void spill_adopt(spill *s)
{
	for (spill_write **at = &s->first, *w; (w = *at) != NULL;) {
		if (!write_done(s, w)) {
			at = &w->next;
			continue;
		}
		spill_file *f = file_of(s, w->key, w->head.tokens);
		assert(f && f->write == w);
		f->write = NULL;
		if (w->status == NH_OK) s->stats.stored++;
		else {
			index_drop(s, f);
			failed(s, &w->error);
		}
		*at = w->next;
		s->on_the_way -= w->bytes;
		s->stats.pending--;
		write_free(w);
	}
}

void spill_close(spill *s)
{
	if (!s) return;
	if (s->first) jobs_drain(s->writer);
	spill_adopt(s);
	assert(!s->first);
	pthread_mutex_destroy(&s->lock);
	mem_free(s->folder);
	mem_free(s->file);
	mem_free(s);
}

/* Used now, for the next process too. That is only an order: no harm where it fails. */
static void touch(spill *s, spill_file *f, const char *path)
{
	f->used = ++s->serial;
	if (path) utimensat(AT_FDCWD, path, NULL, 0);
}

/* NULL: out of memory, and the state is still the caller's. */
static spill_write *write_make(spill *s, const spill_file *f, const int32_t *ids, swapped *state)
{
	spill_write *w = mem_alloc(sizeof *w);
	if (!w || !(w->path = path_of(s, f)) || !(w->ids = mem_array((size_t)f->length, sizeof *ids))) {
		write_free(w);
		return NULL;
	}
	memcpy(w->ids, ids, (size_t)f->length * sizeof *ids);
	w->head = (seqfile_head){.model = "spill", .tokens = f->length, .computed = f->length, .created = (int64_t)time(NULL)};
	memcpy(w->head.identity, s->tag, sizeof s->tag);
	w->lock = &s->lock;
	w->key = f->key;
	w->bytes = f->bytes;
	w->state = state;
	return w;
}

/* Into the index and on its way. Without a writer, or where it has too much to do, it is written here. */
static void write_start(spill *s, spill_file *f, spill_write *w)
{
	f->used = ++s->serial;
	f->write = w;
	index_add(s, f);
	w->next = s->first;
	s->first = w;
	s->on_the_way += w->bytes;
	s->stats.pending++;
	if (s->writer && jobs_submit(s->writer, write_run, w) == NH_OK) return;
	write_run(w);
	spill_adopt(s);
}

void spill_store(spill *s, const int32_t *ids, int64_t length, swapped *state)
{
	assert(length > 0 && swap_length(state) == length);
	spill_file f = {.key = key_of(ids, length), .length = length};
	f.bytes = SEQFILE_HEAD_BYTES + (uint64_t)length * sizeof *ids + swap_bytes(state) + SEQFILE_SUM_BYTES;
	spill_adopt(s);
	spill_file *old = file_of(s, f.key, length);
	if (old || f.bytes > s->limit) {
		char *path = old ? path_of(s, old) : NULL;
		if (old) touch(s, old, path);
		mem_free(path);
		swap_free(state);
		return;
	}
	nh_error e = {0};
	nh_status status = NH_OK;
	spill_write *w = NULL;
	const bool busy = s->first && (s->stats.pending >= SPILL_PENDING || s->on_the_way + f.bytes > SPILL_PENDING_BYTES);
	if (busy) {
		s->stats.dropped++;
	} else if (!index_room(s) || !(w = write_make(s, &f, ids, state))) {
		status = ERR_NOMEM(&e);
	} else if (!make_room(s, f.bytes)) {
		w->state = NULL;
		write_free(w);
		w = NULL;
		if (s->first) s->stats.dropped++; /* the room is that of others on their way */
		else status = ERR(&e, NH_ERR_IO, "%s: old files cannot be deleted", s->folder);
	}
	if (status != NH_OK) failed(s, &e);
	if (w) write_start(s, &f, w);
	else swap_free(state);
}

/* The longest file by name with at most `limit` tokens and more than `longer_than`. */
static spill_file *longest(const spill *s, const int32_t *ids, int64_t limit, int64_t longer_than, int64_t unit)
{
	uint64_t key = 0;
	spill_file *best = NULL;
	if (s->count == 0) return NULL;
	for (int64_t at = 0; at + PAGES_TOKENS <= limit;) {
		key = key_step(key, ids + at, PAGES_TOKENS);
		at += PAGES_TOKENS;
		spill_file *f = at > longer_than && at % unit == 0 ? file_of(s, key, at) : NULL;
		if (f) best = f;
	}
	return best;
}

/* From memory, while it is on its way to the disk. *out NULL: it has got there, or never will; or other ids have the same key. */
static nh_status load_pending(spill *s, spill_file *f, const int32_t *own, const states *st, const pages *p, swapped **out, nh_error *e)
{
	const spill_write *w = f->write;
	nh_status r = NH_OK;
	*out = NULL;
	if (memcmp(w->ids, own, (size_t)f->length * sizeof *own) != 0) return NH_OK;
	pthread_mutex_lock(&s->lock);
	if (w->state) r = swap_from_content(out, st, p, f->length, swap_content(w->state), swap_bytes(w->state), e);
	pthread_mutex_unlock(&s->lock);
	if (*out) {
		touch(s, f, NULL);
		s->stats.loaded++;
	}
	return r;
}

/* Reads one file. *out NULL: it is not what its name says, and has been dealt with. */
static nh_status load(spill *s, spill_file *f, const int32_t *own, const states *st, const pages *p, swapped **out, nh_error *e)
{
	seqfile_head head;
	int32_t *ids;
	nh_error why = {0};
	char *path = path_of(s, f);
	*out = NULL;
	if (!path) return ERR_NOMEM(e);
	nh_status r = seqfile_read(path, &head, &ids, st, p, out, &why);
	if (r == NH_OK) {
		const bool tagged = strcmp(head.identity, s->tag) == 0, sized = head.tokens == f->length && head.computed == f->length;
		/* Other ids with the same key: a good file, of no use here. */
		const bool same = sized && memcmp(ids, own, (size_t)f->length * sizeof *ids) == 0;
		if (tagged && same) {
			touch(s, f, path);
			s->stats.loaded++;
		} else {
			swap_free(*out);
			*out = NULL;
			if (!tagged || !sized) r = ERR(&why, NH_ERR_FORMAT, "%s: is not the sequence that its name says", path);
		}
		mem_free(ids);
	}
	mem_free(path);
	if (r == NH_ERR_NOMEM) {
		if (e) *e = why;
		return r;
	}
	if (r == NH_OK) return NH_OK;
	if (r != NH_ERR_NOTFOUND) { /* that would be another process, which deleted it */
		s->stats.rejected++;
		log_line(s->log, NH_LOG_WARN, "spill: %s; it is deleted", why.text);
		if (discard(s, f)) return NH_OK;
	}
	index_drop(s, f);
	return NH_OK;
}

nh_status spill_find(spill *s, const int32_t *ids, int64_t n, int64_t longer_than, int64_t unit, const states *st, const pages *p,
    swapped **out, nh_error *e)
{
	assert(unit > 0 && unit % PAGES_TOKENS == 0);
	*out = NULL;
	for (int64_t limit = n - 1; limit > longer_than;) {
		spill_adopt(s);
		spill_file *f = longest(s, ids, limit, longer_than, unit);
		if (!f) break;
		const int64_t length = f->length;
		spill_write *w = f->write;
		if (w) TRY(load_pending(s, f, ids, st, p, out, e));
		else TRY(load(s, f, ids, st, p, out, e));
		if (*out) break;
		bool ended = w && write_done(s, w);
		if (!ended) limit = length - 1; /* else once more: it is a file now, or gone */
	}
	return NH_OK;
}

void spill_get_stats(const spill *s, spill_stats *out) { *out = s->stats; }
