/* SPDX-License-Identifier: Apache-2.0
 * batch_out.c: see the header. A write that fails half way is taken back, so that the next start does not meet half a line; a crash may
 * still leave one, without its newline, and it is cut off.
 */
#include "cmd/batch/batch_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/base_buf.h"
#include "base/base_file.h"
#include "base/base_mem.h"

static nh_status add_row(batch_out *o, uint64_t line, size_t len, nh_error *e)
{
	if (o->count == o->room) {
		size_t room = o->room + o->room / 2 + 64;
		batch_row *rows = mem_resize(o->rows, room, sizeof *rows);
		if (rows == NULL) return ERR_NOMEM(e);
		o->rows = rows;
		o->room = room;
	}
	o->rows[o->count++] = (batch_row){.line = line, .at = o->size, .len = len};
	o->size += len;
	return NH_OK;
}

static nh_status take_in(batch_out *o, batch_owner_fn owner, void *user, nh_error *e)
{
	file_map m = {0};
	TRY(file_map_open(&m, o->partial, e));
	nh_status s = NH_OK;
	const char *data = (const char *)m.data, *end;
	while (s == NH_OK && o->size < m.size && (end = memchr(data + o->size, '\n', m.size - o->size)) != NULL) {
		size_t len = (size_t)(end - (data + o->size));
		uint64_t line = 0;
		s = owner(user, data + o->size, len, &line, e);
		if (s != NH_OK) err_prefix(e, s, "%s: line %zu", o->partial, o->count + 1);
		else s = add_row(o, line, len + 1, e);
	}
	bool torn = s == NH_OK && o->size < m.size;
	file_map_close(&m);
	if (torn && ftruncate(o->fd, (off_t)o->size) != 0) s = ERR(e, NH_ERR_IO, "%s: %s", o->partial, strerror(errno));
	return s;
}

static nh_status open_partial(batch_out *o, bool restart, nh_error *e)
{
	o->fd = file_refused(MEM_FAULT_WRITE) ? -1 : open(o->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (o->fd < 0) return ERR(e, NH_ERR_IO, "%s: %s", o->partial, strerror(errno));
	if (flock(o->fd, LOCK_EX | LOCK_NB) != 0) {
		bool taken = errno == EWOULDBLOCK;
		close(o->fd);
		o->fd = -1;
		if (taken) return ERR(e, NH_ERR_STATE, "%s: another process is writing it", o->partial);
		return ERR(e, NH_ERR_IO, "%s: %s", o->partial, strerror(errno));
	}
	if (restart && ftruncate(o->fd, 0) != 0) return ERR(e, NH_ERR_IO, "%s: %s", o->partial, strerror(errno));
	return NH_OK;
}

nh_status batch_out_open(batch_out *o, const char *path, bool overwrite, bool restart, batch_owner_fn owner, void *user, nh_error *e)
{
	buf name = {0};
	*o = (batch_out){.path = path, .fd = -1};
	if (file_is_dir(path)) return ERR(e, NH_ERR_STATE, "%s: is a folder, expected the name of a file to write", path);
	if (!overwrite && file_exists(path)) return ERR(e, NH_ERR_STATE, "%s: exists already; --overwrite replaces it", path);
	buf_printf(&name, "%s.partial", path);
	o->partial = buf_take(&name);
	if (o->partial == NULL) return ERR_NOMEM(e);
	TRY(open_partial(o, restart, e));
	return take_in(o, owner, user, e);
}

nh_status batch_out_put(batch_out *o, uint64_t line, const char *text, size_t len, nh_error *e)
{
	buf b = {0};
	buf_append(&b, text, len);
	buf_char(&b, '\n');
	if (b.failed) {
		buf_deinit(&b);
		return ERR_NOMEM(e);
	}
	size_t done = 0;
	nh_status s = NH_OK;
	while (done < b.len && s == NH_OK) {
		ssize_t n = file_refused(MEM_FAULT_WRITE) ? -1 : pwrite(o->fd, b.data + done, b.len - done, (off_t)(o->size + done));
		if (n > 0) done += (size_t)n;
		else if (n == 0 || errno != EINTR) s = ERR(e, NH_ERR_IO, "%s: %s", o->partial, n == 0 ? "nothing is written" : strerror(errno));
	}
	if (s == NH_OK) s = add_row(o, line, b.len, e);
	if (s != NH_OK && ftruncate(o->fd, (off_t)o->size) != 0) { /* the next start cuts it off */
	}
	buf_deinit(&b);
	o->dirty = true;
	return s;
}

nh_status batch_out_sync(batch_out *o, nh_error *e)
{
	if (!o->dirty) return NH_OK;
	if (file_refused(MEM_FAULT_WRITE) || fdatasync(o->fd) != 0) return ERR(e, NH_ERR_IO, "%s: %s", o->partial, strerror(errno));
	o->dirty = false;
	return NH_OK;
}

static int by_line(const void *a, const void *b)
{
	const batch_row *x = a, *y = b;
	return (x->line > y->line) - (x->line < y->line);
}

static bool is_sorted(const batch_out *o)
{
	for (size_t i = 1; i < o->count; i++)
		if (o->rows[i].line < o->rows[i - 1].line) return false;
	return true;
}

static nh_status write_sorted(batch_out *o, nh_error *e)
{
	file_map m = {0};
	file_writer w = {0};
	TRY(file_map_open(&m, o->partial, e));
	nh_status s = m.size < o->size ? ERR(e, NH_ERR_IO, "%s: was cut by somebody else", o->partial) : file_writer_open(&w, o->path, e);
	if (s == NH_OK) {
		qsort(o->rows, o->count, sizeof *o->rows, by_line);
		for (size_t i = 0; i < o->count; i++) file_writer_put(&w, m.data + o->rows[i].at, o->rows[i].len);
		s = file_writer_commit(&w, e);
	}
	file_map_close(&m);
	if (s == NH_OK && (file_refused(MEM_FAULT_WRITE) || unlink(o->partial) != 0))
		s = ERR(e, NH_ERR_IO, "%s: %s", o->partial, strerror(errno));
	return s;
}

nh_status batch_out_finish(batch_out *o, bool in_order, nh_error *e)
{
	o->dirty = true; /* a rename must not reach the disk before the bytes */
	TRY(batch_out_sync(o, e));
	if (in_order && !is_sorted(o)) return write_sorted(o, e);
	if (file_refused(MEM_FAULT_WRITE) || rename(o->partial, o->path) != 0) return ERR(e, NH_ERR_IO, "%s: %s", o->path, strerror(errno));
	return NH_OK;
}

void batch_out_close(batch_out *o)
{
	if (o->fd >= 0) {
		if (o->count == 0 && o->size == 0 && lseek(o->fd, 0, SEEK_END) == 0) unlink(o->partial);
		close(o->fd);
	}
	mem_free(o->partial);
	mem_free(o->rows);
	*o = (batch_out){.fd = -1};
}
