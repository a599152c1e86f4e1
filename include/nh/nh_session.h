/* SPDX-License-Identifier: Apache-2.0
 * nh_session.h: the whole state of one sequence, kept after its request has ended: continue it, fork it, save it to a file, restore it in another
 * process. A session continues exactly: no token is computed again, and on one arm the bits are those of a sequence that never stopped.
 * A session belongs to one engine. Every function may be called from any thread, but one session by one thread at a time.
 * The invariant that breaks first: the history is the tokens in the order in which they were given and drawn; the last drawn one is pending, which
 * means that it is in the history and not yet in the state.
 */
#ifndef NH_SESSION_H
#define NH_SESSION_H

#include "nh_request.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nh_session nh_session;

/* The state of a request that was submitted with keep_session and has told its last event (DONE, whatever the finish). The caller owns it.
 * NH_ERR_STATE: not kept, not ended, or taken already. */
NH_API nh_status nh_request_take_session(nh_request *request, nh_session **out, nh_error *error);
/* A second session with the same history; both then go their own ways. */
NH_API nh_status nh_session_fork(const nh_session *session, nh_session **out, nh_error *error);
/* Gives back its memory. NULL is fine; before nh_engine_close. */
NH_API void nh_session_close(nh_session *session);

/* Written to a temporary name and renamed; versioned and checksummed. */
NH_API nh_status nh_session_save(const nh_session *session, const char *path, nh_error *error);

enum {
	NH_SESSION_OTHER_ARM = 1 /* accept a file of another arm or tier: bits may then differ from a run that never stopped */
};
/* Refuses, by name, another checkpoint (identity), another profile, another KV type, a damaged or newer file. A failed load leaves the engine as it was. */
NH_API nh_status nh_session_load(nh_engine *engine, const char *path, uint32_t flags, nh_session **out, nh_error *error);

typedef struct nh_session_info {
	size_t size;
	uint32_t version;  /* of the file format */
	char identity[68]; /* of the checkpoint: 64 hex digits */
	char model[64];    /* its name, for people */
	char arm[32], numerics[32], kv_dtype[16];
	int64_t tokens;    /* history, the pending token included */
	int64_t computed;  /* tokens that the state covers */
	int64_t generated; /* of the history, tokens that the model chose */
	int64_t created;   /* Unix seconds */
	uint64_t bytes;    /* of state and pages */
} nh_session_info;

NH_API void nh_session_get_info(const nh_session *session, nh_session_info *info, size_t size);
/* The head of a file, without an engine; checks its checksum. */
NH_API nh_status nh_session_read_info(const char *path, nh_session_info *info, size_t size, nh_error *error);
/* The history's token ids: lives as long as the session. */
NH_API const int32_t *nh_session_tokens(const nh_session *session, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
