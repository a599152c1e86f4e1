/* SPDX-License-Identifier: Apache-2.0
 * base_json.h: JSON documents through Jansson, with what published model files need on top: the bare words Infinity, -Infinity
 * and NaN (taken as numbers), duplicate keys refused by name, limits on size and depth, and getters whose errors name file and key.
 * Names start with jsn_, because json_ is Jansson's. Numbers outside double's range are refused. Values are Jansson's json_t; the caller owns what jsn_load_* returns (json_decref).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base_status.h"

#define JSON_LIMIT_CONFIG ((size_t)64 << 20) /* bytes of a config or index */
#define JSON_LIMIT_LARGE ((size_t)512 << 20) /* bytes of a tokenizer.json or golden */

/* `name` is what errors call the document. Bytes after the document other than white space are an error. */
nh_status jsn_load_text(json_t **out, const char *text, size_t len, const char *name, nh_error *e);
nh_status jsn_load_path(json_t **out, const char *path, size_t limit, nh_error *e);

/* Number of any spelling, the bare words included. */
bool jsn_is_number(const json_t *v);
double jsn_number(const json_t *v);

/* Getters: the value at `key` of object o, or the default where the key is absent or null. A value of another type is NH_ERR_CONFIG:
 * "<name>: <key>: is "x", expected an integer from lo to hi". */
nh_status jsn_get_int(
    const json_t *o, const char *name, const char *key, int64_t fallback, int64_t lo, int64_t hi, int64_t *out, nh_error *e);
nh_status jsn_get_real(const json_t *o, const char *name, const char *key, double fallback, double *out, nh_error *e);
nh_status jsn_get_bool(const json_t *o, const char *name, const char *key, bool fallback, bool *out, nh_error *e);
nh_status jsn_get_string(
    const json_t *o, const char *name, const char *key, const char *fallback, const char **out, nh_error *e); /* borrowed from o */

/* A short printable form of a value for error texts: at most 60 bytes, into `out`. */
void jsn_brief(const json_t *v, char out[64]);

#endif
