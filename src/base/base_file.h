/* SPDX-License-Identifier: Apache-2.0
 * base_file.h: reading files (whole or mapped), writing them atomically, paths and digests. Every error names the path.
 * Thread-safe as long as one object is used by one thread at a time.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base_buf.h"
#include "base/base_mem.h"
#include "base/base_status.h"

/* A read-only mapping of a whole regular file. An empty file maps to data = "" and size 0. */
typedef struct file_map {
	const uint8_t *data; /* own */
	size_t size;
} file_map;

nh_status file_map_open(file_map *m, const char *path, nh_error *e);
void file_map_close(file_map *m);                                   /* safe on a zeroed map */
void file_map_drop(const file_map *m, size_t offset, size_t bytes); /* hint: these pages are not needed soon */
void file_map_want(
    const file_map *m, size_t offset, size_t bytes); /* hint: these pages are needed soon; what lies past the end is nothing */

/* A regular file for reading, from its start, and its size. The caller's to fclose. */
nh_status file_open(FILE **out, size_t *size, const char *path, nh_error *e);
bool file_get(FILE *f, void *to, size_t bytes); /* the next bytes, all of them, or false */

/* Reads a whole regular file of at most `limit` bytes into out (which must be zeroed); NH_ERR_LIMIT names the limit. */
nh_status file_read(const char *path, size_t limit, buf *out, nh_error *e);

/* Fault injection (base_mem.h) for whoever calls the system itself: true, with errno set, where this read or write must fail. */
bool file_refused(mem_fault kind);

bool file_exists(const char *path); /* something is there (after following links) */
bool file_is_dir(const char *path);

/* A file that appears under its name only when complete: written to `path`.tmp.<pid>.<n> in the same folder, flushed, renamed. */
typedef struct file_writer {
	FILE *f;    /* own */
	char *path; /* own */
	char *temp; /* own */
	int error;  /* errno of the first failed write, 0 = none */
} file_writer;

nh_status file_writer_open(file_writer *w, const char *path, nh_error *e);
void file_writer_put(file_writer *w, const void *data, size_t len); /* failures are remembered until commit */
nh_status file_writer_commit(file_writer *w, nh_error *e);          /* flush, fsync, rename; on failure the temporary is removed */
void file_writer_abort(file_writer *w);                             /* removes the temporary; safe after commit and on zeroed */

/* "dir/name" in fresh memory (mem_free), NULL when out of memory. */
char *path_join(const char *dir, const char *name);
const char *path_base(const char *path); /* part after the last '/' */

/* Names in a folder, sorted by bytes, without "." and "..". Free with file_list_free. NH_ERR_LIMIT over 100,000 names. */
typedef struct file_list {
	char **names; /* own, each own */
	size_t count;
} file_list;
nh_status file_list_dir(file_list *l, const char *path, nh_error *e);
void file_list_free(file_list *l);

/* SHA-256, incremental. hex is 64 digits and a terminator. */
typedef struct sha256 sha256;
sha256 *sha256_create(void); /* NULL when out of memory */
void sha256_update(sha256 *s, const void *data, size_t len);
void sha256_finish(sha256 *s, char hex[65]); /* also frees s */
nh_status file_sha256(const char *path, char hex[65], nh_progress_fn progress, void *user, nh_error *e);

#endif
