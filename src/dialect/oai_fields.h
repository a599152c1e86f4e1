/* SPDX-License-Identifier: Apache-2.0
 * oai_fields.h: members of a request object, taken with their bounds; null counts as absent everywhere, as OpenAI's clients send it. Internal
 * to the room. Errors: `<name>: is <what was found>, expected <what>`. The invariant that breaks first: true is no number, and "1" is none.
 */
#ifndef OAI_FIELDS_H
#define OAI_FIELDS_H

#include "dialect/oai_error.h"

/* The member, or NULL where it is absent or null. Borrowed. */
const json_t *oai_member(const json_t *object, const char *name);

/* `param: is <brief>, expected <expected>`. */
nh_status oai_expected(oai_error *e, const char *param, const json_t *found, const char *expected);

/* *out keeps its value where the member is absent. `expected` says lo and hi in words. */
nh_status oai_real(const json_t *object, const char *name, double lo, double hi, double *out, oai_error *e);
/* 2.0 is a whole number. */
nh_status oai_int(const json_t *object, const char *name, int64_t lo, int64_t hi, int64_t *out, oai_error *e);
nh_status oai_bool(const json_t *object, const char *name, bool *out, oai_error *e);

/* A list of token ids, 0 .. INT32_MAX, at most `limit`, into fresh memory (mem_free); *ids stays NULL where the member is absent or empty. */
nh_status oai_ids(const json_t *object, const char *name, size_t limit, int32_t **ids, size_t *count, oai_error *e);

/* A token id of a list: whole, 0 .. INT32_MAX. */
bool oai_is_id(const json_t *v);

/* Members whose meaning is known but not served: refused by name unless their value is the one that changes nothing. */
#define OAI_FOR_CHAT 1u
#define OAI_FOR_COMPLETIONS 2u
nh_status oai_check_unserved(const json_t *object, unsigned kind, oai_error *e);
/* Whether a member needs no mention: it is read elsewhere, it changes nothing, or oai_check_unserved looked at it. */
bool oai_is_known(const char *name, unsigned kind);

#endif
