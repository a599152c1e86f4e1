/* SPDX-License-Identifier: Apache-2.0
 * base_status.h: how this code base reports failure. A function that can fail returns nh_status and, where a human needs
 * more, takes `nh_error *e` last (may be NULL). ERR(...) fills it and yields the code, so `return ERR(e, NH_ERR_IO, ...)`.
 * Text form: "<file>: <key or tensor>: <found>, <expected>". The first writer wins only if callers stop at once: they do.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "nh/nh_types.h"

#if defined(__GNUC__)
#define BASE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define BASE_UNUSED __attribute__((unused))
#else
#define BASE_PRINTF(f, a)
#define BASE_UNUSED
#endif

/* Writes code and formatted text to e (if not NULL), made printable by err_clean; returns code. */
nh_status err_set(nh_error *e, nh_status code, const char *format, ...) BASE_PRINTF(3, 4);

/* Makes text from outside printable as one line, in place: control characters (C0, DEL, C1) and bytes that are not UTF-8 become '?'. */
void err_clean(char *text);

/* Puts "prefix: " in front of e's text (context added on the way up); e may be NULL. Returns e's code, or `code`. */
nh_status err_prefix(nh_error *e, nh_status code, const char *format, ...) BASE_PRINTF(3, 4);

/* The code again, in a form that a reader of one file, human or analyser, can follow: ERR never yields NH_OK for an error code. */
static inline nh_status err_code(nh_status told, nh_status code)
{
	(void)told;
	return code;
}

#define ERR(e, code, ...) err_code(err_set((e), (code), __VA_ARGS__), (code))
#define ERR_NOMEM(e) ERR((e), NH_ERR_NOMEM, "out of memory")

/* Returns from the calling function when `call` fails. For functions that own nothing at that point. */
#define TRY(call)                                     \
	do {                                              \
		nh_status try_status_ = (call);               \
		if (try_status_ != NH_OK) return try_status_; \
	} while (0)

/* The same with a ladder: sets `s` and jumps. */
#define TRY_GOTO(s, call, label)      \
	do {                              \
		(s) = (call);                 \
		if ((s) != NH_OK) goto label; \
	} while (0)

#endif
