/* SPDX-License-Identifier: Apache-2.0
 * seqfile_impl.h: the reader behind seqfile.h, from any stream, for tests and the fuzzer; and where the parts of a file lie.
 */
#ifndef CACHE_SEQFILE_IMPL_H
#define CACHE_SEQFILE_IMPL_H

#include <stdio.h>

#include "cache/seqfile.h"

/* Magic, version, six texts, five numbers of tokens and time, the bytes of the contents; then ids, contents, checksum. */
#define SEQFILE_HEAD_BYTES (8 + 4 + 4 + 68 + 64 + 32 + 32 + 32 + 16 + 5 * 8 + 8)
#define SEQFILE_SUM_BYTES 8

/* f: at the start of `size` bytes. `name` stands in errors. ids and state may be NULL: then those parts are only summed up, and s and p are not used. */
nh_status seqfile_read_stream(FILE *f, uint64_t size, const char *name, seqfile_head *head, int32_t **ids, const states *s, const pages *p,
    swapped **state, nh_error *e);

#endif
