/* SPDX-License-Identifier: Apache-2.0
 * identity.h: which checkpoint is this, in well under a second: a SHA-256 over config.json, tokenizer.json, all safetensors headers and the first
 * 64 KiB of each tensor. Not a proof that every byte is right; for that use file_sha256 on each file.
 *
 * The digest is over a sequence of records. A record is: kind, 0, name, 0, length as 8 bytes little-endian, bytes.
 *   kind "version"   name "nemotron.c checkpoint identity"  bytes "1"
 *   kind "file"      name "config.json"                     its bytes
 *   kind "file"      name "tokenizer.json"                  its bytes; no record if there is no such file
 *   kind "header"    name of the safetensors file           its JSON header with padding; files in byte order of their names
 *   kind "tensor"    name of the tensor                     its first min(size, 65536) bytes; tensors in byte order of their names
 * The folder's name and where the files lie do not enter, other files do not either.
 */
#ifndef FMT_IDENTITY_H
#define FMT_IDENTITY_H

#include "base/base_status.h"
#include "fmt/st_set.h"

#define IDENTITY_TENSOR_BYTES 65536u

/* tokenizer may be NULL; set may be NULL (config alone). progress may be NULL; it counts tensors; false cancels. hex: 64 digits, "" on failure. */
nh_status identity_compute(
    const char *config, const char *tokenizer, const st_set *set, nh_progress_fn progress, void *user, char hex[65], nh_error *e);

#endif
