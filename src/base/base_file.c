/* SPDX-License-Identifier: Apache-2.0
 * base_file.c: POSIX files. The invariant that breaks first: a half-written file must never carry its final name.
 */
#include "base/base_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_mem.h"

#define LIST_LIMIT 100000u

static nh_status io_error(nh_error *e, const char *path, const char *what)
{
	return ERR(e, errno == ENOENT ? NH_ERR_NOTFOUND : NH_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* As a device that fails. */
bool file_refused(mem_fault kind)
{
	if (!mem_fault_now(kind)) return false;
	errno = EIO;
	return true;
}

static bool refused_read(void) { return file_refused(MEM_FAULT_READ); }
static bool refused_write(void) { return file_refused(MEM_FAULT_WRITE); }

/* Opens a regular file for reading; devices and pipes could block or never end. */
static nh_status open_regular(const char *path, int *fd, size_t *size, nh_error *e)
{
	struct stat st;
	*fd = refused_read() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0) return io_error(e, path, "cannot open");
	if (refused_read() || fstat(*fd, &st) != 0) {
		nh_status s = io_error(e, path, "cannot read its size");
		close(*fd);
		return s;
	}
	if (!S_ISREG(st.st_mode) || st.st_size < 0) {
		close(*fd);
		return ERR(e, NH_ERR_IO, "%s: is %s, expected a regular file", path, S_ISDIR(st.st_mode) ? "a folder" : "a special file");
	}
	*size = (size_t)st.st_size;
	return NH_OK;
}

nh_status file_map_open(file_map *m, const char *path, nh_error *e)
{
	int fd;
	memset(m, 0, sizeof *m);
	TRY(open_regular(path, &fd, &m->size, e));
	if (m->size == 0) m->data = (const uint8_t *)"";
	else {
		void *p = refused_read() ? MAP_FAILED : mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			nh_status s = io_error(e, path, "cannot map");
			close(fd);
			memset(m, 0, sizeof *m);
			return s;
		}
		m->data = p;
	}
	close(fd);
	return NH_OK;
}

void file_map_close(file_map *m)
{
	if (m->size) munmap((void *)(uintptr_t)m->data, m->size);
	memset(m, 0, sizeof *m);
}

void file_map_drop(const file_map *m, size_t offset, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (offset > m->size || bytes > m->size - offset) return;
	size_t end = (offset + bytes) / page * page;
	offset = (offset + page - 1) / page * page;
	if (offset < end) madvise((void *)(uintptr_t)(m->data + offset), end - offset, MADV_DONTNEED);
}

void file_map_want(const file_map *m, size_t offset, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (offset >= m->size) return;
	if (bytes > m->size - offset) bytes = m->size - offset;
	size_t from = offset / page * page;
	madvise((void *)(uintptr_t)(m->data + from), offset + bytes - from, MADV_WILLNEED);
}

nh_status file_open(FILE **out, size_t *size, const char *path, nh_error *e)
{
	int fd;
	*out = NULL;
	TRY(open_regular(path, &fd, size, e));
	*out = refused_read() ? NULL : fdopen(fd, "rb");
	if (*out) return NH_OK;
	nh_status s = io_error(e, path, "cannot open");
	close(fd);
	return s;
}

bool file_get(FILE *f, void *to, size_t bytes) { return !refused_read() && fread(to, 1, bytes, f) == bytes; }

nh_status file_read(const char *path, size_t limit, buf *out, nh_error *e)
{
	int fd;
	size_t size;
	TRY(open_regular(path, &fd, &size, e));
	nh_status s = NH_OK;
	char chunk[65536];
	for (;;) {
		ssize_t n = refused_read() ? -1 : read(fd, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) s = io_error(e, path, "cannot read");
		if (n <= 0) break;
		if (out->len + (size_t)n > limit) {
			s = ERR(e, NH_ERR_LIMIT, "%s: has more than %zu bytes, which is the limit for this kind of file", path, limit);
			break;
		}
		buf_append(out, chunk, (size_t)n);
	}
	close(fd);
	if (s == NH_OK) buf_append(out, "", 0);
	if (s == NH_OK && out->failed) s = ERR_NOMEM(e);
	if (s != NH_OK) buf_deinit(out);
	return s;
}

bool file_exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0;
}

bool file_is_dir(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

nh_status file_writer_open(file_writer *w, const char *path, nh_error *e)
{
	static atomic_uint serial;
	memset(w, 0, sizeof *w);
	size_t n = strlen(path) + 48;
	w->path = mem_strdup(path);
	w->temp = mem_alloc(n);
	if (!w->path || !w->temp) {
		file_writer_abort(w);
		return ERR_NOMEM(e);
	}
	snprintf(w->temp, n, "%s.tmp.%ld.%u", path, (long)getpid(), atomic_fetch_add(&serial, 1u));
	int fd = refused_write() ? -1 : open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0) w->f = refused_write() ? NULL : fdopen(fd, "wb");
	if (!w->f) {
		nh_status s = io_error(e, path, "cannot write");
		if (fd >= 0) {
			close(fd);
			unlink(w->temp);
		}
		mem_free(w->temp);
		w->temp = NULL;
		file_writer_abort(w);
		return s;
	}
	return NH_OK;
}

void file_writer_put(file_writer *w, const void *data, size_t len)
{
	if (w->error || len == 0) return;
	if (refused_write() || fwrite(data, 1, len, w->f) != len) w->error = errno ? errno : EIO;
}

nh_status file_writer_commit(file_writer *w, nh_error *e)
{
	nh_status s = NH_OK;
	int error = w->error;
	if (!error && (refused_write() || fflush(w->f) != 0)) error = errno;
	if (!error && (refused_write() || fsync(fileno(w->f)) != 0)) error = errno;
	bool closed = !refused_write();
	if ((fclose(w->f) != 0 || !closed) && !error) error = closed ? errno : EIO;
	w->f = NULL;
	if (!error && (refused_write() || rename(w->temp, w->path) != 0)) error = errno;
	errno = error;
	if (error) s = io_error(e, w->path, "cannot write");
	if (s == NH_OK) {
		mem_free(w->temp);
		w->temp = NULL;
	}
	file_writer_abort(w);
	return s;
}

void file_writer_abort(file_writer *w)
{
	if (w->f) fclose(w->f);
	if (w->temp) unlink(w->temp);
	mem_free(w->temp);
	mem_free(w->path);
	memset(w, 0, sizeof *w);
}

char *path_join(const char *dir, const char *name)
{
	size_t a = strlen(dir), b = strlen(name);
	while (a > 1 && dir[a - 1] == '/') a--;
	char *p = mem_alloc(a + b + 2);
	if (!p) return NULL;
	memcpy(p, dir, a);
	if (a && dir[a - 1] != '/') p[a++] = '/';
	memcpy(p + a, name, b);
	return p;
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

nh_status file_list_dir(file_list *l, const char *path, nh_error *e)
{
	memset(l, 0, sizeof *l);
	DIR *d = refused_read() ? NULL : opendir(path);
	if (!d) return io_error(e, path, "cannot list");
	size_t cap = 0;
	nh_status s = NH_OK;
	while (s == NH_OK) {
		errno = 0;
		const struct dirent *x = readdir(d);
		if (!x) {
			if (errno) s = io_error(e, path, "cannot list");
			break;
		}
		if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0) continue;
		if (l->count == LIST_LIMIT) {
			s = ERR(e, NH_ERR_LIMIT, "%s: has more than %u entries", path, LIST_LIMIT);
			break;
		}
		if (l->count == cap) {
			cap = cap ? cap * 2 : 32;
			char **p = mem_resize(l->names, cap, sizeof *p);
			if (!p) {
				s = ERR_NOMEM(e);
				break;
			}
			l->names = p;
		}
		l->names[l->count] = mem_strdup(x->d_name);
		if (!l->names[l->count]) s = ERR_NOMEM(e);
		else l->count++;
	}
	closedir(d);
	if (s != NH_OK) file_list_free(l);
	else if (l->count) qsort(l->names, l->count, sizeof *l->names, by_bytes);
	return s;
}

void file_list_free(file_list *l)
{
	for (size_t i = 0; i < l->count; i++) mem_free(l->names[i]);
	mem_free(l->names);
	memset(l, 0, sizeof *l);
}

struct sha256 {
	EVP_MD_CTX *ctx;
	bool failed;
};

sha256 *sha256_create(void)
{
	sha256 *s = mem_alloc(sizeof *s);
	if (!s) return NULL;
	s->ctx = EVP_MD_CTX_new();
	if (!s->ctx || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(s->ctx);
		mem_free(s);
		return NULL;
	}
	return s;
}

void sha256_update(sha256 *s, const void *data, size_t len)
{
	if (EVP_DigestUpdate(s->ctx, data, len) != 1) s->failed = true;
}

void sha256_finish(sha256 *s, char hex[65])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char raw[32] = {0};
	if (EVP_DigestFinal_ex(s->ctx, raw, NULL) != 1) s->failed = true;
	for (int i = 0; i < 32; i++) {
		hex[2 * i] = digits[raw[i] >> 4];
		hex[2 * i + 1] = digits[raw[i] & 15];
	}
	hex[64] = 0;
	if (s->failed) hex[0] = 0; /* an empty digest equals no digest */
	EVP_MD_CTX_free(s->ctx);
	mem_free(s);
}

nh_status file_sha256(const char *path, char hex[65], nh_progress_fn progress, void *user, nh_error *e)
{
	enum { STEP = 1 << 20 };
	file_map m;
	hex[0] = 0;
	TRY(file_map_open(&m, path, e));
	nh_status st = NH_OK;
	sha256 *s = sha256_create();
	if (!s) st = ERR_NOMEM(e);
	for (size_t at = 0; st == NH_OK && at < m.size; at += STEP) {
		size_t n = m.size - at < STEP ? m.size - at : STEP;
		sha256_update(s, m.data + at, n);
		file_map_drop(&m, at, n);
		if (progress && !progress(user, "bytes", at + n, m.size)) st = ERR(e, NH_ERR_CANCELLED, "%s: digest cancelled", path);
	}
	if (s) sha256_finish(s, hex);
	if (st != NH_OK) hex[0] = 0;
	else if (!hex[0]) st = ERR(e, NH_ERR_INTERNAL, "%s: the digest library failed", path);
	file_map_close(&m);
	return st;
}
