/* SPDX-License-Identifier: Apache-2.0
 * helper_fmt.h: files for the tests of this room: a scratch folder below the build folder, and safetensors bytes from a header text.
 */
#ifndef HELPER_FMT_H
#define HELPER_FMT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/base_buf.h"
#include "base/base_log.h"

#define FMT_SCRATCH NH_BINARY_DIR "/scratch_fmt"

const char *fmt_dir(const char *name); /* an empty folder, made anew: FMT_SCRATCH/<name>; valid until the next call */
void fmt_write(const char *dir, const char *name, const void *data, size_t len); /* folders in name are made */
void fmt_text(const char *dir, const char *name, const char *text);
char *fmt_path(const char *dir, const char *name); /* mem_free */

/* Length, header, then `data` bytes 0, 1, 2, ... */
void fmt_st(buf *out, const char *header, size_t data);
void fmt_write_st(const char *dir, const char *name, const char *header, size_t data);

json_t *fmt_json(const char *text); /* asserts that it parses */

/* A logger that keeps its lines in `lines`. */
logger fmt_logger(buf *lines);

#endif
